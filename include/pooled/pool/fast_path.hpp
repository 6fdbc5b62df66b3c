// SPDX-License-Identifier: BSL-1.0
#pragma once

// What every allocation and deallocation runs: find this thread's cache, pass its gate, move one address. No locked
// instruction, no branch that is usually taken; everything else is a call.
//
//   shared pool   t_state.find(id) ─▶ gate ─▶ class_cache
//   local pool    its one cache ─▶ class_cache
//
// With a class known at compile time the geometry folds into constants.

#include "pooled/config.hpp"
#include "pooled/core/size_class.hpp"
#include "pooled/pool/address_map.hpp"
#include "pooled/pool/checks.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_lifetime.hpp"
#include "pooled/pool/process.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/pool/thread_cache.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::detail {

POOLED_NOINLINE inline void* pop_slow(std::uint32_t pool_id, class_index c) {
    pool_core& core = pool_id == k_default_pool_id ? g_registry.default_core() : *g_registry.find(pool_id);
    return core.pop_slow(c);
}
POOLED_NOINLINE inline void push_slow(std::uint32_t pool_id, class_index c, void* block) noexcept {
    g_registry.find(pool_id)->push_slow(c, block);
}

// A block from a shared pool; null when its bound is reached. Throws what upstream throws.
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_shared(std::uint32_t pool_id, class_index c) {
    thread_cache* const cache = t_state.find(pool_id);
    if (cache != nullptr && cache->door.enter()) [[likely]] {
        void* const block = cache->classes[c].pop(k_geometry[c]);
        cache->door.leave();
        if (block != nullptr) [[likely]] return checks::on_pop(block);
    }
    return checks::on_pop(pop_slow(pool_id, c));
}

POOLED_ALWAYS_INLINE void push_shared(std::uint32_t pool_id, class_index c, void* block) noexcept {
    checks::on_push(pool_id, c, block);
    thread_cache* const cache = t_state.find(pool_id);
    if (cache != nullptr && cache->door.enter()) [[likely]] {
        bool const is_pushed = cache->classes[c].push(block, k_geometry[c]);
        cache->door.leave();
        if (is_pushed) [[likely]] return;
    }
    push_slow(pool_id, c, block);
}

[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_local(pool_core& core, class_index c) {
    void* const block = core.local_cache().classes[c].pop(k_geometry[c]);
    return checks::on_pop(block != nullptr ? block : core.pop_slow(c));
}

// A closed local pool counts its blocks home.
POOLED_ALWAYS_INLINE void push_local(pool_core& core, class_index c, void* block) noexcept {
    checks::on_push(core.id(), c, block);
    if (core.local_cache().door.is_closed() || !core.local_cache().classes[c].push(block, k_geometry[c])) [[unlikely]]
        core.push_slow(c, block);
}

// Either kind, for callers that know it at compile time.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop(pool_core& core, class_index c) {
    if constexpr (Sharing == sharing::shared)
        return pop_shared(core.id(), c);
    else
        return pop_local(core, c);
}

template <sharing Sharing>
POOLED_ALWAYS_INLINE void push(pool_core& core, class_index c, void* block) noexcept {
    if constexpr (Sharing == sharing::shared)
        push_shared(core.id(), c, block);
    else
        push_local(core, c, block);
}

// Any size. Null when the bound is reached; throws what upstream throws.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_bytes(pool_core& core, std::size_t bytes, std::size_t align) {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]] return core.allocate_large(bytes, align);
    return pop<Sharing>(core, c);
}

template <sharing Sharing>
POOLED_ALWAYS_INLINE void deallocate_bytes(pool_core& core, void* p, std::size_t bytes, std::size_t align) noexcept {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]] {
        checks::on_deallocate_large(core.id(), p);
        return core.deallocate_large(p);
    }
    push<Sharing>(core, c, p);
}

// For those who hold no pool: `entry` is what the address map says of `p`.
POOLED_ALWAYS_INLINE void deallocate_found(map_entry entry, class_index c, void* p) noexcept {
    if (c == k_large) [[unlikely]] return g_registry.find(entry.pool_id())->deallocate_large(p);
    if (entry.is_local()) [[unlikely]] return push_local(*g_registry.find(entry.pool_id()), c, p);
    push_shared(entry.pool_id(), c, p);
}

inline void* pool_core::do_allocate(std::size_t bytes, std::size_t align) {
    void* const p = is_local() ? allocate_bytes<sharing::local>(*this, bytes, align)
                               : allocate_bytes<sharing::shared>(*this, bytes, align);
    if (p == nullptr) throw_exhausted(bytes);
    return p;
}

inline void pool_core::do_deallocate(void* p, std::size_t bytes, std::size_t align) {
    if (is_local())
        deallocate_bytes<sharing::local>(*this, p, bytes, align);
    else
        deallocate_bytes<sharing::shared>(*this, p, bytes, align);
}

}  // namespace pooled::detail
