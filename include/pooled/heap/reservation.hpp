// SPDX-License-Identifier: BSL-1.0
#pragma once

// Memory that was reserved for one type: free slabs that no other type takes. A slab that was reserved stays so, through all
// its uses, until all reservations end.
//
// What a reserve() that is under way has reserved belongs to a reservation of its own, until all of it is there: so one that
// fails leaves the slabs as they were.
// Guarded by the lock of the heap's slab lists.

#include "pooled/base/size_class.hpp"
#include "pooled/heap/slab.hpp"

#include <array>

namespace pooled::detail {

// Slabs that only one or two size classes may use: those in which the objects of one type are allocated.
struct reservation {
    std::array<class_index, 2> classes{k_no_class, k_no_class};
    slab_list free;
    reservation* next = nullptr;
    bool is_settled = false;  // no reserve() is under way for it

    [[nodiscard]] bool serves(class_index c) const noexcept { return c == classes[0] || c == classes[1]; }
};

}  // namespace pooled::detail
