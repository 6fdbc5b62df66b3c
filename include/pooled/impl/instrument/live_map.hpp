// SPDX-License-Identifier: BSL-1.0
#pragma once

// The checked build's record of blocks: one bit for each 16 bytes of addresses. Blocks have at least 16 bytes, so each has a
// bit of its own.
//
//   g_live_map     a block in use starts here; in the library's own memory: a pool that was not destroyed is here
//   g_filled_map   a free block starts here that was filled when it was freed
//
// Any thread may call; O(1). Not compiled in other builds.

#include "pooled/config.hpp"
#include "pooled/detail/address_map.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/size_class.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#if POOLED_CHECKED

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class live_map {
public:
#if POOLED_HAS_CODE
    // So that set() makes no system call later. False: no memory.
    [[nodiscard]] bool prepare(void const* base, std::size_t bytes) noexcept {
        return m_leaves.prepare(base, bytes);
    }
#endif

    [[nodiscard]] bool test(void const* p) const noexcept {
        word const* const w = word_of(p);
        return w != nullptr && (w->load(std::memory_order_relaxed) & bit_of(p)) != 0;
    }

    // The bit's former value. Without effect where nothing was prepared.
    bool set(void const* p, bool live) noexcept {
        word* const w = word_of(p);
        if (w == nullptr) return false;
        std::uint64_t const bit = bit_of(p);
        std::uint64_t const before = live ? w->fetch_or(bit, std::memory_order_relaxed)
                                          : w->fetch_and(~bit, std::memory_order_relaxed);
        return (before & bit) != 0;
    }

private:
    static constexpr unsigned k_leaf_bits = 32;  // 32 MiB of bits
    static constexpr std::size_t k_word_bytes = 64 * k_min_block_bytes;
    using word = std::atomic<std::uint64_t>;
    using leaf = std::array<word, (std::size_t{1} << k_leaf_bits) / k_word_bytes>;

    // Null: not prepared.
    [[nodiscard]] word* word_of(void const* p) const noexcept {
        leaf* const l = m_leaves.covers(address_of(p)) ? m_leaves.leaf_of(address_of(p)) : nullptr;
        return l != nullptr ? &(*l)[static_cast<std::uint32_t>(address_of(p)) / k_word_bytes] : nullptr;
    }
    [[nodiscard]] static std::uint64_t bit_of(void const* p) noexcept {
        return std::uint64_t{1} << (address_of(p) / k_min_block_bytes % 64);
    }

    address_map<leaf, k_leaf_bits> m_leaves;
};

POOLED_STATE(live_map, g_live_map);
POOLED_STATE(live_map, g_filled_map);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
