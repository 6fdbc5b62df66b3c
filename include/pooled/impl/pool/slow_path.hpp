// SPDX-License-Identifier: BSL-1.0
#pragma once

// The cases that the inlined code of fast_path.hpp leaves out: first use, stopped and closed caches, pools beyond the near slots,
// large blocks, and pools and blocks of another copy of the library's state (foreign.hpp). Out of line.
//
// Any thread may call. O(1), besides what the pool's memory takes.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/instrument/hardened.hpp"
#include "pooled/impl/instrument/tracking.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/impl/pool/registry.hpp"
#if POOLED_HAS_CODE
#include "pooled/impl/instrument/free_mark.hpp"
#include "pooled/impl/pool/exhaustion.hpp"
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The calling thread's cache, which is made if it has none; null if it can have none.
[[nodiscard]] inline thread_cache* own_cache(pool_core& core) noexcept {
    return core.is_local() ? &core.local_cache() : g_registry.attach(core);
}

// The calling thread's cache if it has one, otherwise null.
[[nodiscard]] inline thread_cache* find_cache(pool_core& core) noexcept {
    return core.is_local() ? &core.local_cache() : t_state.find(core.id());
}

// The result of `allocate`; while that is null, deferred objects are destroyed, if there are any, and it is called again.
template <class Allocate>
[[nodiscard]] void* with_pressure(pool_core& core, Allocate&& allocate) {
    std::uint64_t seen = ~std::uint64_t{0};
    auto const destroyed_some = [&core, &seen] {
        // acquire: pairs with the release of the teardown layer, which sets it.
        pressure_hook const hook = g_pressure_hook.load(std::memory_order_acquire);
        return hook != nullptr && hook(core, seen);
    };
    for (;;) {
        POOLED_TRY {
            void* const block = allocate();
            if (block != nullptr || !destroyed_some()) return block;
        }
        POOLED_CATCH(std::bad_alloc const&) {
            if (!destroyed_some()) POOLED_RETHROW;
        }
    }
}

// A block that `allocate` gets from a foreign core. If there is none, objects that are deferred in this copy are destroyed.
template <class Allocate>
[[nodiscard]] void* allocate_foreign(pool_core& core, Allocate&& allocate) {
    void* const block = detail::with_pressure(core, allocate);
    if (block == nullptr || detail::expect_foreign(block)) return block;
    detail::deallocate_elsewhere(block);
    POOLED_THROW(std::bad_alloc());
}

// Null stands for the default pool.
[[nodiscard]] inline pool_core& core_or_default(pool_core* core) {
    return core != nullptr ? *core : g_registry.default_core();
}

// All cases that the inlined code does not handle: pools beyond the near slots, foreign pools, first use, stopped and closed
// caches. Null when the bound is reached; throws what upstream throws.
[[nodiscard]] POOLED_API void* allocate_slow(pool_core* known, class_index c);
// The same; throws exhausted when the bound is reached.
[[nodiscard]] POOLED_API void* allocate_slow_or_throw(pool_core* known, class_index c, std::size_t bytes);

// Without the thread's cache.
POOLED_API void deallocate_past_cache(std::uint32_t pool_id, class_index c, void* block) noexcept;
// `core` null: the page map does not know the block. `bytes`: the size with which it was allocated, or 0: not known.
POOLED_API void deallocate_in(pool_core* core, class_index c, void* block, std::size_t bytes = 0) noexcept;
POOLED_API void deallocate_slow(std::uint32_t pool_id, class_index c, void* block) noexcept;

inline constexpr char const* k_bad_alignment =
    "pooled: bad request for memory: the alignment is not a power of two; pass alignof(T)";

// `bytes` includes k_guard_bytes. Null when the bound is reached; throws what upstream throws.
[[nodiscard]] POOLED_API void* allocate_large(pool_core& core, std::size_t bytes, std::size_t align);

#if POOLED_HAS_CODE

// A block that this thread has cached, in pools beyond the near slots; null: none. The second: false when the owner cannot enter.
[[nodiscard]] inline void* allocate_far(std::uint32_t pool_id, class_index c) noexcept {
    far_pass const pass(pool_id);
    thread_cache* const cache = t_state.find(pool_id);
    if (!pass || cache == nullptr || !cache->gate.enter()) return nullptr;
    void* const hot = cache->classes[c].pop_hot();
    void* const block = hot != nullptr ? hot : cache->classes[c].pop_cold();
    cache->gate.leave();
    return block;
}
[[nodiscard]] inline bool deallocate_far(std::uint32_t pool_id, class_index c, void* block) noexcept {
    far_pass const pass(pool_id);
    thread_cache* const cache = t_state.find(pool_id);
    if (!pass || cache == nullptr || !cache->gate.enter()) return false;
    bool const is_pushed = cache->classes[c].push_hot(block) || cache->classes[c].push_cold(block);
    cache->gate.leave();
    return is_pushed;
}

POOLED_CODE void deallocate_past_cache(std::uint32_t pool_id, class_index c, void* block) noexcept {
    pool_core& core = *g_registry.find(pool_id);
    if (core.deallocate(c, detail::own_cache(core), block)) g_registry.destroy(core);
}

POOLED_CODE void* allocate_slow(pool_core* known, class_index c) {
    [[maybe_unused]] tracking::interruption const upstream_and_hooks{};
    pool_core& core = detail::core_or_default(known);
    if (detail::is_foreign(core)) [[unlikely]]
        return detail::allocate_foreign(
            core, [&] { return core.in_copy().allocate(core, c, k_geometry[c].block_bytes, 1); });
    if (pool_extension* const above = core.extension()) above->on_allocate();
    if (core.id() >= k_far_slot && !core.is_local())
        if (void* const block = allocate_far(core.id(), c)) return hardened::claimed(block);
    return with_exhaustion_hook(core, k_geometry[c].block_bytes, [&] {
        return with_pressure(core,
                             [&] { return hardened::claimed(core.memory().allocate(c, own_cache(core))); });
    });
}
POOLED_CODE void* allocate_slow_or_throw(pool_core* known, class_index c, std::size_t bytes) {
    void* const block = allocate_slow(known, c);
    if (block == nullptr) detail::core_or_default(known).throw_exhausted(bytes);
    return block;
}

POOLED_CODE void deallocate_in(pool_core* core, class_index c, void* block, std::size_t bytes) noexcept {
    if (core == nullptr || core->id() == k_no_pool_id) [[unlikely]]
        return detail::deallocate_elsewhere(block);
    if (detail::is_foreign(*core)) [[unlikely]]
        return core->in_copy().deallocate(*core, c, block, bytes);
    std::uint32_t const id = core->id();
    if (id >= k_far_slot && !core->is_local())
        if (deallocate_far(id, c, block)) return;
    detail::deallocate_past_cache(id, c, block);
}
POOLED_CODE void deallocate_slow(std::uint32_t pool_id, class_index c, void* block) noexcept {
    detail::deallocate_in(g_registry.find(pool_id), c, block);
}

// For requests that no cached large block serves. Out of line, so the caller needs no stack frame for it.
POOLED_NOINLINE inline void* allocate_another_large(pool_core& core, std::size_t bytes, std::size_t align) {
    if (detail::is_foreign(core))
        return detail::allocate_foreign(core,
                                        [&] { return core.in_copy().allocate_large(core, bytes, align); });
    return with_exhaustion_hook(core, bytes, [&] {
        return with_pressure(core,
                             [&] { return core.memory().allocate_large(bytes, align, own_cache(core)); });
    });
}
POOLED_CODE void* allocate_large(pool_core& core, std::size_t bytes, std::size_t align) {
    POOLED_CHECK(is_power_of_two(align), k_bad_alignment);
    [[maybe_unused]] tracking::interruption const upstream_and_hooks{};
    if (detail::is_foreign(core)) [[unlikely]]
        return detail::allocate_another_large(core, bytes, align);
    if (pool_extension* const above = core.extension()) [[unlikely]]
        above->on_allocate();
    void* const cached = pool_memory::take_cached(bytes, align, find_cache(core));
    void* const block = cached != nullptr ? cached : detail::allocate_another_large(core, bytes, align);
    if constexpr (k_hardened)
        if (block != nullptr) free_mark::take_off(block);
    return block;
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
