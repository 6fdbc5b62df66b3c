// SPDX-License-Identifier: BSL-1.0
#pragma once

// The operations on a pool as a whole: reserve, trim, and membership of an address. Any thread may call.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/instrument/checks.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/pool/slow_path.hpp"
#if POOLED_HAS_CODE
#include "pooled/detail/page_map.hpp"
#include "pooled/impl/cache/cache_set.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/os/metadata.hpp"
#endif

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// `count` objects of one type, each of them a block of class `a` or `b`, which are those of any_class_for(); `large`: the request, if
// one of them is large. False when the bound does not allow it; throws what upstream throws.
[[nodiscard]] POOLED_API bool try_reserve(pool_core& core, class_index a, class_index b, std::size_t count,
                                          large_shape large);

// The same; throws exhausted.
inline void reserve_classes(pool_core& core, class_index a, class_index b, std::size_t count,
                            large_shape large) {
    checks::on_reserve(core);
    if (detail::try_reserve(core, a, b, count, large)) return;
    std::size_t const bytes = a < k_first_large ? k_geometry[a].block_bytes : large.bytes;
    core.throw_exhausted(saturating_multiply(count, bytes));
}

POOLED_API std::size_t trim(pool_core& core) noexcept;

[[nodiscard]] POOLED_API bool owns(pool_core const& core, void const* p) noexcept;

#if POOLED_HAS_CODE

// Makes the calling thread's cache, and reserves memory for the caches of threads that will use the pool later, so that they
// make no system call. Throws std::bad_alloc.
inline void reserve_caches(pool_core& core, class_index a, class_index b) {
    if (!core.is_local() && g_registry.attach(core) == nullptr) return;
    core.caches().reserve_arrays(a);
    core.caches().reserve_arrays(b);
}

POOLED_CODE bool try_reserve(pool_core& core, class_index a, class_index b, std::size_t count,
                             large_shape large) {
    if (detail::is_foreign(core)) return core.in_copy().reserve(core, a, b, count, large);
    POOLED_CHECK(is_power_of_two(large.align), k_bad_alignment);
    detail::reserve_caches(core, a, b);
    large.bytes = saturating_add(large.bytes, k_guard_bytes);
    return core.memory().reserve(a, b, count, large);
}

POOLED_CODE std::size_t trim(pool_core& core) noexcept {
    return detail::is_foreign(core) ? core.in_copy().trim(core) : core.memory().trim();
}

POOLED_CODE bool owns(pool_core const& core, void const* p) noexcept {
    if (detail::is_foreign(core)) return core.in_copy().owns(core, p);
    map_entry const entry = malloc_blocks::find(p);
    return !entry.empty() && entry.pool_id() == core.id();
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
