// SPDX-License-Identifier: BSL-1.0
#pragma once

// The descriptor of a chunk: the unit that the heap requests from upstream and divides into spans. The descriptors of a chunk and
// the records of its granules share one piece of the metadata arena.
//
//   chunk   | granule 0 | granule 1 | … | granule n-1 |     the only one of a tiny pool may be shorter
//
// Invariant: held = its granules that are in use or reserved; a chunk with held == 0 can return to upstream.
// Guarded by the lock of the heap.

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/geometry.hpp"
#include "pooled/detail/intrusive_list.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/span.hpp"
#include "pooled/impl/heap/slab.hpp"

#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct alignas(k_cache_line) chunk {
    list_links<chunk> links;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    map_entry outer;           // the page map's former entry for this memory, since upstream may be a pool
    std::uint64_t number = 0;  // value of next_region() when the chunk came from upstream
    std::uint32_t granules = 0;
    std::uint32_t held = 0;
    std::uint8_t align_log = 0;  // of the alignment with which upstream was asked
    bool may_be_small = false;   // it should have a huge page, and may have small ones
    observed<bool> has_purged;   // a record may have a purged page: otherwise none is looked at
#if POOLED_CHECKED
    bool was_live = false;  // the live map's former bit for the first byte, as `outer`
#endif

    // The records of its granules follow the chunk's. They are all zero until a span begins there.
    [[nodiscard]] span<slab> records() noexcept { return {reinterpret_cast<slab*>(this + 1), granules}; }
    [[nodiscard]] static constexpr std::size_t descriptor_bytes(std::size_t granules) noexcept {
        return sizeof(chunk) + granules * sizeof(slab);
    }
    [[nodiscard]] std::size_t index_of(slab const& s) noexcept {
        return static_cast<std::size_t>(&s - records().data());
    }
    // The record of granule `i`, which begins a span.
    [[nodiscard]] slab& record(std::size_t i) noexcept {
        slab& s = records()[i];
        if (s.owner == nullptr) {
            std::uint8_t const purged = s.purged;  // as part of a longer span
            ::new (static_cast<void*>(&s)) slab;
            s.purged = purged;
            s.blocks = base + i * k_granule_bytes;
            s.owner = this;
            if (bytes < k_granule_bytes) s.short_by = static_cast<std::uint16_t>(k_granule_bytes - bytes);
        }
        return s;
    }

    // The record before the span `s`, the last one of the span there, or null; and the first record of the span after it.
    [[nodiscard]] static slab* before(slab& s) noexcept {
        return s.owner->index_of(s) == 0 ? nullptr : &s - 1;
    }
    [[nodiscard]] static slab* after(slab& s) noexcept {
        return s.owner->index_of(s) + s.granules == s.owner->granules ? nullptr : &s + s.granules;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
