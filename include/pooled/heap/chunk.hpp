// SPDX-License-Identifier: BSL-1.0
#pragma once

// Descriptors of a chunk and of the slabs it is divided into. They lie in the metadata arena, apart from the memory
// they describe: a slab is blocks from its first byte to its last, and nothing of it is touched before it is handed out.
//
//   chunk ─▶ | slab | slab | slab | …           slab ─▶ | block | block | block |  fresh …        |
//                                                         0 … carved-1 handed out   carved … total-1
//
// Invariants: carved <= total; a chunk's used_slabs = its slabs that have a size class.
// Not thread-safe: guarded by the pool's locks.

#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::detail {

struct chunk;

struct slab {
    std::byte* base = nullptr;
    chunk* owner = nullptr;
    slab* next = nullptr;  // in the pool's list of slabs without a class, or in its class's list of all slabs
    slab* next_open = nullptr;  // in its class's list of slabs with fresh blocks
    std::uint32_t bytes = 0;
    std::uint32_t total = 0;
    std::uint32_t carved = 0;
    std::uint32_t free_blocks = 0;  // scratch of a reclaim
    bool is_open = false;
    bool is_reclaimed = false;  // scratch of a reclaim

    [[nodiscard]] std::uint32_t fresh() const noexcept { return total - carved; }
    [[nodiscard]] bool contains(void const* p) const noexcept {
        return address_of(p) - address_of(base) < bytes;
    }
};

struct chunk {
    chunk* next = nullptr;
    chunk* previous = nullptr;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    std::uint32_t outer = 0;   // what the address map said of this memory before: upstream may be a pool
    std::uint64_t number = 0;  // counted from 1, in the order they were made
    std::uint32_t slab_count = 0;
    std::uint32_t used_slabs = 0;

    // The slabs' descriptors follow the chunk's.
    [[nodiscard]] slab* slabs() noexcept { return reinterpret_cast<slab*>(this + 1); }
    [[nodiscard]] static constexpr std::size_t descriptor_bytes(std::size_t slab_count) noexcept {
        return sizeof(chunk) + slab_count * sizeof(slab);
    }
};

static_assert(alignof(slab) <= alignof(chunk) && sizeof(chunk) % alignof(slab) == 0);

}  // namespace pooled::detail
