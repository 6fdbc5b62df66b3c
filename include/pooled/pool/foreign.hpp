// SPDX-License-Identifier: BSL-1.0
#pragma once

// Blocks and pools of another copy of the library's state (os/copies.hpp), as they appear in this one.
//
//   a block whose pool nothing says           asked of every copy: deallocate_elsewhere()
//   a pool given by reference                 pool_core::in_copy(); expect_foreign() for each block that it gives
//
// Any thread may call. O(copies).

#include "pooled/config.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/os/copies.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/registry.hpp"

#include <new>

namespace pooled::detail {

[[nodiscard]] inline bool is_foreign(pool_core const& core) noexcept { return g_registry.is_foreign(core); }

// The copy that has a block which starts at `p`; null: none but this one, perhaps.
[[nodiscard]] inline memory_copy* other_owner_of(void const* p) noexcept {
    copy_directory const* const all = detail::find_directory(false);
    return all != nullptr ? all->owner_of(p, g_registry.as_copy()) : nullptr;
}

// Requires a block that the page map here does not know.
POOLED_NOINLINE inline void deallocate_elsewhere(void* p) noexcept {
    memory_copy const* const owner = other_owner_of(p);
    if (owner == nullptr) [[unlikely]]
        return detail::fail_deallocation("?", p,
                                         "no block in use starts there (double free, or foreign memory)");
    owner->deallocate(p);
}

// Before a block of a foreign core is used here: from now on the page map can be asked about it without being asked whether
// it can. False when there is no memory for that.
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

}  // namespace pooled::detail
