// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where threads exchange blocks while a pool is at its bound and no thread may keep any: one block for each processor. Without it, every
// request and every return would take the lock of its class, for which the processors contend.
//
//   word:  | address / 8 (45 bits) | size class (8 bits) | how many blocks were put there, modulo 2^11 |     the last part alone: empty
//
// A request that finds no block compares the words with those that it saw before it looked elsewhere: if they were empty and none has
// changed, there was no block at one moment.
//
// Any thread may call. O(1).

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class bound_slots {
public:
    static constexpr std::size_t k_count = 16;
    using words = std::array<std::uint64_t, k_count>;

    // A block of class `c`, from the slot of the calling thread's processor if possible. Null: none, and `seen` has all words.
    [[nodiscard]] void* take(class_index c, words& seen) noexcept {
        std::size_t const mine = platform::processor();
        for (std::size_t i = 0; i < k_count; ++i) {
            std::size_t const at = (mine + i) % k_count;
            seen[at] = m_slots[at].word.load(std::memory_order_acquire);
            if (!is_empty(seen[at]) && class_of(seen[at]) == c)
                if (void* const block = empty(at, seen[at])) return block;
        }
        return nullptr;
    }
    // Whether all were empty when take() saw them, and at every moment since.
    [[nodiscard]] bool were_empty(words const& seen) const noexcept {
        for (std::size_t at = 0; at < k_count; ++at)
            if (!is_empty(seen[at]) || m_slots[at].word.load(std::memory_order_acquire) != seen[at])
                return false;
        return true;
    }

    // 0: the slot of the calling thread's processor has a block. Otherwise how many blocks were put there, this one included.
    [[nodiscard]] std::uint64_t put(class_index c, void* block) noexcept {
        std::atomic<std::uint64_t>& mine = m_slots[platform::processor() % k_count].word;
        std::uint64_t word = mine.load(std::memory_order_relaxed);
        if (!is_empty(word)) return 0;
        std::uint64_t const puts = word % k_puts + 1;
        std::uint64_t const full =
            address_of(block) / k_unit << k_address_shift | std::uint64_t{c} << k_class_shift | puts % k_puts;
        // release: pairs with the acquires above and in empty(); what this owner did to the block is seen.
        return mine.compare_exchange_strong(word, full, std::memory_order_release, std::memory_order_relaxed)
                   ? puts
                   : 0;
    }

    // Empties the slots: visit(c, block) for each block.
    template <class Visit>
    void drain(Visit&& visit) noexcept {
        for (std::size_t at = 0; at < k_count; ++at) {
            std::uint64_t const word = m_slots[at].word.load(std::memory_order_relaxed);
            if (is_empty(word)) continue;
            if (void* const block = empty(at, word)) visit(class_of(word), block);
        }
    }

private:
    static constexpr std::size_t k_unit = 8;  // of the addresses of blocks
    static constexpr unsigned k_class_shift = 11;
    static constexpr std::uint64_t k_puts = std::uint64_t{1} << k_class_shift;
    static constexpr unsigned k_address_shift = k_class_shift + 8;

    [[nodiscard]] static bool is_empty(std::uint64_t word) noexcept { return word < k_puts; }
    [[nodiscard]] static class_index class_of(std::uint64_t word) noexcept {
        return static_cast<class_index>(word >> k_class_shift & 0xff);
    }
    // Null when another thread was faster. acquire: pairs with the release in put().
    [[nodiscard]] void* empty(std::size_t at, std::uint64_t word) noexcept {
        if (!m_slots[at].word.compare_exchange_strong(word, word % k_puts, std::memory_order_acquire,
                                                      std::memory_order_relaxed))
            return nullptr;
        return reinterpret_cast<void*>(word / (std::uint64_t{1} << k_address_shift) * k_unit);
    }

    struct alignas(k_cache_line) slot {
        std::atomic<std::uint64_t> word{0};
    };
    std::array<slot, k_count> m_slots{};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
