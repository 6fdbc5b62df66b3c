// SPDX-License-Identifier: BSL-1.0
#pragma once

// The descriptor of a chunk: the unit that the heap requests from upstream and divides into slabs. The descriptors of a chunk and
// of its slabs share one piece of the metadata arena.
//
//   chunk   | slab 0 | slab 1 | … | slab n-1 |          the last one may be shorter
//
// Invariant: held = its slabs that have a size class or are reserved; a chunk with held == 0 can return to upstream.
// Guarded by the lock of the heap's slab lists.

#include "pooled/base/geometry.hpp"
#include "pooled/base/span.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct alignas(k_cache_line) chunk {
    chunk* next = nullptr;
    chunk* previous = nullptr;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    map_entry outer;           // the page map's former entry for this memory, since upstream may be a pool
    std::uint64_t number = 0;  // value of next_region() when the chunk came from upstream
    std::uint32_t slab_count = 0;
    std::uint32_t held = 0;

    // The slabs' descriptors follow the chunk's.
    [[nodiscard]] span<slab> slabs() noexcept { return {reinterpret_cast<slab*>(this + 1), slab_count}; }
    [[nodiscard]] static constexpr std::size_t descriptor_bytes(std::size_t slab_count) noexcept {
        return sizeof(chunk) + slab_count * sizeof(slab);
    }

    // The slab before (-1) or after (1) `s` in its chunk, or null.
    [[nodiscard]] static slab* neighbour(slab const& s, std::ptrdiff_t step) noexcept {
        span<slab> const all = s.owner->slabs();
        auto const i = static_cast<std::size_t>(&s - all.data() + step);
        return i < all.size() ? &all[i] : nullptr;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
