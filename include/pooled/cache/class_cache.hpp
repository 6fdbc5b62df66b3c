// SPDX-License-Identifier: BSL-1.0
#pragma once

// What one thread keeps of one size class: the block it freed last, the magazine it works on, a second full one, and a
// run of fresh blocks.
//
//   hot      one block in front of all: create-and-drop never meets a magazine, or the edge of a carrier
//   loaded   pushed to and popped from; a block just freed is warm and goes out first
//   spare    a full magazine or none: a thread whose need goes up and down around a magazine's edge stays off the depot
//   run      fresh blocks of a slab, handed out one after the other, untouched until then
//
// Invariant: held = (hot ? 1 : 0) + loaded.size + (spare ? blocks of a magazine : 0) + run_left
//            frees − allocations of this thread = held − net_taken   (net_taken: blocks taken from the class's central
//            stock less those given back), so blocks freed here that other threads allocated cost nothing to count.
// Only the owner (inside its gate, or under the class's lock) or a raider changes it; sizes may be read at any time.
// One cache line. O(1).

#include "pooled/base/atomics.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/cache/magazine.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::detail {

class alignas(k_cache_line) class_cache {
public:
    // The block freed last, or null.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_hot() noexcept {
        void* const hot = m_hot;
        if (hot != nullptr) [[likely]]
            m_hot = nullptr;
        return hot;
    }

    // False when there is a hot block already.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_hot(void* block) noexcept {
        if (m_hot != nullptr) [[unlikely]]
            return false;
        m_hot = block;
        return true;
    }

    // Requires that there is no hot block. A free block, or null when the thread has none.
    [[nodiscard]] void* pop_cold(class_geometry g) noexcept {
        if (void* const block = m_loaded.pop(g)) [[likely]]
            return block;
        if (carrier* const spare = m_spare) {
            m_spare = nullptr;
            m_loaded.put_full(spare, g);
            return m_loaded.pop(g);
        }
        if (m_run_left == 0) return nullptr;
        m_run_left.subtract(1);
        std::byte* const block = m_run;
        m_run = block + g.block_bytes;
        return block;
    }

    // Requires a hot block: it moves on to the magazine, so that what was freed last goes out first. False when both
    // magazines are full; the block is then still the caller's.
    [[nodiscard]] bool push_cold(void* block, class_geometry g) noexcept {
        if (!m_loaded.push_slot(m_hot, g)) {
            if (m_loaded.is_full(g)) {
                if (m_spare != nullptr) return false;
                m_spare = m_loaded.take_full();
            }
            m_loaded.push_carrier(m_hot, g);
        }
        m_hot = block;
        return true;
    }

    [[nodiscard]] void* pop(class_geometry g) noexcept {
        void* const hot = pop_hot();
        return hot != nullptr ? hot : pop_cold(g);
    }
    [[nodiscard]] bool push(void* block, class_geometry g) noexcept {
        return push_hot(block) || push_cold(block, g);
    }

    [[nodiscard]] std::uint64_t held(class_geometry g) const noexcept {
        return (m_hot != nullptr ? 1U : 0U) + std::uint64_t{m_loaded.size(g)} +
               (m_spare != nullptr ? g.magazine_blocks() : 0U) + m_run_left;
    }
    [[nodiscard]] std::uint32_t run_left() const noexcept { return m_run_left; }
    [[nodiscard]] std::int64_t net_taken() const noexcept { return m_net_taken; }
    [[nodiscard]] std::uint64_t net_frees(class_geometry g) const noexcept {
        std::int64_t const net = static_cast<std::int64_t>(held(g)) - m_net_taken;
        return net > 0 ? static_cast<std::uint64_t>(net) : 0;
    }
    [[nodiscard]] bool is_valid(class_geometry g) const noexcept { return m_loaded.is_valid(g); }

private:
    friend class central;  // refills and collects, under its lock

    observed<void*> m_hot;
    magazine m_loaded;
    observed<carrier*> m_spare;
    observed<std::byte*> m_run;
    slab* m_run_slab = nullptr;
    observed<std::int64_t> m_net_taken;
    observed<std::uint32_t> m_run_left;
};

static_assert(sizeof(class_cache) == k_cache_line);

}  // namespace pooled::detail
