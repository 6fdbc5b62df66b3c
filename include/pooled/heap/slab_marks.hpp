// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a slab of the hardened build knows of the marks in its free blocks (free_mark.hpp), and the order in which it hands
// blocks out. Pages that nobody used since the slab got its size class, or that went back to the system, hold no marks: those
// of a page are written when a block in the same word of the bitmap is handed out, the pages of which get in use together.
//
// Invariant: each free block that starts on a page which is not in `unmarked_pages` is marked, unless it was written to.
//            Each block that starts on another page is free. A purged page is one of them.
//
// Guarded by the slab's lock; who frees a block may look at the two atomics. O(1); on_take: O(blocks). Empty in other builds.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/free_mark.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/os/random.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <bool Hardened>
class basic_slab_marks {
public:
    // The size class whose free blocks are all marked; another number when some may not be.
    [[nodiscard]] POOLED_ALWAYS_INLINE std::uint32_t whole_class() const noexcept { return m_whole_class; }
    // Whether the block that starts `offset` bytes behind the base may be one in use.
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
    // These pages are zero from here on.
    void forget(std::uint16_t pages) noexcept {
        m_unmarked_pages = static_cast<std::uint16_t>(m_unmarked_pages | pages);
        if (m_whole_class != k_none) settle();
    }

    // Blocks of this word of the bitmap are about to be handed out. `bytes`: of the slab; `purged`: its purged pages, without
    // those that are written to here.
    POOLED_ALWAYS_INLINE void on_take(std::byte* base, std::size_t bytes, std::size_t word,
                                      std::uint16_t& purged) noexcept {
        if (m_unmarked_pages != 0) [[unlikely]]
            mark_word(base, bytes, word, purged);
    }

    // The bits of a word in an order of its own: index i stands for (i + m_turn) % 64 with some of its bits flipped. A step
    // takes three instructions more than in ascending order, where a choice at random for each block took a third of E2.
    class order {
    public:
        order(void const* slab, std::uint64_t word) noexcept {
            std::uint64_t const random = platform::scatter(free_mark::g_order ^ address_of(slab) ^ word);
            m_turn = random & 63;
            m_flip = random >> 6 & 63;
        }
        [[nodiscard]] std::uint64_t apply(std::uint64_t word) const noexcept {
            return std::rotr(flipped(word), static_cast<int>(m_turn));
        }
        [[nodiscard]] std::uint64_t undo(std::uint64_t word) const noexcept {
            return flipped(std::rotl(word, static_cast<int>(m_turn)));
        }
        [[nodiscard]] std::size_t index(int bit) const noexcept {
            return ((static_cast<std::size_t>(bit) + m_turn) & 63) ^ m_flip;
        }

    private:
        [[nodiscard]] std::uint64_t flipped(std::uint64_t word) const noexcept {
            constexpr std::uint64_t k_low[] = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f,
                                               0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff};
            for (unsigned i = 0; i < 6; ++i)
                if ((m_flip >> i & 1) != 0) {
                    unsigned const by = 1U << i;
                    word = (word & k_low[i]) << by | (word >> by & k_low[i]);
                }
            return word;
        }

        std::size_t m_turn;
        std::size_t m_flip;
    };

private:
    static constexpr std::uint16_t k_none = 0xffff;

    POOLED_NOINLINE void mark_word(std::byte* base, std::size_t bytes, std::size_t word,
                                   std::uint16_t& purged) noexcept {
        std::size_t const block_bytes = k_geometry[m_marked_for].block_bytes;
        std::size_t const end = detail::min(bytes, (word + 1) * 64 * block_bytes);
        for (std::size_t page = word * 64 * block_bytes / platform::k_page_bytes;
             page * platform::k_page_bytes < end; ++page) {
            if ((m_unmarked_pages >> page & 1U) == 0) continue;
            m_unmarked_pages = static_cast<std::uint16_t>(m_unmarked_pages & ~(1U << page));
            purged = static_cast<std::uint16_t>(purged & ~(1U << page));
            std::size_t const from = page * platform::k_page_bytes;
            std::size_t at = (from + block_bytes - 1) / block_bytes * block_bytes;
            for (; at < from + platform::k_page_bytes && at + block_bytes <= bytes; at += block_bytes)
                free_mark::put_on(base + at);
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

    // Ascending.
    struct order {
        constexpr order(void const*, std::uint64_t) noexcept {}
        [[nodiscard]] static constexpr std::uint64_t apply(std::uint64_t word) noexcept { return word; }
        [[nodiscard]] static constexpr std::uint64_t undo(std::uint64_t word) noexcept { return word; }
        [[nodiscard]] static constexpr std::size_t index(int bit) noexcept {
            return static_cast<std::size_t>(bit);
        }
    };
};

using slab_marks = basic_slab_marks<k_hardened>;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
