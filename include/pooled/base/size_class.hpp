// SPDX-License-Identifier: BSL-1.0
#pragma once

// Size classes: the block sizes, and the class that serves a request.
//
//   16, 24, 32, … 128                       by 8: a control block and a small payload, to the word
//   144 … 256, 288 … 512, … 2304 … 4096     eight per doubling: at most 12.5 % over the request
//   65536/15, 65536/14, … 65536/2           above 4 KiB: a whole number of blocks fills a slab
//
// Invariants: sizes ascend; each is a multiple of 8, and of 64 above 512; the blocks of a slab start at its base, so a
// block is aligned to the largest power of two that divides its size.
//
// A thread caches up to `cache_blocks` addresses of a class: 128 KiB of blocks (64 KiB of blocks over 2 KiB, since a few of
// those already hold much memory), but at least 2 and at most 256 blocks. It exchanges half of them with the central free list
// at a time.
//
// All constexpr; a lookup at run time reads one table.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

using class_index = std::uint32_t;

inline constexpr std::size_t k_min_block_bytes = 16;
inline constexpr std::size_t k_max_block_bytes = k_slab_bytes / 2;
inline constexpr std::size_t k_max_class_align = 4096;
inline constexpr class_index k_class_count = 15 + 5 * 8 + 14;

// The index of requests that no class serves: large blocks.
inline constexpr class_index k_large = 255;

[[nodiscard]] constexpr std::size_t cached_bytes_for(std::size_t block_bytes) noexcept {
    return (block_bytes <= 2048 ? std::size_t{128} : std::size_t{64}) << 10;
}
inline constexpr std::uint32_t k_max_cached_blocks = 256;

struct class_geometry {
    std::uint32_t block_bytes;
    std::uint32_t inverse;  // of block_bytes, times 2^32
    std::uint32_t cache_blocks;

    // The index of the block at `offset` bytes from its slab's base. Exact for offset < 2^16: the product's error is below
    // offset / 2^32.
    [[nodiscard]] constexpr std::uint32_t index_of(std::uint32_t offset) const noexcept {
        return static_cast<std::uint32_t>((std::uint64_t{offset} * inverse) >> 32);
    }
};

[[nodiscard]] constexpr class_geometry geometry_for(std::size_t block_bytes) noexcept {
    auto const cached = std::bit_floor(
        detail::clamp<std::size_t>(cached_bytes_for(block_bytes) / block_bytes, 2, k_max_cached_blocks));
    return {static_cast<std::uint32_t>(block_bytes),
            static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + block_bytes - 1) / block_bytes),
            static_cast<std::uint32_t>(cached)};
}

inline constexpr std::array<class_geometry, k_class_count> k_geometry = [] {
    std::array<class_geometry, k_class_count> table{};
    class_index next = 0;
    for (std::size_t bytes = 16; bytes <= 128; bytes += 8)
        table[next++] = geometry_for(bytes);
    for (std::size_t base = 128; base < 4096; base *= 2)
        for (std::size_t eighth = 1; eighth <= 8; ++eighth)
            table[next++] = geometry_for(base + base / 8 * eighth);
    for (std::size_t per_slab = 15; per_slab >= 2; --per_slab)
        table[next++] = geometry_for(round_down(k_slab_bytes / per_slab, 64));
    return table;
}();

// Class of a size in steps of 8 bytes up to 1 KiB, in steps of 64 above: two tables of a few hundred bytes.
inline constexpr std::size_t k_fine_limit = 1024;
inline constexpr auto k_fine_class = [] {
    std::array<std::uint8_t, k_fine_limit / 8 + 1> table{};
    class_index c = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
        while (k_geometry[c].block_bytes < i * 8)
            ++c;
        table[i] = static_cast<std::uint8_t>(c);
    }
    return table;
}();
inline constexpr auto k_coarse_class = [] {
    std::array<std::uint8_t, k_max_block_bytes / 64 + 1> table{};
    class_index c = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
        while (k_geometry[c].block_bytes < i * 64)
            ++c;
        table[i] = static_cast<std::uint8_t>(c);
    }
    return table;
}();

// Guard bytes that the checked build adds to each request, to detect writes behind it; the last eight store the requested
// size. 0: none.
inline constexpr std::size_t k_guard_bytes =
    POOLED_CHECKED != 0 && POOLED_SANITIZE == 0 ? round_up(std::size_t{POOLED_GUARD_BYTES}, 8) : 0;

// The smallest class whose blocks hold `bytes` at `align`, and the guard, or k_large. Any power of two is an alignment.
// O(1): classes that are multiples of a larger alignment are at most eight apart.
[[nodiscard]] constexpr class_index class_for(std::size_t bytes, std::size_t align) noexcept {
    if (bytes > k_max_block_bytes - k_guard_bytes || align > k_max_class_align) return k_large;
    bytes += k_guard_bytes;
    class_index c = bytes <= k_fine_limit ? k_fine_class[(bytes + 7) / 8] : k_coarse_class[(bytes + 63) / 64];
    while (c < k_class_count && (k_geometry[c].block_bytes & (align - 1)) != 0)
        ++c;
    return c < k_class_count ? c : k_large;
}

static_assert(k_geometry.back().block_bytes == k_max_block_bytes);
static_assert(class_for(1, 8192) == k_large);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
