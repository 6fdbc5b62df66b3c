// SPDX-License-Identifier: BSL-1.0
#pragma once

// References: words of an image that lead into a block, as LeakSanitizer takes them. A word in the middle counts; it must be aligned.
//
// Memory is read by windows, since a read may be a system call. Complexity: O(bytes read), and O(log) for each word that may lead
// into a block.

#include "heap.hpp"
#include "image.hpp"
#include "progress.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace poolheap {

using block_index = std::uint32_t;  // in heap::blocks
inline constexpr block_index k_no_block = ~block_index{0};

class reference_reader {
public:
    // has_counts: whether a block has a control block at its begin.
    reference_reader(image const& from, heap const& in, std::function<bool(block_index)> has_counts = {})
        : m_from(from), m_heap(in), m_has_counts(std::move(has_counts)), m_window(k_window / k_word) {
        if (in.blocks.empty()) return;
        m_lowest = in.blocks.front().begin;
        m_highest = in.blocks.back().begin + in.blocks.back().bytes;
    }

    [[nodiscard]] block_index target(address word) const {
        if (word - m_lowest >= m_highest - m_lowest) return k_no_block;
        block const* const found = m_heap.find(word);
        return found ? static_cast<block_index>(found - m_heap.blocks.data()) : k_no_block;
    }

    // visit(address where, block_index target, address word) for each reference in a range; holes are left out.
    template <class Visit>
    void in_range(address begin, address end, Visit&& visit) {
        begin = (begin + k_word - 1) / k_word * k_word;
        while (begin + k_word <= end) {
            std::size_t const wanted = std::min<std::size_t>(k_window, (end - begin) / k_word * k_word);
            std::size_t const words = load(begin, wanted);
            for (std::size_t i = 0; i < words; ++i) {
                block_index const to = target(m_window[i]);
                if (to != k_no_block && !is_end(to, i, words)) visit(begin + i * k_word, to, m_window[i]);
            }
            begin += words * k_word;
            if (words * k_word < wanted) begin = begin / k_page * k_page + k_page;
        }
    }

    // visit(std::uint64_t offset, block_index target, address word) for each reference in a block.
    template <class Visit>
    void in_block(block_index source, Visit&& visit) {
        block const& b = m_heap.blocks[source];
        in_range(b.begin, b.begin + b.bytes,
                 [&](address where, block_index to, address word) { visit(where - b.begin, to, word); });
    }

    // visit(block_index source, std::uint64_t offset, block_index target, address word), ascending.
    template <class Visit>
    void in_blocks(char const* stage, Visit&& visit) {
        std::vector<block> const& blocks = m_heap.blocks;
        progress told(stage, blocks.size());
        for (std::size_t first = 0; first < blocks.size();) {
            std::size_t const last = neighbours(first);
            address const end = blocks[last - 1].begin + blocks[last - 1].bytes;
            std::size_t source = first;
            in_range(blocks[first].begin, end, [&](address where, block_index to, address word) {
                while (source + 1 < last && blocks[source + 1].begin <= where)
                    ++source;
                address const offset = where - blocks[source].begin;
                if (offset < blocks[source].bytes) visit(static_cast<block_index>(source), offset, to, word);
            });
            first = last;
            told.at(first);
        }
    }

    // visit(block_index, std::span<std::uint64_t const>) with the first words of each block, at most `limit`; ascending.
    template <class Visit>
    void first_words(char const* stage, std::size_t limit, Visit&& visit) {
        std::vector<block> const& blocks = m_heap.blocks;
        progress told(stage, blocks.size());
        for (std::size_t first = 0; first < blocks.size();) {
            std::size_t const last = neighbours(first);
            address const begin = blocks[first].begin;
            address const end = blocks[last - 1].begin + blocks[last - 1].bytes;
            std::size_t const words = load(begin, std::min<std::size_t>(end - begin, k_window));
            for (std::size_t i = first; i < last; ++i) {
                std::size_t const from = std::min<std::size_t>((blocks[i].begin - begin) / k_word, words);
                std::size_t const mine = std::min<std::size_t>(blocks[i].bytes / k_word, limit);
                visit(static_cast<block_index>(i),
                      std::span<std::uint64_t const>(m_window).subspan(from, std::min(mine, words - from)));
            }
            first = last;
            told.at(first);
        }
    }

private:
    static constexpr std::size_t k_word = 8;
    static constexpr std::size_t k_page = 4096;
    static constexpr std::size_t k_window = std::size_t{1} << 18;

    // One behind the last block that fits into a window with `first`: as many as one read may fetch.
    [[nodiscard]] std::size_t neighbours(std::size_t first) const {
        std::vector<block> const& blocks = m_heap.blocks;
        address const begin = blocks[first].begin;
        std::size_t last = first + 1;
        while (last < blocks.size() &&
               blocks[last].begin - (blocks[last - 1].begin + blocks[last - 1].bytes) <= k_page &&
               blocks[last].begin + blocks[last].bytes - begin <= k_window)
            ++last;
        return last;
    }

    // A vector's end may be the begin of the next block, and no reference to it: begin, end and capacity are (b, e, e) or (b, between, e).
    // Three plain pointers may look like the first, but not if they lead to an object with counts, of which the two words of a
    // shared_ptr are different.
    [[nodiscard]] bool is_end(block_index to, std::size_t i, std::size_t words) const {
        std::uint64_t const* const w = m_window.data() + i;
        if (to == 0 || *w != m_heap.blocks[to].begin) return false;
        block const& before = m_heap.blocks[to - 1];
        if (before.begin + before.bytes != *w) return false;
        bool const is_capacity = i >= 2 && w[-2] == before.begin && w[-1] > w[-2];
        if (is_capacity && w[-1] < *w) return true;
        bool const is_full =
            (is_capacity && w[-1] == *w) || (i >= 1 && i + 1 < words && w[-1] == before.begin && w[1] == *w);
        return is_full && m_has_counts && m_has_counts(to);
    }

    std::size_t load(address begin, std::size_t bytes) {
        std::span<std::byte> const to(reinterpret_cast<std::byte*>(m_window.data()), bytes);
        return m_from.read(begin, to) / k_word;
    }

    image const& m_from;
    heap const& m_heap;
    std::function<bool(block_index)> m_has_counts;
    std::vector<std::uint64_t> m_window;
    address m_lowest = 0;
    address m_highest = 0;
};

}  // namespace poolheap
