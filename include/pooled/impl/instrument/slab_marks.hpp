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

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/geometry.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/instrument/free_mark.hpp"
#include "pooled/impl/os/platform.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// A slab's first record knows the class, and each record which pages of its granule are not marked. `Slab`: slab, which is not
// defined yet.
template <bool Hardened>
class basic_slab_marks {
public:
    // The size class whose free blocks are all marked; another number when some may not be marked.
    [[nodiscard]] POOLED_ALWAYS_INLINE std::uint32_t whole_class() const noexcept { return m_whole_class; }
    // Whether a block of the slab that starts at this offset may be in use.
    template <class Slab>
    [[nodiscard]] static bool may_be_in_use(Slab const& s, std::size_t offset) noexcept {
        std::size_t const page = offset / platform::k_page_bytes;
        return (unmarked(s, page) >> page % k_pages & 1U) == 0;
    }

    template <class Slab>
    void assign(Slab& s, class_index) noexcept {
        for (std::uint32_t i = 0; i < s.granules; ++i)
            (&s)[i].marks.m_unmarked = std::uint8_t{(1U << k_pages) - 1};
        m_whole_class = std::uint16_t{k_none - 1};
    }
    void unassign() noexcept { m_whole_class = k_none; }
    // Those of these pages of the slab's granule `i` are zero from now on.
    template <class Slab>
    void forget(Slab& s, std::size_t i, std::uint8_t pages) noexcept {
        basic_slab_marks& one = (&s)[i].marks;
        one.m_unmarked = static_cast<std::uint8_t>(one.m_unmarked | pages);
        if (m_whole_class != k_none) settle(s);
    }

    // Blocks of this word of the bitmap are about to be handed out.
    template <class Slab>
    POOLED_ALWAYS_INLINE void on_take(Slab& s, std::size_t word) noexcept {
        if (m_whole_class == k_none - 1) [[unlikely]]
            mark_word(s, word);
    }

private:
    static constexpr std::uint16_t k_none = 0xffff;
    static constexpr std::size_t k_pages = k_granule_bytes / platform::k_page_bytes;

    template <class Slab>
    [[nodiscard]] static std::uint8_t unmarked(Slab const& s, std::size_t page) noexcept {
        return (&s)[page / k_pages].marks.m_unmarked;
    }

    template <class Slab>
    POOLED_NOINLINE void mark_word(Slab& s, std::size_t word) noexcept {
        std::size_t const size = k_geometry[s.size_class].block_bytes;
        std::size_t const colour = s.colour();
        std::size_t const end = colour + detail::smaller<std::size_t>(s.total, (word + 1) * 64) * size;
        for (std::size_t page = (colour + word * 64 * size) / platform::k_page_bytes;
             page * platform::k_page_bytes < end; ++page) {
            auto const bit = static_cast<std::uint8_t>(1U << page % k_pages);
            if ((unmarked(s, page) & bit) == 0) continue;
            auto& record = (&s)[page / k_pages];
            record.marks.m_unmarked = static_cast<std::uint8_t>(record.marks.m_unmarked & ~bit);
            record.purged = static_cast<std::uint8_t>(record.purged & ~bit);
            std::size_t const from = page * platform::k_page_bytes;
            std::size_t i = from > colour ? (from - colour + size - 1) / size : 0;
            for (; i < s.total && colour + i * size < from + platform::k_page_bytes; ++i)
                free_mark::put_on(s.blocks + i * size);
        }
        settle(s);
    }
    template <class Slab>
    void settle(Slab& s) noexcept {
        std::uint8_t any = 0;
        for (std::uint32_t i = 0; i < s.granules; ++i)
            any = static_cast<std::uint8_t>(any | (&s)[i].marks.m_unmarked);
        m_whole_class = any == 0 ? std::uint16_t{s.size_class} : std::uint16_t{k_none - 1};
    }

    observed<std::uint8_t> m_unmarked;
    observed<std::uint16_t> m_whole_class{k_none};
};

template <>
class basic_slab_marks<false> {
public:
    [[nodiscard]] static constexpr std::uint32_t whole_class() noexcept { return 0; }
    template <class Slab>
    [[nodiscard]] static constexpr bool may_be_in_use(Slab const&, std::size_t) noexcept {
        return true;
    }
    template <class Slab>
    static constexpr void assign(Slab&, class_index) noexcept {}
    static constexpr void unassign() noexcept {}
    template <class Slab>
    static constexpr void forget(Slab&, std::size_t, std::uint8_t) noexcept {}
    template <class Slab>
    static constexpr void on_take(Slab&, std::size_t) noexcept {}
};

using slab_marks = basic_slab_marks<k_hardened>;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
