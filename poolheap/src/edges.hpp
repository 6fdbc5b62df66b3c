// SPDX-License-Identifier: BSL-1.0
#pragma once

// What is kept for each block and each reference while a graph is built: few bits, since there are tens of millions.
//
//   entries   | target | word | last |   of all blocks in order, packed; `last` ends those of a block
//   groups    of 32 blocks: where their entries begin, and which of them have any
//
// To find the entries of a block, those of the blocks before it in its group are passed: O(entries of the group).

#include "heap.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>

namespace poolheap {

struct edge {
    block_index target = k_no_block;
    unsigned word = 0;                          // of the source, which leads there
    static constexpr unsigned k_elsewhere = 7;  // this word or one behind it, or several words
};

class edge_list {
public:
    // A block's edges from one of them on, which are their own iterator.
    class edges {
    public:
        edges(edge_list const& of, std::size_t at) : m_of(&of), m_at(at) {
            if (at != k_end) m_entry = of.entry(at);
        }
        edge operator*() const {
            return {static_cast<block_index>(m_entry >> 4), static_cast<unsigned>(m_entry >> 1 & 7)};
        }
        edges& operator++() { return *this = {*m_of, m_entry & 1 ? k_end : m_at + 1}; }
        bool operator==(std::default_sentinel_t) const { return m_at == k_end; }
        [[nodiscard]] edges begin() const { return *this; }
        [[nodiscard]] std::default_sentinel_t end() const { return {}; }

    private:
        edge_list const* m_of;
        std::size_t m_at;
        std::uint64_t m_entry = 0;
    };

    explicit edge_list(std::size_t blocks)
        : m_bits(static_cast<unsigned>(std::bit_width(blocks)) + 4), m_groups(blocks / 32 + 1) {
        m_entries.reserve(4 * blocks * m_bits / 8);  // of address space: pages count when they are written
    }
    // Sources ascend. Words that lead to the same block mostly are neighbours: the two of a shared_ptr, the links of a node.
    void add(block_index source, block_index target, std::uint64_t offset) {
        group& g = m_groups[source / 32];
        bool const is_first = !has(source);
        if (is_first) m_degree = 0;
        for (std::size_t i = 1; i <= std::min<std::size_t>(m_degree, 4); ++i)
            if (std::uint64_t const known = entry(m_count - i); known >> 4 == target)
                return put(m_count - i, known | edge::k_elsewhere << 1);
        if (g.has == 0) g.first = m_count;
        g.has |= 1U << source % 32;
        if (!is_first) put(m_count - 1, entry(m_count - 1) & ~std::uint64_t{1});
        auto const word = std::min<std::uint64_t>(offset / 8, edge::k_elsewhere);
        m_entries.resize((m_count + 1) * m_bits / 8 + 8);
        put(m_count++, std::uint64_t{target} << 4 | word << 1 | 1);
        ++m_degree;
    }
    [[nodiscard]] bool has(block_index b) const { return (m_groups[b / 32].has >> b % 32 & 1) != 0; }
    [[nodiscard]] edges operator[](block_index b) const {
        if (!has(b)) return {*this, k_end};
        std::size_t at = m_groups[b / 32].first;
        for (int before = std::popcount(m_groups[b / 32].has & ((1U << b % 32) - 1)); before != 0; ++at)
            before -= static_cast<int>(entry(at) & 1);
        return {*this, at};
    }

private:
    static constexpr std::size_t k_end = ~std::size_t{0};
    struct [[gnu::packed]] group {
        std::size_t first = 0;
        std::uint32_t has = 0;
    };

    [[nodiscard]] std::uint64_t entry(std::size_t i) const {
        std::uint64_t found;
        std::memcpy(&found, m_entries.data() + i * m_bits / 8, sizeof found);
        return found >> i * m_bits % 8 & ((std::uint64_t{1} << m_bits) - 1);
    }
    void put(std::size_t i, std::uint64_t value) {
        std::uint64_t found;
        std::uint8_t* const at = m_entries.data() + i * m_bits / 8;
        std::memcpy(&found, at, sizeof found);
        found ^= (entry(i) ^ value) << i * m_bits % 8;
        std::memcpy(at, &found, sizeof found);
    }

    unsigned m_bits;
    std::vector<group> m_groups;
    std::vector<std::uint8_t> m_entries;    // with eight bytes more than are used
    std::size_t m_count = 0, m_degree = 0;  // of all entries; of those of the last source
};

// Blocks that are still to be looked at: the last ones first, and what is too much for that in their order.
class worklist {
public:
    explicit worklist(std::size_t blocks) : m_blocks(blocks) {}

    void push(block_index b) {
        if (m_stack.size() < k_most) return m_stack.push_back(b);
        m_marked.resize(m_blocks / 64 + 1);
        m_marked[b / 64] |= std::uint64_t{1} << b % 64;
        m_next = std::min(m_next, std::size_t{b} / 64);
    }
    [[nodiscard]] std::optional<block_index> pop() {
        for (; m_stack.empty() && m_next < m_marked.size(); ++m_next)
            for (std::uint64_t& word = m_marked[m_next]; word != 0; word &= word - 1)
                m_stack.push_back(static_cast<block_index>(m_next * 64) +
                                  static_cast<block_index>(std::countr_zero(word)));
        if (m_stack.empty()) return {};
        block_index const b = m_stack.back();
        m_stack.pop_back();
        return b;
    }

private:
    static constexpr std::size_t k_most = 1 << 13;

    std::size_t m_blocks;
    std::vector<block_index> m_stack;
    std::vector<std::uint64_t> m_marked;
    std::size_t m_next = 0;  // no word before it has a mark
};

}  // namespace poolheap
