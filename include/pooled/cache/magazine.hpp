// SPDX-License-Identifier: BSL-1.0
#pragma once

// A magazine: a stack of free blocks of one class that is kept in the blocks themselves, unrolled. One block in every
// `slots + 1` is a carrier and holds the addresses of the others; only carriers are ever touched.
//
//        top                                      64-byte blocks: 3 slots, 64 carriers, 256 blocks to a full magazine
//         │
//         ▼ carrier          ▼ carrier
//        ┌──────────────┐   ┌──────────────┐
//        │ next ────────┼──▶│ next ────────┼──▶ …       every carrier below the top has all its slots in use
//        │ link         │   │ link         │            link: of the top carrier in a depot, the next full magazine;
//        │              │   │              │            else the carrier after the next, to be prefetched
//        │ slot 0 ──▶ □ │   │ slot 0 ──▶ □ │            □: free blocks, not touched while they are free
//        │ slot 1 ──▶ □ │   │ slot 1 ──▶ □ │
//        │      …       │   │      …       │
//        └──────────────┘   └──────────────┘
//
// Why not a list through all blocks: popping from one waits for a cache miss per block when the blocks are cold, since
// the next address lies in the block itself. Here the address is known before the block is touched, misses overlap, and
// a block that another thread freed is not read at all. Why not arrays of pointers: they would have to be allocated, and
// a deallocation must never do that.
//
// Invariants: size = carriers == 0 ? 0 : (carriers − 1) · (slots + 1) + 1 + used
//             used <= slots; carriers == 0 ⇔ top == null ⇒ used == 0
// One thread at a time may change it; others may read size() for statistics. All O(1), no walks, besides is_valid().

#include "pooled/base/atomics.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"

#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::detail {

// Where the hardware prefetcher is not enough. Small blocks that are neighbours it follows by itself, and is disturbed by
// more; at 128 bytes and above the carriers are too far apart for it, and at 512 the blocks. Measured, popping and pushing
// a million cold blocks of 256 bytes: 10.2 to 4.1 ns a pop; creating a million of 1500: 14.5 to 9.4 ns.
inline constexpr std::uint32_t k_prefetched_carriers = 128;
inline constexpr std::uint32_t k_prefetched_blocks = 512;
inline constexpr std::uint32_t k_prefetch_distance = 12;

// What the first bytes of a carrier hold.
struct carrier {
    carrier* next;
    carrier* link;
    [[nodiscard]] void** slots() noexcept { return reinterpret_cast<void**>(this + 1); }
};
static_assert(sizeof(carrier) == k_min_block_bytes);

// Asks for a carrier's cache lines before they are needed.
inline void prefetch_carrier(void const* block, class_geometry g) noexcept {
    auto const* const first = static_cast<std::byte const*>(block);
    for (std::size_t at = 0; at < sizeof(carrier) + g.slots * sizeof(void*); at += k_cache_line)
        __builtin_prefetch(first + at, 1);
}

class magazine {
public:
    [[nodiscard]] bool empty() const noexcept { return m_top == nullptr; }
    [[nodiscard]] bool is_full(class_geometry g) const noexcept {
        return m_carriers == g.carriers && m_used == g.slots;
    }
    [[nodiscard]] std::uint32_t size(class_geometry g) const noexcept {
        std::uint32_t const carriers = m_carriers;
        return carriers == 0 ? 0 : (carriers - 1) * g.carrier_blocks() + 1 + m_used;
    }

    // The newest slot of the top carrier, or null when it has none in use: the common case, inlined everywhere.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_slot(class_geometry g) noexcept {
        std::uint32_t const used = m_used;
        if (used == 0) [[unlikely]]
            return nullptr;
        m_used = used - 1;
        carrier* const top = m_top;
        if (g.block_bytes >= k_prefetched_blocks && used > k_prefetch_distance)
            __builtin_prefetch(top->slots()[used - 1 - k_prefetch_distance], 1);
        return top->slots()[used - 1];
    }

    // Requires that no slot is in use. The top carrier itself, or null when the magazine is empty.
    [[nodiscard]] void* pop_carrier(class_geometry g) noexcept {
        carrier* const top = m_top;
        if (top == nullptr) return nullptr;
        carrier* const below = top->next;
        m_top = below;
        m_used = below != nullptr ? g.slots : 0;
        if (g.block_bytes >= k_prefetched_carriers && below != nullptr && below->link != nullptr)
            prefetch_carrier(below->link, g);
        m_carriers.subtract(1);
        return top;
    }

    // False when there is no carrier with a slot to spare.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_slot(void* block, class_geometry g) noexcept {
        std::uint32_t const used = m_used;
        carrier* const top = m_top;
        if (used == g.slots || top == nullptr) [[unlikely]]
            return false;
        top->slots()[used] = block;
        m_used = used + 1;
        return true;
    }

    // Requires that all slots are in use, or that the magazine is empty.
    void push_carrier(void* block, class_geometry g) noexcept {
        if (g.block_bytes >= k_prefetched_carriers) prefetch_carrier(block, g);
        carrier* const top = m_top;
        m_top = ::new (block) carrier{top, top != nullptr ? top->next : nullptr};
        m_used = 0;
        m_carriers.add(1);
    }

    [[nodiscard]] void* pop(class_geometry g) noexcept {
        void* const block = pop_slot(g);
        return block != nullptr ? block : pop_carrier(g);
    }
    void push(void* block, class_geometry g) noexcept {
        if (!push_slot(block, g)) push_carrier(block, g);
    }

    // Requires a full magazine; leaves it empty. The result goes back in with put_full.
    [[nodiscard]] carrier* take_full() noexcept {
        carrier* const top = m_top;
        *this = magazine();
        return top;
    }

    // Requires an empty magazine.
    void put_full(carrier* top, class_geometry g) noexcept {
        m_top = top;
        m_used = g.slots;
        m_carriers = g.carriers;
    }

    // Requires an empty magazine; leaves `other` empty.
    void take_all(magazine& other) noexcept {
        *this = other;
        other = magazine();
    }

    // Calls visit(top carrier, its slots in use).
    template <class Visit>
    void visit_top(Visit&& visit) const noexcept {
        visit(m_top, m_used);
    }

    // Walks the carriers: for tests and checked builds.
    [[nodiscard]] bool is_valid(class_geometry g) const noexcept {
        std::uint32_t count = 0;
        for (carrier const* c = m_top; c != nullptr && count <= m_carriers; c = c->next)
            ++count;
        return count == m_carriers && m_used <= g.slots && (count != 0 || m_used == 0);
    }

private:
    observed<carrier*> m_top;
    observed<std::uint32_t> m_used;
    observed<std::uint32_t> m_carriers;
};

static_assert(sizeof(magazine) == 16);

}  // namespace pooled::detail
