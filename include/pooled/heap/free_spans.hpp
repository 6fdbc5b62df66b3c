// SPDX-License-Identifier: BSL-1.0
#pragma once

// The free spans of a heap. Neighbours are one span.
//
//   bins   by length in granules: one for each up to 64, then four per doubling; a bit for each says whether it has a span
//   take   the span after the one taken last, unless one was put since; otherwise one of the shortest that suffice, so that
//          long ones stay; what is left over is a free span again
//   find   a few spans of each bin, since from some length on every span suffices; those that do not suffice go to the end of their bin,
//          so that another request looks at others. A heap that grows when they do not suffice either leaves few unused. find_any()
//          looks at all, for a heap that cannot grow
//   put    merges with the free spans before and after it, and becomes the first of its bin: its memory may be in the processor's caches
//
// Thus the slabs of a class lie one after the other in a pool of any age. Each jump from a slab to a distant one costs up to
// 2 µs, because the processor's prefetchers begin anew (measured: docs/mechanisms.md).
//
// Invariants: a span is listed if and only if it has no class and no reservation, and belongs to a chunk that was added; no two
//             listed spans are neighbours; granules = their sum; fewest <= granules.
// Guarded by the heap's lock. O(1) unless noted: a find looks at 4 spans in each of 137 bins at most.

#include "pooled/heap/slab.hpp"

#include <utility>

POOLED_BEGIN_DETAIL

// The span that a slab of class `c` needs: it holds `bytes` at `align`, and has better `granules`.
struct span_request {
    std::size_t granules;
    std::size_t bytes;
    std::size_t align = k_granule_bytes;
    class_index c = k_exact;

    [[nodiscard]] bool is_at_least(span_request const& other) const noexcept {
        return granules >= other.granules && bytes >= other.bytes && align >= other.align;
    }
};

class free_spans {
public:
    static constexpr std::size_t k_exact_bins = 65;  // 0 stays empty
    static constexpr std::size_t k_doublings = 18;   // up to 256 GiB, and what is longer
    static constexpr std::size_t k_bins = k_exact_bins + 4 * k_doublings;

    [[nodiscard]] std::size_t granules() const noexcept { return m_granules; }
    // With those that are lent, as nobody needs them: from before a span is taken until after it is put again.
    [[nodiscard]] std::size_t unneeded_granules() const noexcept { return m_granules + m_lent; }
    void lend(std::size_t granules) noexcept { m_lent += granules; }
    void end_loan(std::size_t granules) noexcept {
        m_lent -= granules;
        m_fewest = detail::smaller(m_fewest, unneeded_granules());
    }

    // A span that suits; null: none was found, although there may be one among others of its length that do not.
    [[nodiscard]] slab* find(span_request const& what) noexcept {
        if (m_taken != nullptr)
            if (slab* const next = chunk::after(*m_taken); is_listed(next) && suits(*next, what)) return next;
        return look(what, k_looks);
    }
    // Null: there is none. O(spans); once there is none, O(1) until one is put.
    [[nodiscard]] slab* find_any(span_request const& what) noexcept {
        if (what.is_at_least(m_none)) return nullptr;
        slab* const found = look(what, k_all);
        if (found == nullptr) m_none = what;
        return found;
    }
    // The longest span, or one nearly as long, of fewer than `most` granules; null: none.
    [[nodiscard]] slab* find_shorter(std::size_t most) const noexcept {
        for (std::size_t bin = bin_of(most); bin-- != 0;)
            if (slab* const s = m_bins[bin].first()) return s;
        return nullptr;
    }
    // The bytes from the span's first to the first one at `align`.
    [[nodiscard]] static std::size_t skip_to(slab const& s, std::size_t align) noexcept {
        return round_up(address_of(s.memory()), align) - address_of(s.memory());
    }

    // Takes `count` granules of a listed span, from granule `skip` on. Returns their first record.
    slab& take(slab& s, std::size_t count, std::size_t skip = 0) noexcept {
        unlist(s);
        chunk& c = *s.owner;
        std::size_t const all = s.granules;
        std::size_t const first = c.index_of(s);
        bool const is_purged = s.is_purged;
        slab& taken = c.record(first + skip);
        if (skip != 0) list(s, skip, is_purged);
        if (skip + count != all) list(c.record(first + skip + count), all - skip - count, is_purged);
        set_length(taken, count);
        m_taken = &taken;
        m_fewest = detail::smaller(m_fewest, unneeded_granules());
        return taken;
    }
    // Requires a span that is not listed.
    static void set_length(slab& s, std::size_t count) noexcept {
        s.granules = static_cast<std::uint32_t>(count);
        if (count > 1) s.last_record().granules = 0;
    }
    // Requires a span without a class and reservation, which is not listed. Returns the span of which it is a part then. `is_purged`: no
    // page of it is resident.
    slab& put(slab& s, bool is_purged = false) noexcept {
        slab* first = &s;
        std::size_t count = s.granules;
        if (slab* const last = chunk::before(s); last != nullptr && is_last_listed(*last)) {
            first = last - (last->granules - 1);
            count += first->granules;
            is_purged = is_purged && first->is_purged;
            unlist(*first);
        }
        if (slab* const next = chunk::after(s); is_listed(next)) {
            count += next->granules;
            is_purged = is_purged && next->is_purged;
            unlist(*next);
        }
        list(*first, count, is_purged);
        m_taken = nullptr;
        m_none.granules = k_size_max;
        return *first;
    }
    // Requires a listed span, which becomes the last of its bin.
    void move_to_end(slab& s) noexcept {
        slab_list& bin = m_bins[bin_of(s.granules)];
        bin.remove(s);
        bin.push_back(s);
    }

    // Removes the spans of a chunk. O(its spans).
    void forget(chunk& c) noexcept {
        for (std::size_t i = 0; i < c.granules; i += detail::larger<std::size_t>(c.records()[i].granules, 1))
            if (is_listed(&c.records()[i])) unlist(c.records()[i]);
        m_taken = nullptr;
        m_fewest = detail::smaller(m_fewest, unneeded_granules());
    }

    // A walk over all spans, those of the longest bin first, during which others may be taken and put.
    struct walk {
        std::size_t bin = k_bins;
        std::size_t left = 0;  // spans of the bin
    };
    // The next one, which becomes the last of its bin; null: the walk is over.
    [[nodiscard]] slab* next(walk& w) noexcept {
        for (;;) {
            while (w.left == 0) {
                if (w.bin == 0) return nullptr;
                w.left = m_counts[--w.bin];
            }
            --w.left;
            if (slab* const s = m_bins[w.bin].first()) {
                move_to_end(*s);
                return s;
            }
        }
    }

    // The smallest number of unneeded granules since the last call.
    [[nodiscard]] std::size_t take_fewest() noexcept { return std::exchange(m_fewest, unneeded_granules()); }

    // O(spans).
    [[nodiscard]] bool is_valid() noexcept {
        std::size_t listed = 0;
        bool valid = true;
        for (std::size_t bin = 0; bin < k_bins; ++bin) {
            std::uint32_t count = 0;
            valid = valid && m_bins[bin].empty() == ((m_used[bin / 64] >> (bin % 64) & 1) == 0);
            for (slab& s : m_bins[bin]) {
                listed += s.granules;
                ++count;
                slab* const last = chunk::before(s);
                valid = valid && is_listed(&s) && bin_of(s.granules) == bin &&
                        s.last_record().granules == s.granules && !is_listed(chunk::after(s)) &&
                        (last == nullptr || !is_last_listed(*last));
            }
            valid = valid && count == m_counts[bin];
        }
        return valid && listed == m_granules && m_fewest <= unneeded_granules();
    }

private:
    static constexpr std::size_t k_looks = 4;
    static constexpr std::size_t k_all = k_size_max;

    // Has the granules, and room at the alignment.
    [[nodiscard]] static bool suits(slab const& s, span_request const& what) noexcept {
        return s.granules >= what.granules && skip_to(s, what.align) + what.bytes <= s.bytes();
    }
    // Looks at `most` spans of each bin at most.
    [[nodiscard]] slab* look(span_request const& what, std::size_t most) noexcept {
        for (std::size_t bin = next_bin(bin_of(what.granules)); bin != k_bins; bin = next_bin(bin + 1)) {
            std::size_t left = most;
            for (slab& s : m_bins[bin]) {
                if (suits(s, what)) return &s;
                if (most == k_all) continue;
                move_to_end(s);
                if (--left == 0) break;
            }
        }
        return nullptr;
    }

    [[nodiscard]] static std::size_t bin_of(std::size_t granules) noexcept {
        if (granules < k_exact_bins) return granules;
        auto const log = static_cast<std::size_t>(std::bit_width(granules) - 1);
        return detail::smaller(k_exact_bins + (log - 6) * 4 + ((granules >> (log - 2)) & 3), k_bins - 1);
    }
    // The first bin from `bin` on that has a span; k_bins: none.
    [[nodiscard]] std::size_t next_bin(std::size_t bin) const noexcept {
        for (std::size_t w = bin / 64; w < m_used.size(); ++w) {
            std::uint64_t const used =
                w == bin / 64 ? m_used[w] & (~std::uint64_t{0} << (bin % 64)) : m_used[w];
            if (used != 0) return w * 64 + static_cast<std::size_t>(std::countr_zero(used));
        }
        return k_bins;
    }

    [[nodiscard]] static bool is_listed(slab const* first) noexcept {
        return first != nullptr && first->is_free();
    }
    // Whether this record is the last one of a listed span.
    [[nodiscard]] static bool is_last_listed(slab const& last) noexcept {
        return last.granules != 0 && (&last - (last.granules - 1))->is_free();
    }

    void list(slab& s, std::size_t count, bool is_purged) noexcept {
        s.is_purged = is_purged;
        s.granules = static_cast<std::uint32_t>(count);
        s.last_record().granules = s.granules;
        std::size_t const bin = bin_of(count);
        m_bins[bin].push_front(s);
        ++m_counts[bin];
        m_used[bin / 64] |= std::uint64_t{1} << (bin % 64);
        m_granules.add(count);
    }
    void unlist(slab& s) noexcept {
        std::size_t const bin = bin_of(s.granules);
        m_bins[bin].remove(s);
        --m_counts[bin];
        if (m_bins[bin].empty()) m_used[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
        m_granules.subtract(s.granules);
    }

    std::array<slab_list, k_bins> m_bins{};
    std::array<std::uint32_t, k_bins> m_counts{};
    std::array<std::uint64_t, (k_bins + 63) / 64> m_used{};
    slab* m_taken = nullptr;  // the last one, unless one was put since
    observed<std::size_t> m_granules;
    std::size_t m_fewest = 0;
    std::size_t m_lent = 0;                                   // granules
    span_request m_none{.granules = k_size_max, .bytes = 0};  // no span suits it
};

POOLED_END_DETAIL
