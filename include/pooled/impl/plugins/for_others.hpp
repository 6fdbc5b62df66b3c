// SPDX-License-Identifier: BSL-1.0
#pragma once

// The functions that other copies of the library's state call for blocks of this copy. They run its code, with its page map, registry
// and thread caches.
//
// The registry only declares their table (k_copy_functions), and refers to it where a pool is made. A source that makes no pool
// therefore contains none of their code. With the table in a static initialiser, each source compiled the whole heap: 2.8 s
// more with GCC 12 at -O2.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/slab.hpp"
#include "pooled/impl/instrument/malloc_backed.hpp"
#include "pooled/impl/plugins/copies.hpp"
#include "pooled/impl/pool/registry.hpp"

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

inline void* default_core_for_others() { return &g_registry.default_core(); }

inline std::uint64_t region_for_others(void const* p) {
    void const* const block = malloc_blocks::behind(p);
    map_entry const entry = g_page_map.find(block);
    if (entry.empty()) return 0;
    slab const& s = *entry.slab_at();
    return s.size_class < k_first_large || s.is_large_block(block) ? s.owner->number : 0;
}

inline void deallocate_for_others(void* p) { detail::deallocate_found(p); }

POOLED_HIDDEN inline constexpr memory_copy k_copy_functions{.region_of = region_for_others,
                                                            .deallocate = deallocate_for_others,
                                                            .default_core = default_core_for_others};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
