// SPDX-License-Identifier: BSL-1.0
#pragma once

// References: words of an image that lead into a block, as LeakSanitizer takes them. A word in the middle counts; it must be aligned.
//
// Memory is read by windows, since a read may be a system call. Complexity: O(bytes read), and O(log) for each word that may lead
// into a block.

#include "heap.hpp"
#include "image.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace poolheap {

class reference_reader {
public:
    // has_counts: whether a block has a control block at its begin.
    reference_reader(image const& from, heap const& in, std::function<bool(block_index)> has_counts = {})
        : m_from(from), m_heap(in), m_has_counts(std::move(has_counts)), m_window(k_window / k_word) {
        if (in.slabs.empty()) return;
        m_lowest = in.slabs.front().begin;
        m_highest = in.slabs.back().end();
    }

    [[nodiscard]] block_index target(address word) const { return m_heap.find(word).index; }

    // visit(address where, block_index target, address word) for each reference in a range; holes are left out. fetch(block_index target)
    // goes before, for some targets at once: they wait for memory together.
    template <class Fetch = decltype([](block_index) {})>
    void in_range(address begin, address end, auto&& visit, Fetch const& fetch = {}) {
        begin = (begin + k_word - 1) / k_word * k_word;
        while (begin + k_word <= end) {
            std::size_t const wanted = std::min<std::size_t>(k_window, (end - begin) / k_word * k_word);
            std::size_t const words = load(begin, wanted);
            for (std::size_t first = 0; first < words; first += k_together) {
                std::size_t const last = std::min(first + k_together, words);
                std::size_t count = 0;
                std::pair<std::size_t, heap::hit> hits[k_together];
                for (std::size_t i = first; i < last; ++i)
                    if (may_lead_to_block(m_window[i])) hits[count++] = {i, m_heap.slot_of(m_window[i])};
                for (auto& [i, to] : std::span(hits, count)) {
                    if (to.index != k_no_block && !m_heap.blocks[to.index]) to = {};
                    if (to.index != k_no_block) fetch(to.index);
                }
                for (auto const& [i, to] : std::span(hits, count))
                    if (to.index != k_no_block && !is_end(to, i, words))
                        visit(begin + i * k_word, to.index, m_window[i]);
            }
            begin += words * k_word;
            if (words * k_word < wanted) begin = begin / k_page * k_page + k_page;
        }
    }

    // visit(std::uint64_t offset, block_index target, address word) for each reference in a block.
    void in_block(block_index source, auto&& visit) {
        block const b = m_heap[source];
        in_range(b.begin, b.begin + b.bytes,
                 [&](address where, block_index to, address word) { visit(where - b.begin, to, word); });
    }

    // visit(block_index source, std::uint64_t offset, block_index target, address word), ascending.
    template <class Fetch = decltype([](block_index) {})>
    void in_blocks(auto&& visit, Fetch const& fetch = {}) {
        for (slab const& s : m_heap.slabs) {
            block_index source = s.first;
            address begin = s.begin;
            auto const in_block = [&](address where, block_index to, address word) {
                for (; where - begin >= s.bytes; begin += s.bytes)
                    ++source;
                if (m_heap.blocks[source]) visit(source, where - begin, to, word);
            };
            in_range(s.begin, s.end(), in_block, fetch);
        }
    }

    // visit(block_index, std::span<std::uint64_t const>) with the first words, at most `limit`, of each block for which
    // is_wanted(block_index); ascending.
    void first_words(std::size_t limit, auto&& is_wanted, auto&& visit) {
        for (slab const& s : m_heap.slabs) {
            auto const is_read = [&](std::uint32_t slot) {
                return m_heap.blocks[s.first + slot] && is_wanted(s.first + slot);
            };
            std::size_t const wanted = std::min<std::size_t>(s.bytes, limit * k_word);
            for (std::uint32_t slot = 0, count = 0; slot < s.count; slot += count) {
                count = 1;
                if (!is_read(slot)) continue;
                if (s.bytes <= k_page) count = std::min<std::uint32_t>(s.count - slot, k_window / s.bytes);
                std::size_t const words = load(s.begin + slot * s.bytes, (count - 1) * s.bytes + wanted);
                // Up to a hole in memory; what lies behind it is read anew.
                count = std::clamp<std::uint32_t>(
                    static_cast<std::uint32_t>(words * k_word / s.bytes +
                                               (words * k_word % s.bytes >= wanted)),
                    1, count);
                for (std::uint32_t i = 0; i < count; ++i) {
                    if (!is_read(slot + i)) continue;
                    std::size_t const at = std::min<std::size_t>(i * s.bytes / k_word, words);
                    visit(s.first + slot + i, std::span<std::uint64_t const>(m_window).subspan(
                                                  at, std::min(wanted / k_word, words - at)));
                }
            }
        }
    }

private:
    static constexpr std::size_t k_word = 8;
    static constexpr std::size_t k_page = 4096;
    static constexpr std::size_t k_together = 32;
    static constexpr std::size_t k_window = std::size_t{1} << 18;

    [[nodiscard]] bool may_lead_to_block(address word) const {
        return word - m_lowest < m_highest - m_lowest;
    }

    // A vector's end may be the begin of the next block, and no reference to it: begin, end and capacity are (b, e, e), (b, between, e), or
    // (b, b, e) without an element. Three plain pointers may look like the first and the last, but not if they lead to an object with
    // counts, of which the two words of a shared_ptr are different.
    [[nodiscard]] bool is_end(heap::hit const& to, std::size_t i, std::size_t words) const {
        std::uint64_t const* const w = m_window.data() + i;
        if (*w != to.begin || i == 0 || w[-1] > *w || !may_lead_to_block(w[-1])) return false;
        bool const is_last = i >= 2 && w[-2] <= w[-1] && may_lead_to_block(w[-2]);
        bool const is_middle = i + 1 < words && w[1] == *w;
        if (!is_last && !is_middle) return false;
        heap::hit const before = m_heap.find(*w - 1);
        if (before.index == k_no_block) return false;
        bool const is_capacity = is_last && w[-2] == before.begin;
        if (is_capacity && w[-1] > w[-2] && w[-1] < *w) return true;
        bool const may_be_end = is_capacity || (is_middle && w[-1] == before.begin);
        return may_be_end && m_has_counts && m_has_counts(to.index);
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
