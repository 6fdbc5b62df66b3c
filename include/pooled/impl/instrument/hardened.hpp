// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the hardened build (POOLED_HARDENED) verifies at every call. At a deallocation: the block is of this pool and size class,
// and has no mark (impl/instrument/free_mark.hpp). At an allocation: it has its mark. A double free is therefore reported at the call. If two
// threads free the block at the same moment, or something overwrote the mark, it is reported before a second caller gets the
// block, or at the flush. Empty in other builds.
//
// Any thread may call; O(1).

#include "pooled/config.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/misuse.hpp"
#include "pooled/impl/instrument/free_mark.hpp"
#include "pooled/impl/pool/registry.hpp"
#if POOLED_HARDENED
#include "pooled/impl/heap/slab.hpp"
#endif

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::hardened {

inline constexpr bool k_is_on = k_hardened;

// What is known of a block. A library's own object is reached through its control block or header, where a mark is seen before
// the block is freed again. Where that is the block's first word, making the object also overwrites the mark.
enum class origin : unsigned char {
    unknown,        // anything: all of it is verified
    padded_object,  // an object whose header lies after the block's first word: the mark is verified
    object,         // one whose header is the first word: nothing is left to verify
};
[[nodiscard]] constexpr origin origin_of(std::size_t align) noexcept {
    return align <= sizeof(std::uintptr_t) ? origin::object : origin::padded_object;
}

#if POOLED_HARDENED

// Some free blocks of the slab are not marked, or it is of another size class.
[[nodiscard]] POOLED_NOINLINE inline bool may_be_in_use(slab const& s, class_index c,
                                                        void const* p) noexcept {
    auto const offset = static_cast<std::size_t>(address_of(p) - address_of(s.memory()));
    return s.size_class == c && offset < s.bytes() && slab_marks::may_be_in_use(s, offset);
}

// Whether the pool with this id may take the block back; it is marked then. False for what this copy of the library does not
// know, too.
[[nodiscard]] POOLED_ALWAYS_INLINE bool admits([[maybe_unused]] std::uint32_t pool_id,
                                               [[maybe_unused]] class_index c, [[maybe_unused]] void* p,
                                               [[maybe_unused]] origin from) noexcept {
    if constexpr (k_is_on) {
        if (from == origin::object) {
            free_mark::put_on(p);
            return true;
        }
        if (from == origin::padded_object) return free_mark::put_on_if_off(p);
        map_entry const entry = g_page_map.find(p);
        if (entry.empty() || entry.pool_id() != pool_id) [[unlikely]]
            return false;
        slab const& s = *entry.slab_at();
        if (s.marks.whole_class() != c && !hardened::may_be_in_use(s, c, p)) [[unlikely]]
            return false;
        return free_mark::put_on_if_off(p);
    }
    return true;
}

// Requires a block that was not admitted, of a pool that this copy of the library made.
POOLED_NOINLINE inline void report(std::uint32_t pool_id, class_index c, void* p) noexcept {
    map_entry const entry = g_page_map.find(p);
    char const* what = "it was freed before (double free)";
    if (entry.empty())
        what = "the address is of no pool";
    else if (entry.pool_id() != pool_id)
        what = "it belongs to another pool";
    else if (entry.slab_at()->size_class != c && entry.slab_at()->size_class <= k_exact)
        what = "it is no block in use of this size (double free, or another size)";
    fail_deallocation(g_registry.name_of(pool_id), p, what);
}

// Of a block that carries its mark.
POOLED_NOINLINE inline void report_freed(void const* block) noexcept {
    fail_deallocation(g_registry.name_of(g_page_map.find(block).pool_id()), block,
                      "it was freed before (double free)");
}

// Before anything in a block is read that was written when it was made: a count of elements, say.
POOLED_ALWAYS_INLINE void expect_in_use([[maybe_unused]] void const* block) noexcept {
    if constexpr (k_is_on)
        if (free_mark::is_on(block)) [[unlikely]]
            hardened::report_freed(block);
}

// The header of a block that is about to be freed, if it is not the block's first word: expect_in_use() then detects a second
// drop as well.
inline void mark_header(void* header) noexcept {
    if constexpr (k_is_on) free_mark::put_on(header);
}

POOLED_NOINLINE inline void report_unmarked(void* block) noexcept {
    fail_deallocation(g_registry.name_of(g_page_map.find(block).pool_id()), block,
                      "a free block was freed again (double free), or written to");
}

// The block for its next owner; null stays null. `as`: what it is for.
[[nodiscard]] POOLED_ALWAYS_INLINE void* claimed(void* block,
                                                 [[maybe_unused]] origin as = origin::unknown) noexcept {
    if constexpr (k_is_on) {
        if (block == nullptr) return nullptr;
        if (!free_mark::is_on(block)) [[unlikely]]
            hardened::report_unmarked(block);
        if (as != origin::object) free_mark::take_off(block);
    }
    return block;
}

// A block that the core gives, and one that returns to it; `c`: of the request, perhaps k_large.
inline void on_allocate([[maybe_unused]] class_index c, [[maybe_unused]] void* block) noexcept {
    if constexpr (k_is_on) {
        if (c == k_large) return free_mark::take_off(block);
        static_cast<void>(claimed(block));
    }
}
inline void on_deallocate([[maybe_unused]] std::uint32_t pool_id, [[maybe_unused]] class_index c,
                          [[maybe_unused]] void* block) noexcept {
    if constexpr (k_is_on) {
        if (c != k_large) {
            if (!admits(pool_id, c, block, origin::unknown)) report(pool_id, c, block);
        } else if (!g_page_map.find(block).empty() && !free_mark::put_on_if_off(block))
            report_freed(block);
    }
}

#else

POOLED_ALWAYS_INLINE void on_allocate(class_index, void*) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate(std::uint32_t, class_index, void*) noexcept {}
POOLED_ALWAYS_INLINE void expect_in_use(void const*) noexcept {}
POOLED_ALWAYS_INLINE void mark_header(void*) noexcept {}
[[nodiscard]] POOLED_ALWAYS_INLINE bool admits(std::uint32_t, class_index, void*, origin) noexcept {
    return true;
}
[[nodiscard]] POOLED_ALWAYS_INLINE void* claimed(void* block, origin = origin::unknown) noexcept {
    return block;
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::hardened
