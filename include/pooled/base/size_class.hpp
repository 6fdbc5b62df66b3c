// SPDX-License-Identifier: BSL-1.0
#pragma once

// The units of memory, from large to small.
//
//   chunk        what upstream is asked for (2 MiB by default)
//   ├─ span      adjacent granules of a chunk: free, or a slab
//   │  └─ slab   blocks of one size class; 64 KiB or more (below), from 16 KiB on in a pool bounded to less than 4 MiB, and the first ones
//   │            of a class
//   │     └─ block   what a caller gets; no header, blocks are contiguous from the slab's colour on
//   └─ granule   16 KiB, the unit of spans and of the page map
//
// A block does not record its class: a caller that frees it either knows its type or, as a unique_ptr to a base class, looks the
// class up in the page map.
//
// Size classes: the block sizes, and the class that serves a request.
//
//   16, 24, 32, … 128                       by 8: a control block and a small payload, to the word
//   144 … 256, 288 … 512, 576 … 1024        eight per doubling: at most 12.5 % over the request
//   1088 … 2048, … 17,408 … 32,768          ten per doubling, 17, 18, 19, 20, 22, … 32 sixteenths: at most 10 %
//   256, 384, 512, 768, … 3072, 4096        the same sizes once more, for alignments over a cache line
//   48, 64 … 272 KiB, … 16 MiB              large, a slab for each block: granules, then eight per doubling, from 512 KiB on four
//
// A slab has as many granules as its class uses best: four, or more where at least 2 % of them would be left over.
//
// Slabs have colours (docs/mechanisms.md): the blocks of each begin at another cache line, as far as the memory after the last block
// allows. A slab that blocks of 256 to 4096 bytes would fill exactly has one block less. Blocks aligned to more than a cache line have
// fewer colours or none, and are therefore of other classes.
//
// Invariants: sizes ascend; each is a multiple of 8, of 64 above 512, and of a granule above 32 KiB; a block is aligned to its class's
// `align`, which divides the size, and the offset of the slab's first block.
//
// A thread caches the block freed last, and up to `cache_blocks` addresses of a class: 512 KiB of blocks, but at least 2 and at most
// 512, or `burst_blocks()`. It exchanges half of them with the central free list at a time. Of a class over 272 KiB it caches one
// (cache/thread_cache.hpp), outside the inlined code.
//
// All constexpr; a lookup reads at most one table.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"

#include <array>
#include <bit>
#include <initializer_list>

POOLED_BEGIN_DETAIL

inline constexpr std::size_t k_cache_line = 64;

inline constexpr std::size_t k_granule_bytes = std::size_t{16} << 10;
inline constexpr std::size_t k_slab_bytes = std::size_t{64} << 10;  // most slabs have as much

// A pool with a lower bound uses slabs of a granule where it can, so that a few size classes can share it.
inline constexpr std::size_t k_small_pool_bytes = std::size_t{4} << 20;

inline constexpr std::size_t k_default_chunk_bytes = std::size_t{2} << 20;
inline constexpr std::size_t k_max_reserved_bytes = std::size_t{1} << 47;  // the address space
inline constexpr std::size_t k_huge_page_bytes = std::size_t{2} << 20;

// Maximum number of pools at a time. Id 0 means no pool: an address that the page map does not know. The thread table and the
// page map store a pool as 16 bits.
inline constexpr std::uint32_t k_max_pools = 65536;

inline constexpr std::uint32_t k_default_pool_id = 1;

// The slot of a pool in a thread's table: each of the first 31 pools has its own, and the others share the last one.
inline constexpr std::uint32_t k_near_slots = 32;
inline constexpr std::uint32_t k_far_slot = k_near_slots - 1;
[[nodiscard]] constexpr std::uint32_t near_slot(std::uint32_t pool_id) noexcept {
    return pool_id < k_far_slot ? pool_id : k_far_slot;
}

using class_index = std::uint32_t;

// A thread's cache of a class, which slabs know the place of: cache/class_cache.hpp.
inline constexpr std::size_t k_class_cache_bytes = k_cache_line;

inline constexpr std::size_t k_min_block_bytes = 16;
inline constexpr std::size_t k_max_block_bytes = std::size_t{32} << 10;  // of a class that is not large
// A buffer of 256 KiB, and what owns it.
inline constexpr std::size_t k_max_inlined_bytes = std::size_t{272} << 10;
inline constexpr std::size_t k_max_large_block_bytes = std::size_t{16} << 20;  // of a class
inline constexpr std::size_t k_max_class_align = k_granule_bytes;
inline constexpr std::size_t k_min_coloured_bytes = 256;  // smaller ones have many places without colours
inline constexpr std::size_t k_max_coloured_bytes = 4096;
inline constexpr std::size_t k_max_slab_granules = 16;  // of a class that is not large

inline constexpr class_index k_first_large = 15 + 3 * 8 + 5 * 10 + 9;
inline constexpr class_index k_inlined_classes = k_first_large + 15;  // the inlined code caches their blocks
inline constexpr class_index k_class_count = k_inlined_classes + 8 + 5 * 4;

// Blocks that no class serves: each is a slab of its own length, with one block.
inline constexpr class_index k_exact = k_class_count;
// The index of requests that no inlined class serves.
inline constexpr class_index k_large = 255;

inline constexpr std::uint32_t k_max_cached_blocks = 512;
inline constexpr std::uint32_t k_max_burst_blocks = 4096;
inline constexpr std::size_t k_cached_bytes = std::size_t{512} << 10;

struct class_geometry {
    std::uint64_t inverse;  // of block_bytes, times 2^40
    std::uint32_t block_bytes;
    std::uint16_t cache_blocks;
    std::uint16_t align;
    std::uint16_t slab_granules;

    // The index of the block at `offset` bytes from its slab's first block. Exact for offset · block_bytes < 2^40: the product's
    // error is below offset / 2^40.
    [[nodiscard]] constexpr std::uint32_t index_of(std::uint32_t offset) const noexcept {
        return static_cast<std::uint32_t>((offset * inverse) >> 40);
    }

    // Whether these three blocks lie one after the other, upwards or downwards.
    [[nodiscard]] bool are_neighbours(void* const* three) const noexcept {
        std::uintptr_t const stride = address_of(three[1]) - address_of(*three);
        return (stride == block_bytes || stride == 0 - std::uintptr_t{block_bytes}) &&
               address_of(three[2]) - address_of(three[1]) == stride;
    }
    // The number of blocks in a slab of `bytes`.
    [[nodiscard]] constexpr std::uint32_t blocks_in(std::size_t bytes) const noexcept {
        auto const blocks = static_cast<std::uint32_t>(bytes / block_bytes);
        bool const must_have_colours = align <= k_cache_line && block_bytes >= k_min_coloured_bytes &&
                                       block_bytes <= k_max_coloured_bytes;
        bool const has_colours = std::size_t{blocks} * block_bytes != bytes;
        return must_have_colours && !has_colours && bytes >= k_slab_bytes ? blocks - 1 : blocks;
    }
    // Whether at most an eighth of a slab of `bytes` is left over.
    [[nodiscard]] constexpr bool uses(std::size_t bytes) const noexcept {
        return (bytes - std::size_t{blocks_in(bytes)} * block_bytes) * 8 <= bytes;
    }
    // The offset of the first block in the slab at this address: its colour, less than a granule.
    [[nodiscard]] constexpr std::size_t colour_of(std::uintptr_t slab, std::size_t bytes) const noexcept {
        std::size_t const step = detail::larger<std::size_t>(align, k_cache_line);
        std::size_t const rest = bytes - std::size_t{blocks_in(bytes)} * block_bytes;
        std::size_t const colours = detail::smaller(rest, k_granule_bytes - 1) / step + 1;
        return slab / bytes % colours * step;  // slabs that follow each other have different ones
    }
    // What a thread caches at most of blocks that it allocated itself.
    [[nodiscard]] constexpr std::uint32_t burst_blocks() const noexcept {
        auto const blocks = static_cast<std::uint32_t>(std::bit_floor(k_cached_bytes / block_bytes));
        return detail::clamp<std::uint32_t>(blocks, cache_blocks, k_max_burst_blocks);
    }
    // The granules of the smallest slab.
    [[nodiscard]] constexpr std::size_t least_granules() const noexcept {
        return (block_bytes + k_granule_bytes - 1) / k_granule_bytes;
    }
};

// `align` is at most a cache line for a class whose slabs have colours.
[[nodiscard]] constexpr class_geometry geometry_for(std::size_t block_bytes, std::size_t align) noexcept {
    auto const cached =
        std::bit_floor(detail::clamp<std::size_t>(k_cached_bytes / block_bytes, 2, k_max_cached_blocks));
    class_geometry g{((std::uint64_t{1} << 40) + block_bytes - 1) / block_bytes,
                     static_cast<std::uint32_t>(block_bytes), static_cast<std::uint16_t>(cached),
                     static_cast<std::uint16_t>(align), 0};
    auto const rest = [&](std::size_t n) {
        return n * k_granule_bytes - std::size_t{g.blocks_in(n * k_granule_bytes)} * block_bytes;
    };
    std::size_t best = detail::larger(k_slab_bytes / k_granule_bytes, g.least_granules());
    if (block_bytes > k_max_block_bytes) best = g.least_granules();
    // A slab that is full but for its colours stays: a longer one would have one colour for more blocks.
    bool const is_full = best * k_granule_bytes % block_bytes == 0;
    for (std::size_t n = best;
         !is_full && n <= k_max_slab_granules && rest(best) * 50 > best * k_granule_bytes; ++n)
        if (rest(n) * best < rest(best) * n) best = n;
    g.slab_granules = static_cast<std::uint16_t>(best);
    return g;
}

inline constexpr std::array<class_geometry, k_class_count + 1> k_geometry = [] {
    std::array<class_geometry, k_class_count + 1> table{};
    class_index next = 0;
    auto const add = [&](std::size_t bytes) {
        std::size_t const natural = detail::smaller(bytes & (~bytes + 1), k_max_class_align);
        bool const may_be_coloured = bytes >= k_min_coloured_bytes && bytes <= k_max_coloured_bytes;
        table[next++] =
            geometry_for(bytes, may_be_coloured ? detail::smaller(natural, k_cache_line) : natural);
        if (may_be_coloured && natural > k_cache_line && bytes / natural <= 3)
            table[next++] = geometry_for(bytes, natural);
    };
    for (std::size_t bytes = 16; bytes <= 128; bytes += 8)
        add(bytes);
    for (std::size_t base = 128; base < 1024; base *= 2)
        for (std::size_t eighth = 1; eighth <= 8; ++eighth)
            add(base + base / 8 * eighth);
    for (std::size_t base = 1024; base < k_max_block_bytes; base *= 2)
        for (std::size_t const sixteenths : {17U, 18U, 19U, 20U, 22U, 24U, 26U, 28U, 30U, 32U})
            add(base / 16 * sixteenths);
    for (std::size_t granules = 3; granules <= k_max_inlined_bytes / k_granule_bytes; ++granules)
        add(granules * k_granule_bytes);
    for (std::size_t base = 16; base * k_granule_bytes < k_max_large_block_bytes; base *= 2)
        for (std::size_t step = 1, steps = base == 16 ? 8 : 4; step <= steps; ++step)
            add((base + base / steps * step) * k_granule_bytes);
    table[k_exact].block_bytes = ~std::uint32_t{0};  // beyond any second block
    return table;
}();

// Class of a size in steps of 8 bytes up to 1 KiB, of 64 up to 32 KiB, and of a granule above: tables of at most 1 KiB.
template <std::size_t Step, std::size_t Most>
[[nodiscard]] constexpr auto classes_of_sizes() noexcept {
    std::array<std::uint8_t, Most / Step + 1> table{};
    class_index c = 0;
    for (std::size_t i = 0; i <= Most / Step; ++i) {
        while (k_geometry[c].block_bytes < i * Step)
            ++c;
        table[i] = static_cast<std::uint8_t>(c);
    }
    return table;
}
inline constexpr std::size_t k_fine_limit = 1024;
inline constexpr auto k_fine_class = classes_of_sizes<8, k_fine_limit>();
inline constexpr auto k_coarse_class = classes_of_sizes<64, k_max_block_bytes>();
inline constexpr auto k_granules_class = classes_of_sizes<k_granule_bytes, k_max_large_block_bytes>();

// Guard bytes that the checked build adds to each request, to detect writes after its end; the last eight store the requested
// size. 0: none.
inline constexpr std::size_t k_guard_bytes =
    POOLED_CHECKED != 0 && POOLED_SANITIZE == 0 ? round_up(std::size_t{POOLED_GUARD_BYTES}, 8) : 0;

// The smallest inlined class whose blocks hold `bytes` at `align`, and the guard, or k_large. Any power of two is an alignment.
// O(1): classes of a larger alignment are few steps apart.
[[nodiscard]] POOLED_ALWAYS_INLINE constexpr class_index class_for(std::size_t bytes,
                                                                   std::size_t align) noexcept {
    // An alignment of 0 wraps around: no class serves it.
    if (bytes > k_max_inlined_bytes - k_guard_bytes || align - 1 >= k_max_class_align) return k_large;
    bytes += k_guard_bytes;
    if (bytes > k_max_block_bytes) [[unlikely]]
        return k_first_large + static_cast<class_index>((bytes - 1) / k_granule_bytes) - 2;
    class_index c = bytes <= k_fine_limit ? k_fine_class[(bytes + 7) / 8] : k_coarse_class[(bytes + 63) / 64];
    while (k_geometry[c].align < align)  // that of k_max_block_bytes is k_max_class_align
        ++c;
    return c;
}

// The class of a size known at compile time. It is a variable, so that a compiler evaluates it once for all types of the size: a call of
// class_for() with constants is inlined, and its loop optimised away, for each type again.
template <std::size_t Bytes, std::size_t Align>
inline constexpr class_index k_class_for = class_for(Bytes, Align);

// For a request that the classes of class_for() do not serve; `bytes` includes the guard. A large class, or k_exact.
[[nodiscard]] constexpr class_index large_class_for(std::size_t bytes, std::size_t align) noexcept {
    if (bytes > k_max_large_block_bytes || align - 1 >= k_max_class_align) return k_exact;
    return detail::larger<class_index>(k_granules_class[(bytes + k_granule_bytes - 1) / k_granule_bytes],
                                       k_first_large);
}

// The class of any request; `bytes` without the guard.
[[nodiscard]] constexpr class_index any_class_for(std::size_t bytes, std::size_t align) noexcept {
    class_index const c = class_for(bytes, align);
    return c != k_large ? c : detail::large_class_for(saturating_add(bytes, k_guard_bytes), align);
}

static_assert(k_geometry[k_first_large - 1].block_bytes == k_max_block_bytes);
static_assert(k_geometry[k_first_large - 1].align == k_max_class_align);
static_assert(k_geometry[k_inlined_classes - 1].block_bytes == k_max_inlined_bytes);
static_assert(k_geometry[k_class_count - 1].block_bytes == k_max_large_block_bytes);
static_assert(class_for(1, 2 * k_max_class_align) == k_large);
static_assert(class_for((std::size_t{256} << 10) + k_cache_line, 1) != k_large);
static_assert(large_class_for(k_max_block_bytes + 1, 1) == k_first_large);
static_assert(large_class_for(k_max_large_block_bytes, 1) == k_class_count - 1);

// What is asked of a pool: a block that holds `bytes` at `align`, of size class `c`. Where the class alone decides, it is the request.
struct block_request {
    // The class between both sizes: a compiler copies two next to each other by one load, which waits, as they were written by two
    // stores, until all stores before these have reached the cache.
    std::size_t bytes;
    class_index c;
    std::size_t align;

    constexpr block_request(class_index of_class, std::size_t holds = 0, std::size_t at = 1) noexcept
        : bytes(holds), c(of_class), align(at) {}

    [[nodiscard]] constexpr std::size_t block_bytes() const noexcept {
        return c != k_exact ? k_geometry[c].block_bytes : bytes;
    }
};

// How many granules a slab of the class best has; if it is to be small, the fewest that leave an eighth of them over at most.
[[nodiscard]] constexpr std::size_t slab_granules_for(class_index c, bool is_small) noexcept {
    class_geometry const& g = k_geometry[c];
    if (!is_small) return g.slab_granules;
    std::size_t granules = g.least_granules();
    while (granules < g.slab_granules && !g.uses(granules * k_granule_bytes))
        ++granules;
    return granules;
}

// A bounded pool takes its memory in at least sixteen pieces, so that a large block still fits beside small ones.
[[nodiscard]] constexpr std::size_t default_chunk_bytes(std::size_t max_bytes) noexcept {
    if (max_bytes == 0) return k_default_chunk_bytes;
    return round_up(detail::clamp(max_bytes / 16, k_granule_bytes, k_default_chunk_bytes), k_granule_bytes);
}

// A bound for `count` such blocks: of whole chunks, as a slab does not go over the end of one. k_size_max if it exceeds the address space.
[[nodiscard]] constexpr std::size_t bytes_for(std::size_t count, block_request const& what) noexcept {
    for (std::size_t bound = 1;;) {
        bool const has_slabs = what.c < k_first_large;
        // Where a block has a span of its own, a slab is a block.
        std::size_t const slab = has_slabs
                                     ? slab_granules_for(what.c, bound < k_small_pool_bytes) * k_granule_bytes
                                     : round_up(detail::smaller(what.bytes, k_size_max / 2),
                                                detail::larger(what.align, k_granule_bytes));
        std::size_t const chunk = detail::larger(default_chunk_bytes(bound), slab);
        std::size_t const blocks = chunk / slab * (has_slabs ? k_geometry[what.c].blocks_in(slab) : 1);
        std::size_t const needed = saturating_multiply(count / blocks + (count % blocks != 0), chunk);
        if (needed <= bound || bound == k_size_max) return bound;
        bound = needed;  // whose chunks may be longer
    }
}

POOLED_END_DETAIL
