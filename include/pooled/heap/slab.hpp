// SPDX-License-Identifier: BSL-1.0
#pragma once

// The descriptor of a slab: up to 64 KiB of blocks of one size class. It lies in the metadata arena, apart from the memory
// it describes, and records which blocks are free: the memory itself is neither read nor written.
//
//   slab   | colour | block 0 | block 1 | block 2 | … | block total-1 | rest |
//   bits               1: free   0: in a thread's cache or in use      (bit i of word i / 64)
//
// Offsets in bytes are from memory(), the slab's first byte, unless they are called a block's.
//
// Invariants: memory() <= blocks < memory() + k_granule_bytes, equal without a class; memory() never changes, and blocks not while
//             a block is in use, so the thread that frees one may read it without the lock;
//             free = number of set bits <= total; no bit at or beyond total is set;
//             a slab without a class has free == total == 0; a purged page holds no byte of a block that is not free.
// Guarded by the lock of its class, or by that of the heap's slab lists while it has none; both are held when the class changes,
// and any thread may read which it is. O(1); take: O(words).

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/base/span.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/slab_marks.hpp"
#if POOLED_HARDENED
#include "pooled/heap/shuffled_word.hpp"
#endif
#include "pooled/os/platform.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct chunk;
struct reservation;

inline constexpr class_index k_no_class = 254;

struct alignas(k_cache_line) slab {
    static constexpr std::size_t k_word_bits = 64;
    static constexpr std::size_t k_words = k_slab_bytes / k_min_block_bytes / k_word_bits;

    std::byte* blocks = nullptr;  // the first one
    chunk* owner = nullptr;
    slab* next = nullptr;  // in a list of the heap, or of the slabs of its class with a free block
    slab* previous = nullptr;
    reservation* reserved_for = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t total = 0;
    std::uint32_t free = 0;
    std::uint16_t first_word = 0;  // no bit is set in any earlier word
    observed<std::uint8_t> size_class{static_cast<std::uint8_t>(k_no_class)};
    std::uint16_t purged_pages = 0;  // one bit per page: returned to the system, and not used since
    [[no_unique_address]] slab_marks marks;
    std::array<std::uint64_t, k_words> bits{};

    [[nodiscard]] bool is_free() const noexcept {
        return size_class == k_no_class && reserved_for == nullptr;
    }

    [[nodiscard]] std::size_t colour() const noexcept { return address_of(blocks) % k_granule_bytes; }
    [[nodiscard]] std::byte* memory() const noexcept { return blocks - colour(); }

    // All blocks free, of size class `c`. Requires a slab without a class.
    void assign(class_index c) noexcept {
        class_geometry const& g = k_geometry[c];
        size_class = static_cast<std::uint8_t>(c);
        total = free = g.blocks_in(bytes);
        blocks += g.colour_of(address_of(blocks), bytes);
        first_word = 0;
        marks.assign(c, bytes);
        std::size_t const whole = total / k_word_bits;
        for (std::size_t w = 0; w < whole; ++w)
            bits[w] = ~std::uint64_t{0};
        if (total % k_word_bits != 0) bits[whole] = (std::uint64_t{1} << (total % k_word_bits)) - 1;
    }

    // Requires a class, and all blocks free.
    void unassign() noexcept {
        for (std::size_t w = 0; w * k_word_bits < total; ++w)
            bits[w] = 0;
        marks.unassign();
        blocks = memory();
        size_class = static_cast<std::uint8_t>(k_no_class);
        total = free = 0;
    }

    // Takes up to `count` free blocks, those with the lowest addresses, and passes each address to `visit`, ascending
    // (hardened: in random order within a word of the bitmap).
    // Returns how many.
    template <class Visit>
    std::uint32_t take(std::uint32_t count, Visit&& visit) noexcept {
        if (purged_pages == 0) [[likely]]
            return take_lowest(count, visit);
        std::size_t const block_bytes = k_geometry[size_class].block_bytes;
        return take_lowest(count, [&](std::byte* block) {
            auto const offset = static_cast<std::size_t>(block - memory());
            purged_pages &= static_cast<std::uint16_t>(~touched_pages(offset, offset + block_bytes));
            visit(block);
        });
    }

    // The pages that lie completely within [first, end), which are offsets. Bits as in purged_pages.
    [[nodiscard]] static constexpr std::uint16_t pages(std::size_t first, std::size_t end) noexcept {
        std::size_t const from = (first + platform::k_page_bytes - 1) / platform::k_page_bytes;
        std::size_t const to = end / platform::k_page_bytes;
        return static_cast<std::uint16_t>(from < to ? (1U << to) - (1U << from) : 0);
    }

    // Of these pages, those in complete pages of the system, which may be larger.
    [[nodiscard]] std::uint16_t system_pages(std::size_t first, std::size_t end) const noexcept {
        std::uintptr_t const at = address_of(memory());
        auto const whole = platform::whole_pages(at + first, end - first, platform::page_bytes());
        return whole.first < whole.end ? slab::pages(whole.first - at, whole.end - at) : std::uint16_t{0};
    }

    // Those that become resident when these bytes are written.
    [[nodiscard]] std::uint16_t touched_pages(std::size_t first, std::size_t end) const noexcept {
        std::uintptr_t const at = address_of(memory());
        std::uintptr_t const from = detail::max(round_down(at + first, platform::page_bytes()), at);
        std::uintptr_t const to = detail::min(round_up(at + end, platform::page_bytes()), at + k_slab_bytes);
        return slab::pages(from - at, to - at);
    }

    template <class Visit>
    std::uint32_t take_lowest(std::uint32_t count, Visit&& visit) noexcept {
        std::size_t const block_bytes = k_geometry[size_class].block_bytes;
        std::uint32_t left = count < free ? count : free;
        std::uint32_t const taken = left;
        free -= taken;
        std::uint32_t w = first_word;
        while (left != 0) {
            marks.on_take(blocks, total, w, purged_pages);
#if POOLED_HARDENED
            if constexpr (k_hardened)
                left = take_shuffled(w, left, visit);
            else
#endif
            {
                std::uint64_t word = bits[w];
                for (; word != 0 && left != 0; --left, word &= word - 1)
                    visit(blocks +
                          (w * k_word_bits + static_cast<std::size_t>(std::countr_zero(word))) * block_bytes);
                bits[w] = word;
            }
            if (bits[w] == 0) ++w;
        }
        first_word = static_cast<std::uint16_t>(w);
        return taken;
    }

    // Prefetches up to `count` blocks that take() passes on next, for writing.
    void prefetch_lowest(std::uint32_t count) const noexcept {
        std::size_t const block_bytes = k_geometry[size_class].block_bytes;
        for (std::size_t w = first_word; w * k_word_bits < total; ++w)
            for (std::uint64_t word = bits[w]; word != 0; word &= word - 1) {
                if (count-- == 0) return;
                auto const nth = w * k_word_bits + static_cast<std::size_t>(std::countr_zero(word));
                __builtin_prefetch(blocks + nth * block_bytes, 1);
            }
    }

#if POOLED_HARDENED
    // Takes at most `left` blocks from one word. Returns how many remain to be taken.
    template <class Visit>
    std::uint32_t take_shuffled(std::uint32_t w, std::uint32_t left, Visit&& visit) noexcept {
        std::size_t const block_bytes = k_geometry[size_class].block_bytes;
        std::byte* const first = blocks + w * k_word_bits * block_bytes;
        shuffled_word word(this, first, block_bytes, bits[w]);
        left = word.take(left, visit);
        bits[w] = word.free();
        return left;
    }
#endif

    // Records as free the leading blocks of [block, end) that lie in this slab, and returns the first one that does not, or that
    // is wrong (error_of()). `g`: of the slab's class. Optimized for two kinds of flushes: each block in another slab, where entry
    // and exit cost as much as the loop; and neighbours one after the other, up or down, which take the inner loop.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* const* put(void* const* block, void* const* end,
                                                        class_geometry const& g) noexcept {
        std::uintptr_t const block_bytes = g.block_bytes;
        std::uintptr_t const first = address_of(blocks);
        std::uintptr_t const end_offset = total * block_bytes;
        void* const* const all = block;
        while (block != end) {
            std::uintptr_t offset = address_of(*block) - first;
            if (offset >= end_offset) [[unlikely]]
                break;
            std::uint32_t const index = g.index_of(static_cast<std::uint32_t>(offset));
            if (index * block_bytes != offset) [[unlikely]]
                break;
            std::uint32_t const w = index / k_word_bits;
            std::uint64_t word = bits[w];
            std::uint64_t bit = std::uint64_t{1} << (index % k_word_bits);
            if ((word & bit) != 0) [[unlikely]]
                break;
            do {
                word |= bit;
                if (++block == end) break;
                if constexpr (k_hardened) {  // not ordered, but close to each other
                    std::uintptr_t const from = w * k_word_bits * block_bytes;
                    std::uintptr_t const in_word = address_of(*block) - (first + from);
                    if (in_word >= detail::min(end_offset - from, k_word_bits * block_bytes)) break;
                    std::uint32_t const nth = g.index_of(static_cast<std::uint32_t>(in_word));
                    if (nth * block_bytes != in_word) break;
                    bit = std::uint64_t{1} << nth;
                } else {
                    std::uintptr_t const before = std::exchange(offset, address_of(*block) - first);
                    if (offset == before + block_bytes)
                        bit <<= 1;
                    else if (offset == before - block_bytes)
                        bit >>= 1;
                    else
                        break;
                    if (offset >= end_offset) break;
                }
            } while (bit != 0 && (word & bit) == 0);
            bits[w] = word;
            if (w < first_word) first_word = static_cast<std::uint16_t>(w);
        }
        free += static_cast<std::uint32_t>(block - all);
        return block;
    }

    enum class put_error : unsigned char { none, not_a_block, already_free };
    // Why put() stopped at a block; none: it lies in another slab, or is a block that is not free.
    [[nodiscard]] put_error error_of(void const* block) const noexcept {
        std::uintptr_t const offset = address_of(block) - address_of(blocks);
        std::size_t const block_bytes = k_geometry[size_class].block_bytes;
        std::size_t const index = offset / block_bytes;
        bool const is_block = index < total && index * block_bytes == offset;
        if (address_of(block) - address_of(memory()) >= bytes || (is_block && !is_free(index)))
            return put_error::none;
        return is_block ? put_error::already_free : put_error::not_a_block;
    }
    // Requires index < total.
    [[nodiscard]] bool is_free(std::size_t index) const noexcept {
        return (bits[index / k_word_bits] >> (index % k_word_bits) & 1) != 0;
    }

    [[nodiscard]] bool is_empty() const noexcept { return free == total; }  // no block is in use

    // Calls visit(first, end) for each run of free blocks, with its offsets.
    template <class Visit>
    void for_each_free_run(Visit&& visit) const noexcept {
        std::size_t const block_bytes = k_geometry[size_class].block_bytes;
        for (std::uint32_t i = 0; i < total;) {
            if (!is_free(i)) {
                ++i;
                continue;
            }
            std::uint32_t end = i + 1;
            while (end < total && is_free(end))
                ++end;
            visit(colour() + i * block_bytes, colour() + end * block_bytes);
            i = end;
        }
    }

    [[nodiscard]] bool is_valid() const noexcept {
        std::uint32_t set = 0;
        for (std::size_t w = 0; w < k_words; ++w) {
            set += static_cast<std::uint32_t>(std::popcount(bits[w]));
            if (w < first_word && bits[w] != 0) return false;
        }
        if (size_class == k_no_class) return set == 0 && free == 0 && total == 0 && colour() == 0;
        bool const none_beyond =
            total % k_word_bits == 0 || bits[total / k_word_bits] >> (total % k_word_bits) == 0;
        return set == free && free <= total && none_beyond;
    }
};

static_assert(k_slab_bytes / platform::k_page_bytes <= 16, "purged_pages has a bit for each");
static_assert(sizeof(slab) == k_cache_line + slab::k_words * sizeof(std::uint64_t));

// A list of slabs, each in at most one. O(1).
class slab_list {
public:
    [[nodiscard]] bool empty() const noexcept { return m_first == nullptr; }
    [[nodiscard]] slab* first() const noexcept { return m_first; }
    [[nodiscard]] slab* last() const noexcept { return m_last; }

    // The first slab of at least `bytes`, or null.
    [[nodiscard]] slab* find(std::size_t bytes) const noexcept {
        slab* s = m_first;
        while (s != nullptr && s->bytes < bytes)
            s = s->next;
        return s;
    }

    // Before `at`; null: at the end.
    void insert(slab& s, slab* at) noexcept {
        s.next = at;
        slab*& link = at != nullptr ? at->previous : m_last;
        s.previous = link;
        (link != nullptr ? link->next : m_first) = &s;
        link = &s;
    }
    void push_front(slab& s) noexcept { insert(s, m_first); }
    void push_back(slab& s) noexcept { insert(s, nullptr); }
    void remove(slab& s) noexcept {
        (s.previous != nullptr ? s.previous->next : m_first) = s.next;
        (s.next != nullptr ? s.next->previous : m_last) = s.previous;
        s.next = s.previous = nullptr;
    }

private:
    slab* m_first = nullptr;
    slab* m_last = nullptr;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
