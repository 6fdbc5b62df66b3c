// SPDX-License-Identifier: BSL-1.0
#pragma once

// Size classes: the block sizes, and the class that serves a request.
//
//   16, 24, 32, … 128                       by 8: a control block and a small payload, to the word
//   144 … 256, 288 … 512, … 2304 … 4096     eight per doubling: at most 12.5 % over the request
//   256, 384, 512, 768, … 3072, 4096        the same sizes once more, for alignments over a cache line
//   65536/15, 65536/14, … 65536/2           above 4 KiB: a whole number of blocks fills a slab
//
// Slabs have colours (Bonwick 1994): the blocks of each begin at another cache line, as far as the memory behind the last block
// allows. Without them, blocks of 1536 bytes begin in 42 of the 1024 places of a slab, so a cache keeps the first lines of few.
// A full slab that blocks of 256 to 4096 bytes would fill exactly has one block less. Blocks aligned to more than a cache line have fewer
// colours or none, and are therefore of other classes.
//
// Invariants: sizes ascend; each is a multiple of 8, and of 64 above 512; a block is aligned to its class's `align`, which divides
// the size, and the offset of the slab's first block.
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
inline constexpr std::size_t k_min_coloured_bytes =
    256;  // smaller blocks have many places in a slab without colours
inline constexpr class_index k_class_count = 15 + 5 * 8 + 9 + 14;

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
    std::uint32_t align;

    // The index of the block at `offset` bytes from its slab's first block. Exact for offset < 2^16: the product's error is below
    // offset / 2^32.
    [[nodiscard]] constexpr std::uint32_t index_of(std::uint32_t offset) const noexcept {
        return static_cast<std::uint32_t>((std::uint64_t{offset} * inverse) >> 32);
    }

    // The number of blocks in a slab of `bytes`.
    [[nodiscard]] constexpr std::uint32_t blocks_in(std::size_t bytes) const noexcept {
        auto const blocks = static_cast<std::uint32_t>(bytes / block_bytes);
        bool const has_colours = std::size_t{blocks} * block_bytes != bytes || bytes != k_slab_bytes;
        return blocks - (has_colours || block_bytes < k_min_coloured_bytes || align > k_cache_line ? 0 : 1);
    }
    // The offset of the first block in the slab at this address: its colour, less than a granule.
    [[nodiscard]] constexpr std::size_t colour_of(std::uintptr_t slab, std::size_t bytes) const noexcept {
        std::size_t const step = detail::max<std::size_t>(align, k_cache_line);
        std::size_t const rest = bytes - std::size_t{blocks_in(bytes)} * block_bytes;
        std::size_t const colours = detail::min(rest, k_granule_bytes - 1) / step + 1;
        return (slab / k_slab_bytes + slab % k_slab_bytes / k_granule_bytes) % colours * step;
    }
};

[[nodiscard]] constexpr class_geometry geometry_for(std::size_t block_bytes, std::size_t align) noexcept {
    auto const cached = std::bit_floor(
        detail::clamp<std::size_t>(cached_bytes_for(block_bytes) / block_bytes, 2, k_max_cached_blocks));
    return {static_cast<std::uint32_t>(block_bytes),
            static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + block_bytes - 1) / block_bytes),
            static_cast<std::uint32_t>(cached), static_cast<std::uint32_t>(align)};
}

inline constexpr std::array<class_geometry, k_class_count> k_geometry = [] {
    std::array<class_geometry, k_class_count> table{};
    class_index next = 0;
    auto const add = [&](std::size_t bytes) {
        std::size_t const natural = detail::min(bytes & (~bytes + 1), k_max_class_align);
        bool const may_be_coloured = bytes >= k_min_coloured_bytes && k_slab_bytes / bytes >= 16;
        table[next++] = geometry_for(bytes, may_be_coloured ? detail::min(natural, k_cache_line) : natural);
        if (may_be_coloured && natural > k_cache_line && bytes / natural <= 3)
            table[next++] = geometry_for(bytes, natural);
    };
    for (std::size_t bytes = 16; bytes <= 128; bytes += 8)
        add(bytes);
    for (std::size_t base = 128; base < 4096; base *= 2)
        for (std::size_t eighth = 1; eighth <= 8; ++eighth)
            add(base + base / 8 * eighth);
    for (std::size_t per_slab = 15; per_slab >= 2; --per_slab)
        add(round_down(k_slab_bytes / per_slab, 64));
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
// O(1): classes of a larger alignment are few steps apart.
[[nodiscard]] constexpr class_index class_for(std::size_t bytes, std::size_t align) noexcept {
    // An alignment of 0 wraps around: no class serves it.
    if (bytes > k_max_block_bytes - k_guard_bytes || align - 1 >= k_max_class_align) return k_large;
    bytes += k_guard_bytes;
    class_index c = bytes <= k_fine_limit ? k_fine_class[(bytes + 7) / 8] : k_coarse_class[(bytes + 63) / 64];
    while (c < k_class_count && k_geometry[c].align < align)
        ++c;
    return c < k_class_count ? c : k_large;
}

static_assert(k_geometry.back().block_bytes == k_max_block_bytes);
static_assert(class_for(1, 8192) == k_large);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
