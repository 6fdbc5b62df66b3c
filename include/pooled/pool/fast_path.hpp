// SPDX-License-Identifier: BSL-1.0
#pragma once

// What every allocation and deallocation runs: find this thread's cache, pass its gate, move one address. No locked
// instruction, no branch that is usually taken; everything else is a call.
//
// One path for all pools; a place says which pool, and how its cache is found:
//
//   in_default_pool       id 0, a constant                       t_state.near[0]
//   in_pool<sharing>      a given pool                           t_state.near[slot], or the local pool's own cache
//   of_block<sharing>     the pool that a block is of, asked     t_state.recent, else near[slot]
//                         of the page map
//
// With a class known at compile time its geometry folds into constants.

#include "pooled/base/size_class.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/pool/checks.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/malloc_blocks.hpp"
#include "pooled/pool/registry.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::detail {

struct in_default_pool {
    static constexpr sharing k_sharing = sharing::shared;
    [[nodiscard]] static std::uint32_t id() noexcept { return k_default_pool_id; }
    [[nodiscard]] static pool_core& core() { return g_registry.default_core(); }
    static void check_use() noexcept {}  // it is never destroyed
    [[nodiscard]] static thread_cache* cache() noexcept { return t_state.near[k_default_pool_id]; }
};

template <sharing Sharing>
class in_pool {
public:
    static constexpr sharing k_sharing = Sharing;
    explicit in_pool(pool_core& core) noexcept : m_core(core) {}
    [[nodiscard]] std::uint32_t id() const noexcept { return m_core.id(); }
    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    void check_use() const { checks::on_use(m_core); }
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* cache() const noexcept {
        if constexpr (Sharing == sharing::shared)
            return t_state.near[m_core.slot()];
        else
            return &m_core.local_cache();
    }

private:
    pool_core& m_core;
};

template <sharing Sharing>
class of_block {
public:
    static constexpr sharing k_sharing = Sharing;
    explicit of_block(map_entry entry) noexcept : m_entry(entry) {}
    [[nodiscard]] std::uint32_t id() const noexcept { return m_entry.pool_id(); }
    [[nodiscard]] pool_core& core() const noexcept { return *g_registry.find(id()); }
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* cache() const noexcept {
        if constexpr (Sharing == sharing::shared)
            return t_state.find_recent(id());
        else
            return &core().local_cache();
    }

private:
    map_entry m_entry;
};

// What is left to do once the gate is passed and the hot block did not serve. Out of line and, for a deallocation, in tail
// position, so that the inlined part needs no stack frame.
POOLED_NOINLINE inline void* allocate_cold(thread_cache& cache, class_index c) noexcept {
    void* const block = cache.classes[c].pop_cold();
    cache.gate.leave();
    return block;
}
POOLED_NOINLINE inline void* allocate_cold_local(thread_cache& cache, class_index c) noexcept {
    return cache.classes[c].pop_cold();
}
// The calling thread's cache, made if it has none; null if it can have none.
[[nodiscard]] inline thread_cache* own_cache(pool_core& core) noexcept {
    return core.is_local() ? &core.local_cache() : g_registry.attach(core);
}

// Past the thread's cache.
POOLED_NOINLINE inline void deallocate_past_cache(std::uint32_t pool_id, class_index c,
                                                  void* block) noexcept {
    pool_core& core = *g_registry.find(pool_id);
    if (core.deallocate(c, detail::own_cache(core), block)) g_registry.destroy(core);
}
POOLED_NOINLINE inline void deallocate_cold(thread_cache& cache, class_index c, void* block) noexcept {
    std::uint32_t const pool_id =
        cache.pool_id;  // outside the gate, with the block given up, the cache may be gone
    bool const is_pushed = cache.classes[c].push_cold(block);
    cache.gate.leave();
    if (!is_pushed) detail::deallocate_past_cache(pool_id, c, block);
}

// A block that this thread has cached, or null.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_cached(thread_cache* cache, class_index c) noexcept {
    if constexpr (Sharing == sharing::local) {
        void* const hot = cache->classes[c].pop_hot();
        return hot != nullptr ? hot : allocate_cold_local(*cache, c);
    } else {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return nullptr;
        void* const hot = cache->classes[c].pop_hot();
        if (hot == nullptr) [[unlikely]]
            return allocate_cold(*cache, c);
        cache->gate.leave();
        return hot;
    }
}

// False when the owner cannot enter; the block is then still the caller's.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE bool deallocate_cached(thread_cache* cache, class_index c,
                                                          void* block) noexcept {
    if constexpr (Sharing == sharing::local) {
        return !cache->gate.is_closed() && cache->classes[c].push_hot(block);
    } else {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return false;
        if (!cache->classes[c].push_hot(block)) [[unlikely]] {
            deallocate_cold(*cache, c, block);
            return true;
        }
        cache->gate.leave();
        return true;
    }
}

// What `allocate` gives; when it finds nothing, deferred objects are destroyed until it does.
template <class Allocate>
[[nodiscard]] void* with_pressure(pool_core& core, Allocate&& allocate) {
    std::uint64_t seen = ~std::uint64_t{0};
    auto const destroyed_some = [&core, &seen] {
        // acquire: pairs with the release of the teardown layer, which sets it.
        pressure_hook const hook = g_pressure_hook.load(std::memory_order_acquire);
        return hook != nullptr && hook(core, seen);
    };
    for (;;) {
        try {
            void* const block = allocate();
            if (block != nullptr || !destroyed_some()) return block;
        } catch (std::bad_alloc const&) {
            if (!destroyed_some()) throw;
        }
    }
}

// Everything that the inlined code leaves over: pools beyond the near slots, first use, stopped and closed caches. Null when
// the bound is reached; throws what upstream throws.
POOLED_NOINLINE inline void* allocate_slow(std::uint32_t pool_id, class_index c) {
    pool_core& core = pool_id == k_default_pool_id ? g_registry.default_core() : *g_registry.find(pool_id);
    if (pool_extension* const above = core.extension()) above->on_allocate();
    if (pool_id >= k_far_slot && !core.is_local())
        if (void* const block = allocate_cached<sharing::shared>(t_state.find(pool_id), c)) return block;
    return with_pressure(core, [&] { return core.memory().allocate(c, own_cache(core)); });
}
POOLED_NOINLINE inline void* allocate_slow_or_throw(std::uint32_t pool_id, class_index c, std::size_t bytes) {
    void* const block = allocate_slow(pool_id, c);
    if (block == nullptr) g_registry.find(pool_id)->throw_exhausted(bytes);
    return block;
}

POOLED_NOINLINE inline void deallocate_slow(std::uint32_t pool_id, class_index c, void* block) noexcept {
    if (pool_id >= k_far_slot && !g_registry.find(pool_id)->is_local())
        if (deallocate_cached<sharing::shared>(t_state.find(pool_id), c, block)) return;
    detail::deallocate_past_cache(pool_id, c, block);
}

// A block that the pool has taken back: for another caller.
template <class Place>
POOLED_ALWAYS_INLINE void put(Place const& place, class_index c, void* block) noexcept {
    if (!deallocate_cached<Place::k_sharing>(place.cache(), c, block)) [[unlikely]]
        deallocate_slow(place.id(), c, block);
}

// What the caller gets for the pool's block, which may be null. Throws std::bad_alloc when the tools' build finds no memory.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* hand_out(Place const& place, class_index c, void* block,
                                                  std::size_t bytes, std::size_t align) {
    checks::on_allocate(block, c, bytes);
    if constexpr (POOLED_SANITIZE != 0) {
        if (block == nullptr) return nullptr;
        void* const given = malloc_blocks::give(place.core(), block, bytes, align);
        if (given != nullptr) return given;
        checks::on_deallocate(place.id(), c, block, bytes);
        detail::put(place, c, block);
        throw std::bad_alloc();
    }
    return block;
}

// Null when the bound is reached; throws what upstream throws.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate(Place const& place, class_index c, std::size_t bytes,
                                                  std::size_t align) {
    place.check_use();
    if constexpr (Place::k_sharing == sharing::local)
        if (place.core().is_incremental()) [[unlikely]]
            return detail::hand_out(place, c, allocate_slow(place.id(), c), bytes, align);
    void* const block = allocate_cached<Place::k_sharing>(place.cache(), c);
    return detail::hand_out(place, c, block != nullptr ? block : allocate_slow(place.id(), c), bytes, align);
}

// Throws exhausted when the bound is reached.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_or_throw(Place const& place, class_index c,
                                                           std::size_t bytes, std::size_t align) {
    place.check_use();
    if constexpr (Place::k_sharing == sharing::local)
        if (place.core().is_incremental()) [[unlikely]]
            return detail::hand_out(place, c, allocate_slow_or_throw(place.id(), c, bytes), bytes, align);
    void* const block = allocate_cached<Place::k_sharing>(place.cache(), c);
    return detail::hand_out(place, c, block != nullptr ? block : allocate_slow_or_throw(place.id(), c, bytes),
                            bytes, align);
}

// `bytes` as it was allocated with, or 0: the caller does not know.
template <class Place>
POOLED_ALWAYS_INLINE void deallocate(Place const& place, class_index c, void* p,
                                     std::size_t bytes = 0) noexcept {
    void* const block = malloc_blocks::take(place.id(), c, p, bytes);
    checks::on_deallocate(place.id(), c, block, bytes);
    detail::put(place, c, block);
}

// The calling thread's cache, or null: it is not made.
[[nodiscard]] inline thread_cache* find_cache(pool_core& core) noexcept {
    return core.is_local() ? &core.local_cache() : t_state.find(core.id());
}

// `bytes` with k_guard_bytes.
POOLED_NOINLINE inline void* allocate_large(pool_core& core, std::size_t bytes, std::size_t align) {
    if (pool_extension* const above = core.extension()) above->on_allocate();
    pool_memory& memory = core.memory();
    if (void* const p = memory.take_aside(bytes, align, find_cache(core))) [[likely]]
        return p;
    return with_pressure(core, [&] { return memory.allocate_large(bytes, align, own_cache(core)); });
}

// As hand_out().
[[nodiscard]] inline void* hand_out_large(pool_core& core, void* block, std::size_t bytes,
                                          std::size_t align) {
    checks::on_allocate_large(block, bytes);
    if constexpr (POOLED_SANITIZE != 0) {
        if (block == nullptr) return nullptr;
        void* const given = malloc_blocks::give(core, block, bytes, align);
        if (given != nullptr) return given;
        static_cast<void>(
            core.deallocate_large(block, detail::find_cache(core)));  // never the last: it is open
        throw std::bad_alloc();
    }
    return block;
}

// Any size. Null when the bound is reached; throws what upstream throws.
template <class Place>
[[nodiscard]] inline void* allocate_bytes(Place const& place, std::size_t bytes, std::size_t align) {
    class_index const c = class_for(bytes, align);
    if (c != k_large) [[likely]]
        return detail::allocate(place, c, bytes, align);
    place.check_use();
    return detail::hand_out_large(
        place.core(), detail::allocate_large(place.core(), saturating_add(bytes, k_guard_bytes), align),
        bytes, align);
}

// The same; null also when upstream has no more.
template <class Place>
[[nodiscard]] inline void* try_allocate_bytes(Place const& place, std::size_t bytes, std::size_t align) {
    try {
        return detail::allocate_bytes(place, bytes, align);
    } catch (std::bad_alloc const&) {
        return nullptr;
    }
}

template <class Place>
[[nodiscard]] inline void* allocate_bytes_or_throw(Place const& place, std::size_t bytes, std::size_t align) {
    void* const p = detail::allocate_bytes(place, bytes, align);
    if (p == nullptr) [[unlikely]]
        place.core().throw_exhausted(bytes);
    return p;
}

POOLED_NOINLINE inline void deallocate_large(std::uint32_t pool_id, void* p, std::size_t bytes) noexcept {
    void* const block = malloc_blocks::take(pool_id, k_large, p, bytes);
    checks::on_deallocate_large(pool_id, block, bytes);
    pool_core& core = *g_registry.find(pool_id);
    if (core.deallocate_large(block, detail::find_cache(core))) g_registry.destroy(core);
}

template <class Place>
inline void deallocate_bytes(Place const& place, void* p, std::size_t bytes, std::size_t align) noexcept {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]]
        return detail::deallocate_large(place.id(), p, bytes);
    detail::deallocate(place, c, p, bytes);
}

// For callers that know neither the pool nor the size. Requires a block in use.
POOLED_NOINLINE inline void deallocate_found(void* p) noexcept {
    map_entry const entry = malloc_blocks::find(p);
    if constexpr (POOLED_SANITIZE != 0)
        if (entry.empty()) static_cast<void>(malloc_blocks::take(entry.pool_id(), k_large, p, 0));
    if (entry.is_large()) return detail::deallocate_large(entry.pool_id(), p, 0);
    class_index const c = entry.empty() ? k_no_class : entry.slab_at()->size_class;
    if (c >= k_class_count) [[unlikely]]
        detail::fail_deallocation("?", p, "no block in use starts there (double free, or foreign memory)");
    if (entry.is_local())
        detail::deallocate(of_block<sharing::local>(entry), c, p);
    else
        detail::deallocate(of_block<sharing::shared>(entry), c, p);
}

inline void* pool_core::do_allocate(std::size_t bytes, std::size_t align) {
    return is_local() ? detail::allocate_bytes_or_throw(in_pool<sharing::local>(*this), bytes, align)
                      : detail::allocate_bytes_or_throw(in_pool<sharing::shared>(*this), bytes, align);
}

inline void pool_core::do_deallocate(void* p, std::size_t bytes, std::size_t align) {
    if (is_local())
        detail::deallocate_bytes(in_pool<sharing::local>(*this), p, bytes, align);
    else
        detail::deallocate_bytes(in_pool<sharing::shared>(*this), p, bytes, align);
}

}  // namespace pooled::detail
