// SPDX-License-Identifier: BSL-1.0
#pragma once

// What is kept for each block and each reference while a graph is built: few bits, since there are tens of millions.
//
//   entries   | degrees | target | word | target | word | …    of each 64 blocks, packed
//   groups    where those of each 64 blocks begin
//
// A degree has three bits, each in a word for all 64; 7: the first entry is the number. Where a block's entries lie is guessed before its
// degree is there, so that a step of a walk in random order waits for memory once, and those from several blocks at once.

#include "heap.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <ranges>
#include <span>

namespace poolheap {

// A read whose value nobody waits for. Prefetches are dropped where the address needs a walk through page tables.
inline void fetch(void const* at) { static_cast<void>(*static_cast<char const volatile*>(at)); }
inline void fetch(std::vector<bool> const& bits, std::size_t at) {
    [[maybe_unused]] bool const volatile found = bits[at];
}

// The bits from one of them on, at most 57; at least 8 bytes from its own on are there.
inline std::uint64_t bits_at(std::vector<std::uint8_t> const& in, std::size_t at, unsigned bits) {
    std::uint64_t found;
    std::memcpy(&found, in.data() + at / 8, sizeof found);
    return found >> at % 8 & ((std::uint64_t{1} << bits) - 1);
}
inline void put_bits(std::vector<std::uint8_t>& in, std::size_t at, unsigned bits, std::uint64_t value) {
    std::uint64_t found;
    std::memcpy(&found, in.data() + at / 8, sizeof found);
    found ^= (bits_at(in, at, bits) ^ value) << at % 8;
    std::memcpy(in.data() + at / 8, &found, sizeof found);
}

// A number for each block, 0 at first, of as many bits as the greatest one needs.
class block_numbers {
public:
    explicit block_numbers(std::size_t blocks, std::uint32_t greatest = 1) : m_blocks(blocks) {
        m_bytes.reserve(4 * blocks + 8);  // of address space: pages count when they are written
        use_huge_pages(m_bytes);
        widen(static_cast<unsigned>(std::bit_width(greatest)));
    }
    [[nodiscard]] std::size_t size() const { return m_blocks; }
    [[nodiscard]] std::uint32_t operator[](block_index b) const {
        return static_cast<std::uint32_t>(bits_at(m_bytes, std::size_t{b} * m_bits, m_bits));
    }
    void set(block_index b, std::uint32_t number) {
        if (std::uint64_t{number} >> m_bits != 0) widen(static_cast<unsigned>(std::bit_width(number)));
        put_bits(m_bytes, std::size_t{b} * m_bits, m_bits, number);
    }
    void fetch(block_index b) const { poolheap::fetch(&m_bytes[std::size_t{b} * m_bits / 8]); }

private:
    // In place, the last one first: none is moved to where another one still is.
    void widen(unsigned bits) {
        m_bytes.resize(m_blocks * bits / 8 + 9);
        for (std::size_t b = m_bits == 0 ? 0 : m_blocks; b-- > 0;)
            put_bits(m_bytes, b * bits, bits, bits_at(m_bytes, b * m_bits, m_bits));
        m_bits = bits;
    }

    std::size_t m_blocks;
    unsigned m_bits = 0;
    std::vector<std::uint8_t> m_bytes;
};

struct edge {
    block_index target = k_no_block;
    unsigned word = 0;                          // of the source, which leads there
    static constexpr unsigned k_elsewhere = 7;  // this word or one behind it, or several words
};

class edge_list {
public:
    explicit edge_list(std::size_t blocks)
        : m_bits(static_cast<unsigned>(std::bit_width(blocks)) + 3),
          m_group_count(blocks / k_guessed * k_guesses + k_guesses) {
        m_groups.reserve(m_group_count + 1);
        use_huge_pages(m_groups);
        m_entries.reserve(4 * blocks * m_bits / 8);  // of address space: pages count when they are written
        use_huge_pages(m_entries);
    }
    // Sources ascend. Words that lead to the same block mostly are neighbours: the two of a shared_ptr, the links of a node.
    void add(block_index source, block_index target, std::uint64_t offset) {
        begin_groups(source / k_group + 1);
        degrees all = degrees_of(source);
        std::uint64_t const degree = all[source];
        if (degree == 0) m_begin = m_end;
        for (std::size_t at = m_end; at != m_begin && at + 4 * m_bits != m_end;)
            if (std::uint64_t const known = entry(at -= m_bits); known >> 3 == target)
                return put(at, known | edge::k_elsewhere);
        if (degree < k_many) {
            all.set(source, degree + 1);
            std::memcpy(m_entries.data() + begin_of(m_groups.size() - 1), &all, sizeof all);
        }
        if (degree + 1 == k_many) {
            append(0);
            for (std::size_t at = m_end; (at -= m_bits) != m_begin;)
                put(at, entry(at - m_bits));
            m_begin += m_bits;
        }
        append(std::uint64_t{target} << 3 | std::min<std::uint64_t>(offset / 8, edge::k_elsewhere));
        if (degree + 1 >= k_many) put(m_begin - m_bits, (m_end - m_begin) / m_bits);
    }
    // After the last one.
    void settle() {
        begin_groups(m_group_count + 1);
        for (std::size_t i = 0; i <= m_group_count; i += k_guesses)
            m_guesses.push_back(begin_of(i));
    }
    // Of a block that is not behind the last source, until the list is settled.
    [[nodiscard]] bool has(block_index b) const { return degrees_of(b)[b] != 0; }
    // Of a block: a range of edge.
    [[nodiscard]] auto operator[](block_index b) const {
        degrees const all = degrees_of(b);
        std::uint64_t before = (std::uint64_t{1} << b % k_group) - 1;
        std::size_t at = 8 * (begin_of(b / k_group) + sizeof all);
        for (std::uint64_t many = all.bits[0] & all.bits[1] & all.bits[2] & before; many != 0;
             many &= many - 1) {
            std::uint64_t const next = many & -many;
            at += all.sum(before & (next - 1)) * m_bits;
            at += (entry(at) + 1) * m_bits;
            before &= ~(next | (next - 1));
        }
        at += all.sum(before) * m_bits;
        std::size_t degree = all[b];
        if (degree == k_many) degree = entry(at), at += m_bits;
        return std::views::iota(std::size_t{0}, degree) | std::views::transform([this, at](std::size_t i) {
                   std::uint64_t const found = entry(at + i * m_bits);
                   return edge{static_cast<block_index>(found >> 3), static_cast<unsigned>(found & 7)};
               });
    }
    // What the edges of these blocks need, into the processor's cache: where that lies is guessed, from numbers that mostly are there.
    void fetch(std::span<block_index const> blocks) const {
        for (block_index const b : blocks) {
            poolheap::fetch(&m_groups[b / k_group]);
            std::size_t const first = m_guesses[b / k_guessed], bytes = m_guesses[b / k_guessed + 1] - first;
            std::uint8_t const* const group =
                &m_entries[first + bytes * (b % k_guessed / k_group) / k_guesses];
            poolheap::fetch(group);
            poolheap::fetch(group + sizeof(degrees) +
                            (bytes / k_guesses - sizeof(degrees)) * (b % k_group) / k_group);
        }
    }

private:
    static constexpr block_index k_group = 64, k_guesses = 1024, k_guessed = k_guesses * k_group;
    static constexpr unsigned k_many = 7;
    struct degrees {
        std::uint64_t bits[3];

        [[nodiscard]] unsigned operator[](block_index b) const {
            b %= k_group;
            return static_cast<unsigned>((bits[0] >> b & 1) | (bits[1] >> b & 1) << 1 |
                                         (bits[2] >> b & 1) << 2);
        }
        void set(block_index b, std::uint64_t degree) {
            for (unsigned i = 0; i < 3; ++i)
                bits[i] = (bits[i] & ~(std::uint64_t{1} << b % k_group)) | (degree >> i & 1) << b % k_group;
        }
        // Of some of the blocks.
        [[nodiscard]] std::size_t sum(std::uint64_t of) const {
            return static_cast<std::size_t>(std::popcount(bits[0] & of) + 2 * std::popcount(bits[1] & of) +
                                            4 * std::popcount(bits[2] & of));
        }
    };

    [[nodiscard]] degrees degrees_of(block_index b) const {
        degrees found;
        std::memcpy(&found, m_entries.data() + begin_of(b / k_group), sizeof found);
        return found;
    }
    [[nodiscard]] std::size_t begin_of(std::size_t group) const { return std::size_t{8} * m_groups[group]; }
    [[nodiscard]] std::uint64_t entry(std::size_t at) const { return bits_at(m_entries, at, m_bits); }
    void put(std::size_t at, std::uint64_t value) { put_bits(m_entries, at, m_bits, value); }
    void append(std::uint64_t value) {
        put(m_end, value);
        m_end += m_bits;
        grow();
    }
    void begin_groups(std::size_t count) {
        while (m_groups.size() < count) {
            m_groups.push_back(static_cast<std::uint32_t>((m_end + 63) / 64));
            m_end = 64 * std::size_t{m_groups.back()} + 8 * sizeof(degrees);
            grow();
        }
    }
    // Zeros to write to: degrees and an entry, and what else is read with it.
    void grow() {
        if (std::size_t const least = m_end / 8 + sizeof(degrees) + 16; m_entries.size() < least)
            m_entries.resize(least + 4096);
    }

    unsigned m_bits;
    std::size_t m_group_count;
    std::vector<std::uint32_t> m_groups;  // where each begins, in 8 bytes; behind the last, the end
    std::vector<std::size_t> m_guesses;   // some of these in bytes, so few that they stay in the cache
    std::vector<std::uint8_t> m_entries;
    std::size_t m_end = 0, m_begin = 0;  // in bits: of all entries; where those of the last source begin
};

// Blocks that are still to be looked at: the last ones first, and what is too much for that in their order.
class worklist {
public:
    void push(block_index b) {
        if (m_stack.size() < k_most) return m_stack.push_back(b);
        if (m_marked.size() <= b / 64) m_marked.resize(b / 64 + 1);
        m_marked[b / 64] |= std::uint64_t{1} << b % 64;
        m_next = std::min(m_next, std::size_t{b} / 64);
    }
    // Some of them, until the next call; none: nothing is left.
    [[nodiscard]] std::span<block_index const> take() {
        for (; m_stack.empty() && m_next < m_marked.size(); ++m_next)
            for (std::uint64_t& word = m_marked[m_next]; word != 0; word &= word - 1)
                m_stack.push_back(static_cast<block_index>(m_next * 64) +
                                  static_cast<block_index>(std::countr_zero(word)));
        std::size_t const count = std::min(m_stack.size(), std::size(m_taken));
        std::copy_n(m_stack.end() - static_cast<std::ptrdiff_t>(count), count, m_taken);
        m_stack.resize(m_stack.size() - count);
        return {m_taken, count};
    }

private:
    static constexpr std::size_t k_most = 1 << 13;

    std::vector<block_index> m_stack;
    std::vector<std::uint64_t> m_marked;
    block_index m_taken[16];
    std::size_t m_next = 0;  // no word before it has a mark
};

// In levels: all of one are taken before what is pushed meanwhile.
class breadth_first_worklist {
public:
    void push(block_index b) { m_levels[!m_level].push(b); }
    [[nodiscard]] std::span<block_index const> take() {
        auto const found = m_levels[m_level].take();
        if (!found.empty()) return found;
        m_level = !m_level;
        return m_levels[m_level].take();
    }

private:
    worklist m_levels[2];
    bool m_level = false;
};

}  // namespace poolheap
