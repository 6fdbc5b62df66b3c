// SPDX-License-Identifier: BSL-1.0
#pragma once

// Blocks and pools of another copy of the library's state (impl/plugins/copies.hpp), as this copy uses them.
//
//   a block of an unknown pool                every copy is asked: deallocate_elsewhere()
//   a pool given by reference                 pool_core::in_copy(); expect_foreign() for each block that it gives
//
// In builds that watch blocks (checked, tracked, sanitized), only the copy that made a pool knows its blocks, so each operation
// asks it first. In other builds, the fast path finds no cache and calls these functions.
//
// Any thread may call. O(copies).

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/impl/instrument/dead_pools.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/plugins/copies.hpp"
#include "pooled/impl/pool/registry.hpp"

#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

[[nodiscard]] inline bool is_foreign(pool_core const& core) noexcept { return g_registry.is_foreign(core); }

inline constexpr bool k_watches_blocks = POOLED_CHECKED != 0 || POOLED_SANITIZE != 0 || POOLED_TRACKED != 0;

// Whether another copy made the core. The memory there is not trusted: the pool may have been destroyed.
[[nodiscard]] inline bool is_kept_elsewhere(pool_core const& core) noexcept {
#if POOLED_CHECKED
    if (g_dead_pools.is_known(&core)) return false;
#endif
    copy_directory const* const all = detail::find_directory(false);
    memory_copy const& self = g_registry.as_copy();
    for (memory_copy const* one = all != nullptr ? all->first() : nullptr; one != nullptr; one = one->next)
        if (one != &self && one == &core.made_by().as_copy()) return true;
    return false;
}

// The other copy that has a block which starts at `p`; null: no other copy has.
[[nodiscard]] inline memory_copy* other_owner_of(void const* p) noexcept {
    copy_directory const* const all = detail::find_directory(false);
    return all != nullptr ? all->owner_of(p, g_registry.as_copy()) : nullptr;
}

// Requires a block that this copy's page map does not know.
POOLED_API void deallocate_elsewhere(void* p) noexcept;

// Makes the page map ready for look-ups of a foreign core's block. False when there is no memory for that.
[[nodiscard]] POOLED_API bool expect_foreign(void const* block) noexcept;

#if POOLED_HAS_CODE

POOLED_CODE void deallocate_elsewhere(void* p) noexcept {
    memory_copy const* const owner = other_owner_of(p);
    if (owner == nullptr) [[unlikely]]
        return malloc_blocks::report_no_block(k_no_pool_id, p);
    owner->deallocate(p);
}

POOLED_CODE bool expect_foreign(void const* block) noexcept {
    if (!g_page_map.prepare(block, 1)) return false;
    if (g_registry.find(k_no_pool_id) != nullptr) [[likely]]
        return true;
    POOLED_TRY {
        g_registry.make_unknown();
        return true;
    }
    POOLED_CATCH(std::bad_alloc const&) { return false; }
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
