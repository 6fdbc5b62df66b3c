// SPDX-License-Identifier: BSL-1.0
#pragma once

// Memory that is reserved for one type: free spans that no other type takes. A reserved span stays reserved, through all its
// uses, until all reservations end.
//
// A reserve() in progress collects its spans in a separate reservation until it has all of them. If it fails, the spans are as
// before.
// Guarded by the lock of the heap.

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/intrusive_list.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/slab.hpp"

#include <array>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Spans for only one or two size classes, in which the objects of one type are allocated.
struct reservation {
    std::array<class_index, 2> classes{k_no_class, k_no_class};
    slab_list free;
    list_links<reservation> links;
    bool is_settled = false;  // no reserve() is in progress for it

    [[nodiscard]] bool serves(class_index c) const noexcept { return c == classes[0] || c == classes[1]; }

    // A free span of at least `granules` that holds `bytes` at `align`; null: none. O(free spans that are too short).
    [[nodiscard]] slab* find(std::size_t granules, std::size_t bytes, std::size_t align = 1) const noexcept {
        for (slab& s : free)
            if (s.granules >= granules &&
                round_up(address_of(s.memory()), align) - address_of(s.memory()) + bytes <= s.bytes())
                return &s;
        return nullptr;
    }
    // As find(), for one block that no class serves: its span is as long, or a granule longer, since the headers of one type's forms
    // differ by a few words. O(free spans that do not fit).
    [[nodiscard]] slab* find_exact(std::size_t granules, std::size_t bytes,
                                   std::size_t align) const noexcept {
        for (slab& s : free)
            if (fits_exact(s, granules, bytes, align)) return &s;
        return nullptr;
    }
    [[nodiscard]] static bool fits_exact(slab const& s, std::size_t granules, std::size_t bytes,
                                         std::size_t align) noexcept {
        return s.granules - granules <= 1 && bytes <= s.bytes() &&
               (address_of(s.memory()) & (align - 1)) == 0;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
