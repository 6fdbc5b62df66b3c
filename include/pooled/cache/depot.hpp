// SPDX-License-Identifier: BSL-1.0
#pragma once

// The free blocks of one size class that no thread has cached: a stack of full magazines, and one that is filling up with
// what came back singly. Magazines are exchanged whole, in O(1) (Bonwick and Adams, "Magazines and Vmem", 2001).
//
//   full ─▶ magazine ─link─▶ magazine ─link─▶ …        loose: fewer than a full magazine
//
// Invariant: size() = full magazines · blocks of one + loose.size(); loose is never full.
// Not thread-safe: the lock of the size class guards it; others may read size() for statistics.

#include "pooled/base/atomics.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/cache/magazine.hpp"

#include <cstdint>

namespace pooled::detail {

class depot {
public:
    [[nodiscard]] std::uint64_t size(class_geometry g) const noexcept {
        return m_full_count * std::uint64_t{g.magazine_blocks()} + m_loose.size(g);
    }
    [[nodiscard]] bool empty() const noexcept { return m_full == nullptr && m_loose.empty(); }

    void put_full(carrier* top) noexcept {
        top->link = m_full;
        m_full = top;
        m_full_count.add(1);
    }

    // A full magazine's top carrier, or null.
    [[nodiscard]] carrier* take_full(class_geometry g) noexcept {
        carrier* const top = m_full;
        if (top == nullptr) return nullptr;
        m_full = top->link;
        m_full_count.subtract(1);
        if (carrier* const next = m_full; next != nullptr && g.block_bytes >= k_prefetched_carriers)
            prefetch_carrier(next, g);  // the next refill is likely to be soon
        return top;
    }

    void put(void* block, class_geometry g) noexcept {
        m_loose.push(block, g);
        if (m_loose.is_full(g)) put_full(m_loose.take_full());
    }

    // One block, or null.
    [[nodiscard]] void* take(class_geometry g) noexcept {
        if (m_loose.empty()) {
            carrier* const top = take_full(g);
            if (top == nullptr) return nullptr;
            m_loose.put_full(top, g);
        }
        return m_loose.pop(g);
    }

    // All of `from`, block by block unless it is full. O(blocks): for threads that end and for raids.
    void put_all(magazine& from, class_geometry g) noexcept {
        if (from.is_full(g)) return put_full(from.take_full());
        while (void* const block = from.pop(g))
            put(block, g);
    }

    // Requires an empty `into`. A full magazine, or whatever is loose; false when there is nothing.
    [[nodiscard]] bool refill(magazine& into, class_geometry g) noexcept {
        if (carrier* const top = take_full(g)) {
            into.put_full(top, g);
            return true;
        }
        if (m_loose.empty()) return false;
        into.take_all(m_loose);
        return true;
    }

    // Calls visit(block) for each block; the depot does not change. O(blocks).
    template <class Visit>
    void for_each(class_geometry g, Visit&& visit) const noexcept {
        for (carrier* top = m_full; top != nullptr; top = top->link)
            visit_carriers(top, g.slots, g.slots, visit);
        m_loose.visit_top(
            [&](carrier* top, std::uint32_t used) { visit_carriers(top, used, g.slots, visit); });
    }

    [[nodiscard]] bool is_valid(class_geometry g) const noexcept {
        std::uint64_t full = 0;
        for (carrier const* top = m_full; top != nullptr && full <= m_full_count; top = top->link)
            ++full;
        return full == m_full_count && m_loose.is_valid(g) && !m_loose.is_full(g);
    }

private:
    template <class Visit>
    static void visit_carriers(carrier* c, std::uint32_t used, std::uint32_t slots, Visit& visit) noexcept {
        for (; c != nullptr; c = c->next, used = slots) {
            for (std::uint32_t i = 0; i < used; ++i)
                visit(c->slots()[i]);
            visit(static_cast<void*>(c));
        }
    }

    observed<carrier*> m_full;
    observed<std::uint64_t> m_full_count;
    magazine m_loose;
};

}  // namespace pooled::detail
