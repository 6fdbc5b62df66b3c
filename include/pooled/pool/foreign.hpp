// SPDX-License-Identifier: BSL-1.0
#pragma once

// Blocks and pools of another copy of the library's state (plugins/copies.hpp), as this copy uses them.
//
//   a block of an unknown pool                every copy is asked: deallocate_elsewhere()
//   a pool given by reference                 its core is virtual; allocate_elsewhere() makes the page map here ready for its blocks
//
// Any thread may call. O(copies).

#include "pooled/heap/page_map.hpp"
#include "pooled/instrument/malloc_backed.hpp"
#include "pooled/plugins/copies.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/registry.hpp"

POOLED_BEGIN_DETAIL

[[nodiscard]] inline bool is_foreign(pool_core const& core) noexcept { return g_registry.is_foreign(core); }

// Whether another copy made the core, of which this copy knows nothing.
[[nodiscard]] inline bool is_kept_elsewhere(pool_core const& core) noexcept {
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

#if POOLED_HAS_CODE

POOLED_CODE void deallocate_elsewhere(void* p) noexcept {
    t_state().use_own_gate();
    memory_copy const* const owner = other_owner_of(p);
    if (owner == nullptr) [[unlikely]]
        return malloc_blocks::report_no_block("?", p);
    owner->deallocate(p);
}

// Makes the page map ready for look-ups of a foreign core's block. False when there is no memory for that.
[[nodiscard]] inline bool expect_foreign(void const* block) noexcept {
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

POOLED_END_DETAIL
