// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked and the hardened build verify before a handle uses what lies in front of its object: that an object of make_unique or
// make_rc starts there, and that its owner, or observer, is counted. Any thread may call; O(1).

#include "pooled/heap/page_map.hpp"
#include "pooled/instrument/checked.hpp"
#include "pooled/instrument/hardened.hpp"
#include "pooled/instrument/malloc_backed.hpp"
#include "pooled/teardown/block_type.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail::instrument {

// Before the elements of an array, whose block starts at `block`, are counted.
POOLED_ALWAYS_INLINE void drop_array(void const* block) noexcept {
    checks::on_deallocate_found(malloc_blocks::behind(block));
}

#if POOLED_CHECKED

// `is_counted`: what the header's word must satisfy; null: the caller checks it.
inline void drop_counted(void const* header, bool (*is_counted)(std::uint64_t word)) noexcept {
    checks::on_deallocate_found(malloc_blocks::behind(header));
    std::uint64_t const word = __atomic_load_n(static_cast<std::uint64_t const*>(header), __ATOMIC_RELAXED);
    map_entry const entry = malloc_blocks::find(header);
    // Without an entry, the copy that has the block checks the class.
    bool const is_known =
        is_plain(word) ? entry.empty() || (word != 0 && plain_class(word) == entry.slab_at()->size_class)
                       : detail::find_type(word) != nullptr;
    if (!is_known || (is_counted != nullptr && !is_counted(word)))
        fail_deallocation(name_of_pool(entry.pool_id()), header,
                          "no object starts there; it was freed before (double free), is idle in its "
                          "object_pool, or points into an object: look for a second owner",
                          0, checks::bytes_of(entry));
}
inline void drop(void const* header) noexcept { drop_counted(header, nullptr); }

#else

POOLED_ALWAYS_INLINE void drop(void const* header) noexcept { hardened::expect_in_use(header); }
// Counting::release_strong() and release_weak() verify it.
POOLED_ALWAYS_INLINE void drop_counted(void const*, bool (*)(std::uint64_t)) noexcept {}

#endif

}  // namespace detail::instrument
POOLED_END_NAMESPACE
