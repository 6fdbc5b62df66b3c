// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the hardened build (POOLED_HARDENED) verifies at every call. At a deallocation: the block is of this pool and size class,
// and has no mark (heap/free_mark.hpp). At an allocation: it has its mark. If two threads free a block at the same moment, or something
// overwrote the mark, that is reported before a second caller gets the block, or at the flush. The block of a library's own object is
// only marked, since its control block or header was verified.
//
// Made for production, it keeps the threads' caches: the one instrument that the inlined code knows. Any thread may call; O(1). Where
// nothing else is said, only under if constexpr (k_hardened).

#include "pooled/heap/free_mark.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"

POOLED_BEGIN_DETAIL

namespace hardened {

[[noreturn]] POOLED_NOINLINE inline void report(void const* p, char const* what) noexcept {
    detail::fail_deallocation(name_of_pool_at(p), p, what);
}

// Before anything in a block is read that was written when it was made: a count of elements, say.
POOLED_ALWAYS_INLINE void expect_in_use([[maybe_unused]] void const* block) noexcept {
    if constexpr (k_hardened)
        if (free_mark::is_on(block)) [[unlikely]]
            report(block, k_freed_before);
}

// The header of a block that is about to be freed, if it is not its first word: expect_in_use() then detects a second drop, too.
POOLED_ALWAYS_INLINE void mark_header([[maybe_unused]] void* header) noexcept {
    if constexpr (k_hardened) free_mark::put_on(header);
}

// Whether the pool with this id may take the block back. False for what this copy of the library does not know, too.
[[nodiscard]] POOLED_ALWAYS_INLINE bool admits(std::uint32_t pool_id, class_index c, void const* p) noexcept {
    map_entry const entry = g_page_map.find(p);
    return !entry.empty() && entry.pool_id() == pool_id && entry.slab_at()->may_be_in_use(c, p) &&
           !free_mark::is_on(p);
}

// Requires a block that was not admitted, of a pool that this copy of the library made.
[[noreturn]] POOLED_NOINLINE inline void report_refused(std::uint32_t pool_id, class_index c,
                                                        void const* p) noexcept {
    map_entry const entry = g_page_map.find(p);
    char const* const what = entry.empty()                           ? k_of_no_pool
                             : entry.pool_id() != pool_id            ? k_of_another_pool
                             : !entry.slab_at()->may_be_in_use(c, p) ? k_not_in_use
                                                                     : k_freed_before;
    detail::fail_deallocation(name_of_pool(pool_id), p, what);
}

// A free block, for its next owner.
POOLED_ALWAYS_INLINE void claim(void* block) noexcept {
    if (!free_mark::is_on(block)) [[unlikely]]
        report(block, "a free block was freed again (double free), or written to");
    free_mark::take_off(block);
}

// A block that returns to the core; `c`: of the request, perhaps k_large.
inline void on_deallocate(std::uint32_t pool_id, class_index c, void* block) noexcept {
    if (c == k_large) {
        if (g_page_map.find(block).empty()) return;  // the heap reports it
        expect_in_use(block);
    } else if (!admits(pool_id, c, block))
        report_refused(pool_id, c, block);
    free_mark::put_on(block);
}

}  // namespace hardened

POOLED_END_DETAIL
