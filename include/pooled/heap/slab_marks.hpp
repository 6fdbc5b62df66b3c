// SPDX-License-Identifier: BSL-1.0
#pragma once

// Which free blocks of a slab have their marks (free_mark.hpp), in the hardened build.
// Unused pages, new in the size class or returned to the system, hold no marks. The marks of a page are written when a block in
// the same word of the bitmap is handed out, since the pages of a word come into use together.
//
// Invariant: each free block that starts on a page which is not in `unmarked_pages` is marked, unless it was written to.
//            Each block that starts on another page is free. A purged page is one of them.
//
// Guarded by the slab's lock; a thread that frees a block may read the two atomics. O(1); on_take: O(blocks). Empty in other builds.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/free_mark.hpp"
#include "pooled/os/platform.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <bool Hardened>
class basic_slab_marks {
public:
    // The size class whose free blocks are all marked; another number when some may not be marked.
    [[nodiscard]] POOLED_ALWAYS_INLINE std::uint32_t whole_class() const noexcept { return m_whole_class; }
    // Whether a block that starts at this offset may be in use.
    [[nodiscard]] bool may_be_in_use(std::size_t offset) const noexcept {
        return (m_unmarked_pages >> (offset / platform::k_page_bytes) & 1U) == 0;
    }

    void assign(class_index c, std::size_t bytes) noexcept {
        if (m_marked_for != c)
            m_unmarked_pages = static_cast<std::uint16_t>(
                (1U << (bytes + platform::k_page_bytes - 1) / platform::k_page_bytes) - 1);
        m_marked_for = static_cast<std::uint8_t>(c);
        settle();
    }
    void unassign() noexcept { m_whole_class = k_none; }
    // These pages are zero from now on.
    void forget(std::uint16_t pages) noexcept {
        m_unmarked_pages = static_cast<std::uint16_t>(m_unmarked_pages | pages);
        if (m_whole_class != k_none) settle();
    }

    // Blocks of this word of the bitmap are about to be handed out. `blocks`: the slab's first one; `purged`: its purged pages,
    // without those that are written to here.
    POOLED_ALWAYS_INLINE void on_take(std::byte* blocks, std::uint32_t total, std::size_t word,
                                      std::uint16_t& purged) noexcept {
        if (m_unmarked_pages != 0) [[unlikely]]
            mark_word(blocks, total, word, purged);
    }

private:
    static constexpr std::uint16_t k_none = 0xffff;

    POOLED_NOINLINE void mark_word(std::byte* blocks, std::size_t total, std::size_t word,
                                   std::uint16_t& purged) noexcept {
        std::size_t const block_bytes = k_geometry[m_marked_for].block_bytes;
        std::size_t const colour = address_of(blocks) % k_granule_bytes;
        std::size_t const end = colour + detail::min(total, (word + 1) * 64) * block_bytes;
        for (std::size_t page = (colour + word * 64 * block_bytes) / platform::k_page_bytes;
             page * platform::k_page_bytes < end; ++page) {
            if ((m_unmarked_pages >> page & 1U) == 0) continue;
            m_unmarked_pages = static_cast<std::uint16_t>(m_unmarked_pages & ~(1U << page));
            purged = static_cast<std::uint16_t>(purged & ~(1U << page));
            std::size_t const from = page * platform::k_page_bytes;
            std::size_t i = from > colour ? (from - colour + block_bytes - 1) / block_bytes : 0;
            for (; i < total && colour + i * block_bytes < from + platform::k_page_bytes; ++i)
                free_mark::put_on(blocks + i * block_bytes);
        }
        settle();
    }
    void settle() noexcept {
        m_whole_class = m_unmarked_pages == 0 ? std::uint16_t{m_marked_for} : std::uint16_t{k_none - 1};
    }

    observed<std::uint16_t> m_unmarked_pages;
    std::uint8_t m_marked_for = 0xff;  // no class
    observed<std::uint16_t> m_whole_class{k_none};
};

template <>
class basic_slab_marks<false> {
public:
    [[nodiscard]] static constexpr std::uint32_t whole_class() noexcept { return 0; }
    [[nodiscard]] static constexpr bool may_be_in_use(std::size_t) noexcept { return true; }
    static constexpr void assign(class_index, std::size_t) noexcept {}
    static constexpr void unassign() noexcept {}
    static constexpr void forget(std::uint16_t) noexcept {}
    static constexpr void on_take(std::byte*, std::size_t, std::size_t, std::uint16_t&) noexcept {}
};

using slab_marks = basic_slab_marks<k_hardened>;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
