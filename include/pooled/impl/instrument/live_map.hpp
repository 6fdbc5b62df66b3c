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
#include "pooled/detail/bits.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/os/platform.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#if POOLED_CHECKED

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class live_map {
public:
    // Makes the leaves for [base, base + bytes), so that set() makes no system call later. False: no memory.
    [[nodiscard]] bool prepare(void const* base, std::size_t bytes) noexcept {
        std::uintptr_t const last = (address_of(base) + bytes - 1) / k_min_block_bytes / k_leaf_units;
        for (std::uintptr_t i = address_of(base) / k_min_block_bytes / k_leaf_units; i <= last; ++i)
            if (leaf_for(i) == nullptr) return false;
        return true;
    }

    [[nodiscard]] bool test(void const* p) noexcept {
        std::uintptr_t const unit = address_of(p) / k_min_block_bytes;
        // acquire: pairs with the release in leaf_for().
        word_type const* const leaf = m_leaves[unit / k_leaf_units].load(std::memory_order_acquire);
        if (leaf == nullptr) return false;
        return (leaf[unit % k_leaf_units / 64].load(std::memory_order_relaxed) >> (unit % 64) & 1) != 0;
    }

    // Requires prepare() of the address. The bit's former value.
    bool set(void const* p, bool live) noexcept {
        std::uintptr_t const unit = address_of(p) / k_min_block_bytes;
        std::uint64_t const bit = std::uint64_t{1} << (unit % 64);
        std::atomic<std::uint64_t>& word = leaf_for(unit / k_leaf_units)[unit % k_leaf_units / 64];
        std::uint64_t const before = live ? word.fetch_or(bit, std::memory_order_relaxed)
                                          : word.fetch_and(~bit, std::memory_order_relaxed);
        return (before & bit) != 0;
    }

private:
    static constexpr std::size_t k_leaf_units = std::size_t{1} << 28;  // 4 GiB of addresses, 32 MiB of bits
    using word_type = std::atomic<std::uint64_t>;

    word_type* leaf_for(std::size_t index) noexcept {
        // acquire: pairs with the release below.
        if (word_type* const leaf = m_leaves[index].load(std::memory_order_acquire)) return leaf;
        void* const pages = platform::map_pages(k_leaf_units / 8, platform::k_page_bytes);
        if (pages == nullptr) return nullptr;
        word_type* expected = nullptr;
        // acq_rel: publishes the zero pages, or sees those of a thread that was faster.
        if (m_leaves[index].compare_exchange_strong(expected, static_cast<word_type*>(pages),
                                                    std::memory_order_acq_rel))
            return static_cast<word_type*>(pages);
        platform::unmap_pages(pages, k_leaf_units / 8);
        return expected;
    }

    std::array<std::atomic<word_type*>, 65536> m_leaves{};
};

POOLED_STATE(live_map, g_live_map);
POOLED_STATE(live_map, g_filled_map);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
