// SPDX-License-Identifier: BSL-1.0
#pragma once

// The free slabs of a heap, in the order in which they are used.
//
//   put    beside the slab before or after it in its chunk if that is free; otherwise first, so that it is the next to be used,
//          while its memory may be in the processor's caches
//   find   the slab that follows the one taken last, unless one was put since; otherwise the first
//
// Thus the slabs of a class lie one after the other, also after a long time. Each jump from one slab to another place costs up to
// 2 µs, because the processor's prefetchers begin anew (measured: docs/mechanisms.md).
//
// Invariants: a slab is listed if and only if it has no class and no reservation, and belongs to a chunk that was added;
//             fewest <= count = slabs listed.
// Guarded by the heap's lock. O(1) unless noted.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/span.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/heap/slab.hpp"

#include <cstddef>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class free_slabs {
public:
    [[nodiscard]] slab* first() const noexcept { return m_list.first(); }
    [[nodiscard]] slab* last() const noexcept { return m_list.last(); }

    [[nodiscard]] std::size_t count() const noexcept { return m_count; }

    // A slab of at least `bytes`, or null. O(1), because only the last slab of a chunk can be too short.
    [[nodiscard]] slab* find(std::size_t bytes) const noexcept {
        slab* const next = m_taken != nullptr ? free_neighbour(*m_taken, 1) : nullptr;
        return next != nullptr && next->bytes >= bytes ? next : m_list.find(bytes);
    }
    void take(slab& s) noexcept {
        if (m_walk == &s) m_walk = s.previous;
        m_list.remove(s);
        m_taken = &s;
        m_fewest = detail::min(m_fewest, --m_count);
    }
    void put(slab& s) noexcept {
        slab* const before = free_neighbour(s, -1);
        slab* const after = free_neighbour(s, 1);
        m_list.insert(s, before != nullptr ? before->next : after != nullptr ? after : m_list.first());
        m_taken = nullptr;
        ++m_count;
    }

    // A walk over all slabs, from the last to the first, which others may take and put meanwhile. Null: it is over.
    void begin_walk() noexcept { m_walk = last(); }
    [[nodiscard]] slab* walk() noexcept {
        slab* const s = m_walk;
        if (s != nullptr) m_walk = s->previous;
        return s;
    }

    // The slabs of a new chunk become the first ones, the lowest first. O(slabs of the chunk).
    void add(chunk& c) noexcept {
        for (std::size_t i = c.slab_count; i-- != 0;)
            m_list.push_front(c.slabs()[i]);
        m_count += c.slab_count;
    }
    // Removes the free slabs of a chunk without reserved slabs. O(slabs of the chunk).
    void forget(chunk& c) noexcept {
        for (slab& s : c.slabs())
            if (s.is_free()) take(s);
        m_taken = nullptr;
    }

    // The smallest number of free slabs since the last call.
    [[nodiscard]] std::size_t take_fewest() noexcept { return std::exchange(m_fewest, m_count); }

    // O(slabs).
    [[nodiscard]] bool is_valid() const noexcept {
        std::size_t listed = 0;
        for (slab const* s = first(); s != nullptr; s = s->next, ++listed)
            if (!s->is_free()) return false;
        return listed == m_count && m_fewest <= m_count;
    }

private:
    [[nodiscard]] static slab* free_neighbour(slab const& s, std::ptrdiff_t step) noexcept {
        slab* const beside = chunk::neighbour(s, step);
        return beside != nullptr && beside->is_free() ? beside : nullptr;
    }

    slab_list m_list;
    slab* m_taken = nullptr;  // the last one, unless one was put since
    slab* m_walk = nullptr;   // the next one of a walk
    std::size_t m_count = 0;
    std::size_t m_fewest = 0;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
