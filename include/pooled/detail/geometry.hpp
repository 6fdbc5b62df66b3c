// SPDX-License-Identifier: BSL-1.0
#pragma once

// The units of memory, from large to small.
//
//   chunk        what upstream is asked for (2 MiB by default)
//   ├─ span      adjacent granules of a chunk: free, or a slab
//   │  └─ slab   blocks of one size class; 64 KiB or more (size_class.hpp), 16 KiB in a pool bounded to less than 4 MiB
//   │     └─ block   what a caller gets; no header, blocks are contiguous from the slab's colour on
//   └─ granule   16 KiB, the unit of spans and of the page map
//
// A block does not record its class: a caller that frees it either knows its type or, as a unique_ptr to a base class, looks the
// class up in the page map.

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

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

// The slot of a pool in a thread's table: each of the first 31 pools has its own, and the others share the last one.
inline constexpr std::uint32_t k_near_slots = 32;
inline constexpr std::uint32_t k_far_slot = k_near_slots - 1;
[[nodiscard]] constexpr std::uint32_t near_slot(std::uint32_t pool_id) noexcept {
    return pool_id < k_far_slot ? pool_id : k_far_slot;
}

static_assert(k_slab_bytes % k_granule_bytes == 0);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
