// SPDX-License-Identifier: BSL-1.0
#pragma once

// Large blocks on their way from the threads that freed them to those that allocate: up to 16 of each large class, in two cache lines of
// their own. A thread that frees what others allocated leaves blocks here without the lock of the class; whoever has the lock and finds
// the list empty takes all of them. So two threads that hand blocks over contend for these lines once in some blocks, and not for a lock.
//
//   freeing thread ─ push ─▶ lines of the class ─ take_all, under the lock of the class ─▶ central free list
//
// Invariant: a block here is in no list and no cache, and counts as outside its central list; at most k_most_bytes of a class.
// Any thread may call, and waits for none. O(1).

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

POOLED_BEGIN_NAMESPACE
namespace detail {

class handed_blocks {
public:
    static constexpr std::size_t k_most_blocks = 2 * k_cache_line / sizeof(void*);
    static constexpr std::size_t k_most_bytes = std::size_t{8} << 20;
    static constexpr std::size_t k_classes = k_class_count - k_first_large;

    // False: as many are here as may be. Requires a large class.
    [[nodiscard]] bool push(class_index c, void* block) noexcept {
        lines& to = m_lines[c - k_first_large];
        std::size_t const most =
            detail::smaller<std::size_t>(k_most_bytes / k_geometry[c].block_bytes, k_most_blocks);
        for (std::size_t i = 0; i < most; ++i) {
            if (to.blocks[i].load(std::memory_order_relaxed) != nullptr) continue;
            void* none = nullptr;
            // release: pairs with the acquire in take_all(); what this thread did to the block is seen.
            if (to.blocks[i].compare_exchange_strong(none, block, std::memory_order_release)) return true;
        }
        return false;
    }
    // Requires the lock of the class, and room for k_most_blocks. Returns how many.
    [[nodiscard]] std::uint32_t take_all(class_index c, void** to) noexcept {
        std::uint32_t count = 0;
        for (auto& one : m_lines[c - k_first_large].blocks)
            if (one.load(std::memory_order_relaxed) != nullptr)
                // acquire: pairs with the release in push().
                to[count++] = one.exchange(nullptr, std::memory_order_acquire);
        if (count != 0) m_taken[c - k_first_large].fetch_add(count, std::memory_order_relaxed);
        return count;
    }
    [[nodiscard]] std::uint32_t count(class_index c) const noexcept {
        std::uint32_t count = 0;
        for (auto const& one : m_lines[c - k_first_large].blocks)
            count += one.load(std::memory_order_relaxed) != nullptr ? 1 : 0;
        return count;
    }
    // How many take_all() has returned since the last call.
    [[nodiscard]] std::uint32_t end_taken(class_index c) noexcept {
        auto& taken = m_taken[c - k_first_large];
        bool const is_any = taken.load(std::memory_order_relaxed) != 0;
        return is_any ? taken.exchange(0, std::memory_order_relaxed) : 0;
    }

private:
    template <class>
    friend struct record_access;
    struct alignas(2 * k_cache_line) lines {
        std::array<std_atomics::atomic<void*>, k_most_blocks> blocks{};
    };
    std::array<lines, k_classes> m_lines{};
    std::array<std_atomics::atomic<std::uint32_t>, k_classes> m_taken{};
};

}  // namespace detail
POOLED_END_NAMESPACE
