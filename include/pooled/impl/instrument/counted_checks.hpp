// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked build (POOLED_CHECKED) verifies before it uses the type in a header word: that an object of make_unique or make_rc
// starts there, and that its owner, or observer, is counted. The header of an idle object of an object_pool counts none. Empty in
// other builds. Any thread may call; O(1).

#include "pooled/config.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/impl/instrument/checks.hpp"
#include "pooled/impl/instrument/hardened.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/teardown/block_type.hpp"

#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::checks {

#if POOLED_CHECKED

inline constexpr char const* k_no_owner = "no object starts there; it was freed before (double free), is "
                                          "idle in its object_pool, or points into an object: look for a "
                                          "second owner";

// `count`: the bits of the header's word of which one must be set; 0: the caller checks them.
inline void on_deallocate_counted(void const* header, std::uint64_t count = 0) {
    on_deallocate_found(malloc_blocks::behind(header));
    std::uint64_t const word = __atomic_load_n(static_cast<std::uint64_t const*>(header), __ATOMIC_RELAXED);
    map_entry const entry = malloc_blocks::find(header);
    bool const is_known = is_plain(word)  // without an entry: the copy that has the block checks the class
                              ? entry.empty() || (word != 0 && plain_class(word) == class_of(entry))
                              : g_block_types.knows(word);
    if (!is_known || (count != 0 && (word & count) == 0))
        report(entry.pool_id(), header, k_no_owner, 0, bytes_of(entry));
}

#else

// In the hardened build: the header of a destroyed object is in the word that has the block's mark.
POOLED_ALWAYS_INLINE void on_deallocate_counted(void const* header) noexcept {
    hardened::expect_in_use(header);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::checks
