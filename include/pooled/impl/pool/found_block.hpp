// SPDX-License-Identifier: BSL-1.0
#pragma once

// The deallocation of a block of which only the address is known. Any thread may call. O(1).

#include "pooled/config.hpp"
#include "pooled/detail/fast_path.hpp"
#if POOLED_HAS_CODE
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/misuse.hpp"
#include "pooled/impl/heap/slab.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/slow_path.hpp"
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Requires a block in use, of any pool and size.
POOLED_API void deallocate_found(void* p) noexcept;

#if POOLED_HAS_CODE

POOLED_CODE void deallocate_found(void* p) noexcept {
    map_entry const entry = malloc_blocks::find(p);
    if (entry.empty()) [[unlikely]]
        return detail::deallocate_elsewhere(p);
    class_index const c = entry.slab_at()->size_class;
    if (c >= k_first_large && c <= k_exact) [[unlikely]]
        return detail::deallocate_large(entry.pool_id(), p, 0);
    if (c > k_exact) [[unlikely]]
        detail::fail_deallocation("?", p, "no block in use starts there (double free, or foreign memory)");
    if (entry.is_local())
        detail::deallocate(of_block<sharing::local>(entry), c, p);
    else
        detail::deallocate(of_block<sharing::shared>(entry), c, p);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
