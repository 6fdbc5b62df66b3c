// SPDX-License-Identifier: BSL-1.0
#pragma once

// What every allocation and deallocation runs: find this thread's cache, pass its gate, move one address. No locked
// instruction, no branch that is usually taken; everything else is a call.
//
//   shared pool   t_state.find(id) ─▶ gate ─▶ class_cache
//   local pool    its one cache ─▶ class_cache
//
// With a class known at compile time the geometry folds into constants.

#include "pooled/base/size_class.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/pool/checks.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_lifetime.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/process.hpp"
#include "pooled/pool/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::detail {

// What is left to do once the gate is passed and the hot block did not serve. Out of line and, for a deallocation, in tail
// position, so that the inlined part needs no stack frame.
POOLED_NOINLINE inline void* pop_cold(thread_cache& cache, class_index c) noexcept {
    void* const block = cache.classes[c].pop_cold(k_geometry[c]);
    cache.door.leave();
    return block;
}
POOLED_NOINLINE inline void push_cold(thread_cache& cache, class_index c, void* block) noexcept {
    std::uint32_t const pool_id =
        cache.pool_id;  // outside the gate, with the block given up, the cache may be gone
    bool const is_pushed = cache.classes[c].push_cold(block, k_geometry[c]);
    cache.door.leave();
    if (!is_pushed) g_registry.find(pool_id)->push_slow(c, block);
}

// A block that this thread has cached, or null.
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_cached(thread_cache* cache, class_index c) noexcept {
    if (cache == nullptr || !cache->door.enter()) [[unlikely]]
        return nullptr;
    void* const hot = cache->classes[c].pop_hot();
    if (hot == nullptr) [[unlikely]]
        return pop_cold(*cache, c);
    cache->door.leave();
    return hot;
}

// False when there is no way into the cache; the block is then still the caller's.
[[nodiscard]] POOLED_ALWAYS_INLINE bool push_cached(thread_cache* cache, class_index c,
                                                    void* block) noexcept {
    if (cache == nullptr || !cache->door.enter()) [[unlikely]]
        return false;
    if (!cache->classes[c].push_hot(block)) [[unlikely]] {
        push_cold(*cache, c, block);
        return true;
    }
    cache->door.leave();
    return true;
}

// Deferred objects of an incremental pool are destroyed by its allocations; not within a call to upstream, where the lock of
// another pool is held.
inline void call_on_allocate(pool_core& core) noexcept {
    if (pool_extension* const extension = core.extension(); extension != nullptr && t_upstream_calls == 0)
        extension->on_allocate();
}

// What `allocate` gives; where it finds nothing, deferred objects are destroyed, some at a time, until it does.
template <class Allocate>
[[nodiscard]] void* allocate_under_pressure(pool_core& core, Allocate&& allocate) {
    if (t_upstream_calls == 0) t_refused.count = 0;
    pressure state;
    auto const is_more = [&core, &state]() noexcept {
        if (t_upstream_calls != 0) {
            t_refused.note(core);
            return false;
        }
        // acquire: pairs with the release of whoever set it.
        pressure_hook const hook = g_pressure_hook.load(std::memory_order_acquire);
        return hook != nullptr && hook(core, state);
    };
    for (;;) {
        try {
            void* const block = allocate();
            if (block != nullptr || !is_more()) return block;
        } catch (std::bad_alloc const&) {
            if (!is_more()) throw;
        }
    }
}

// Everything that the inlined code leaves over: pools beyond the near slots, first use, stopped and closed caches.
POOLED_NOINLINE inline void* pop_slow(std::uint32_t pool_id, class_index c) {
    if (pool_id >= k_far_slot) {
        pool_core& far = *g_registry.find(pool_id);
        if (far.is_incremental()) call_on_allocate(far);
        if (void* const block = pop_cached(t_state.find(pool_id), c)) return block;
    }
    pool_core& core = pool_id == k_default_pool_id ? g_registry.default_core() : *g_registry.find(pool_id);
    return allocate_under_pressure(core, [&] { return core.pop_slow(c); });
}
POOLED_NOINLINE inline void* pop_slow_or_throw(std::uint32_t pool_id, class_index c, std::size_t bytes) {
    void* const block = pop_slow(pool_id, c);
    if (block == nullptr) g_registry.find(pool_id)->throw_exhausted(bytes);
    return checks::on_pop(block);
}
POOLED_NOINLINE inline void push_slow(std::uint32_t pool_id, class_index c, void* block) noexcept {
    if (pool_id >= k_far_slot && push_cached(t_state.find(pool_id), c, block)) return;
    g_registry.find(pool_id)->push_slow(c, block);
}

POOLED_ALWAYS_INLINE void push_to(thread_cache* cache, std::uint32_t pool_id, class_index c,
                                  void* block) noexcept {
    checks::on_push(pool_id, c, block);
    if (!push_cached(cache, c, block)) [[unlikely]]
        push_slow(pool_id, c, block);
}

POOLED_ALWAYS_INLINE void push_shared(std::uint32_t slot, std::uint32_t pool_id, class_index c,
                                      void* block) noexcept {
    push_to(t_state.near[slot], pool_id, c, block);
}

// A closed local pool counts its blocks home.
POOLED_NOINLINE inline void push_local_cold(pool_core& core, class_index c, void* block) noexcept {
    if (core.local_cache().door.is_closed() || !core.local_cache().classes[c].push(block, k_geometry[c]))
        core.push_slow(c, block);
}
POOLED_ALWAYS_INLINE void push_local(pool_core& core, class_index c, void* block) noexcept {
    checks::on_push(core.id(), c, block);
    thread_cache& cache = core.local_cache();
    if (cache.door.is_closed() || !cache.classes[c].push_hot(block)) return push_local_cold(core, c, block);
}

// Either kind, for callers that know it at compile time.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_cached(pool_core& core, class_index c) noexcept {
    if constexpr (Sharing == sharing::shared) {
        return pop_cached(t_state.near[core.slot()], c);
    } else {
        thread_cache& cache = core.local_cache();
        if (core.is_incremental()) [[unlikely]]
            call_on_allocate(core);
        void* const hot = cache.classes[c].pop_hot();
        return hot != nullptr ? hot : pop_cold(cache, c);
    }
}

// Null when the bound is reached; throws what upstream throws.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop(pool_core& core, class_index c) {
    void* const block = pop_cached<Sharing>(core, c);
    return checks::on_pop(block != nullptr ? block : pop_slow(core.id(), c));
}

// Throws exhausted when the bound is reached. `bytes` is for the message.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_or_throw(pool_core& core, class_index c, std::size_t bytes) {
    void* const block = pop_cached<Sharing>(core, c);
    return block != nullptr ? checks::on_pop(block) : pop_slow_or_throw(core.id(), c, bytes);
}

template <sharing Sharing>
POOLED_ALWAYS_INLINE void push(pool_core& core, class_index c, void* block) noexcept {
    if constexpr (Sharing == sharing::shared)
        push_shared(core.slot(), core.id(), c, block);
    else
        push_local(core, c, block);
}

// From and to the default pool: its id is a constant.
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_default_or_throw(class_index c, std::size_t bytes) {
    void* const block = pop_cached(t_state.near[k_default_pool_id], c);
    return block != nullptr ? checks::on_pop(block) : pop_slow_or_throw(k_default_pool_id, c, bytes);
}
POOLED_ALWAYS_INLINE void push_default(class_index c, void* block) noexcept {
    push_shared(k_default_pool_id, k_default_pool_id, c, block);
}

// Any size. Null when the bound is reached; throws what upstream throws.
template <sharing Sharing>
[[nodiscard]] inline void* allocate_bytes(pool_core& core, std::size_t bytes, std::size_t align) {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]] {
        if (core.is_incremental()) call_on_allocate(core);
        return allocate_under_pressure(core, [&] { return core.allocate_large(bytes, align); });
    }
    return pop<Sharing>(core, c);
}

// The same; null also when upstream has no more.
template <sharing Sharing>
[[nodiscard]] inline void* try_allocate_bytes(pool_core& core, std::size_t bytes, std::size_t align) {
    try {
        return allocate_bytes<Sharing>(core, bytes, align);
    } catch (std::bad_alloc const&) {
        return nullptr;
    }
}

template <sharing Sharing>
[[nodiscard]] inline void* allocate_bytes_or_throw(pool_core& core, std::size_t bytes, std::size_t align) {
    void* const p = allocate_bytes<Sharing>(core, bytes, align);
    if (p == nullptr) [[unlikely]]
        core.throw_exhausted(bytes);
    return p;
}

template <sharing Sharing>
inline void deallocate_bytes(pool_core& core, void* p, std::size_t bytes, std::size_t align) noexcept {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]] {
        checks::on_deallocate_large(core.id(), p, bytes);
        return core.deallocate_large(p);
    }
    push<Sharing>(core, c, p);
}

// For those who hold no pool but know its kind: `entry` is what the address map says of `p`.
template <sharing Sharing>
POOLED_ALWAYS_INLINE void push_found(map_entry entry, class_index c, void* p) noexcept {
    if constexpr (Sharing == sharing::shared)
        push_to(t_state.find_recent(entry.pool_id(), entry.slot()), entry.pool_id(), c, p);
    else
        push_local(*g_registry.find(entry.pool_id()), c, p);
}

// For those who hold no pool: `entry` is what the address map says of `p`.
POOLED_ALWAYS_INLINE void deallocate_found(map_entry entry, class_index c, void* p) noexcept {
    if (c == k_large) [[unlikely]] {
        checks::on_deallocate_large(entry.pool_id(), p, 0);
        return g_registry.find(entry.pool_id())->deallocate_large(p);
    }
    if (entry.is_local()) [[unlikely]]
        return push_local(*g_registry.find(entry.pool_id()), c, p);
    push_found<sharing::shared>(entry, c, p);
}

inline void* pool_core::do_allocate(std::size_t bytes, std::size_t align) {
    return is_local() ? allocate_bytes_or_throw<sharing::local>(*this, bytes, align)
                      : allocate_bytes_or_throw<sharing::shared>(*this, bytes, align);
}

inline void pool_core::do_deallocate(void* p, std::size_t bytes, std::size_t align) {
    if (is_local())
        deallocate_bytes<sharing::local>(*this, p, bytes, align);
    else
        deallocate_bytes<sharing::shared>(*this, p, bytes, align);
}

}  // namespace pooled::detail
