// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked build (POOLED_CHECKED) verifies before it uses the type in a header word: that an object of make_unique starts
// there. Empty in other builds. Any thread may call; O(1).

#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/pool/checks.hpp"
#include "pooled/pool/hardened.hpp"
#include "pooled/pool/malloc_blocks.hpp"
#include "pooled/teardown/block_type.hpp"

#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::checks {

#if POOLED_CHECKED

inline void on_deallocate_counted(void const* header) {
    on_deallocate_found(malloc_blocks::behind(header));
    std::uint64_t word = 0;
    __builtin_memcpy(&word, header, sizeof(word));
    map_entry const entry = malloc_blocks::find(header);
    if (entry.empty() && is_plain(word)) return;  // the copy that has the block checks it
    bool const is_known =
        is_plain(word) ? word != 0 && plain_class(word) == class_of(entry) : g_block_types.knows(word);
    if (!is_known) report(entry.pool_id(), header, "no object starts there; it was freed before", 0, 0);
}

#else

// In the hardened build: the header of a destroyed object is in the word that has the block's mark.
POOLED_ALWAYS_INLINE void on_deallocate_counted(void const* header) noexcept {
    hardened::expect_in_use(header);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::checks
