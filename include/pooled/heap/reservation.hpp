// SPDX-License-Identifier: BSL-1.0
#pragma once

// Memory that is reserved for one type: free spans for only one or two size classes, in which its objects are allocated. A reserved
// span stays reserved, through all its uses, until all reservations end. Guarded by the lock of the heap.
//
//   reserve() ─▶ reservation, collects spans ─▶ settled ─▶ joins an earlier one for the same classes
//                                            └▶ failed: its spans are as before
//
// Beside a thread that has the lock and does not run, a reservation is not listed, and collects spans of chunks of its own. The lock's next
// holder lists it with the first of these.

#include "pooled/heap/chunk_source.hpp"
#include "pooled/heap/free_spans.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/upstream.hpp"

POOLED_BEGIN_DETAIL

struct reservation {
    std::array<class_index, 2> classes{k_no_class, k_no_class};
    slab_list free{};
    list_links<reservation> links{};
    std::size_t grown = 0;  // bytes of chunks that were added for it
    bool is_listed = false;
    bool is_resident = true;               // unless it took a span that was free; of its attempt
    observed<bool> is_settled{false};      // no reserve() is in progress for it; written without the lock
    void const* by = &t_upstream_calls();  // the thread of the reserve()

    [[nodiscard]] bool serves(class_index c) const noexcept { return c == classes[0] || c == classes[1]; }
};

// The latest first. O(reservations), and O(their free spans) where it counts or looks for one.
class reservation_list : public intrusive_list<reservation> {
public:
    // A free span that is reserved for the class and holds a block; null: none.
    [[nodiscard]] slab* find_reserved(span_request const& what) const noexcept {
        for (reservation const& r : *this)
            if (r.serves(what.c))
                for (slab& s : r.free)
                    if (blocks_in(s, what) != 0) return &s;
        return nullptr;
    }
    [[nodiscard]] bool serve(class_index c) const noexcept {
        return detail::any_of(*this, [c](reservation const& r) { return r.serves(c); });
    }
    // The blocks in free spans of `mine` and of those that are settled for the same classes.
    [[nodiscard]] std::size_t free_blocks(reservation const& mine, span_request const& what) const noexcept {
        std::size_t have = 0;
        for (reservation const& one : *this)
            if (&one == &mine || (one.is_settled && one.classes == mine.classes))
                for (slab const& s : one.free)
                    have += blocks_in(s, what);
        return have;
    }
    // Another one that is settled for the same classes; null: none.
    [[nodiscard]] reservation* settled_like(reservation const& mine) const noexcept {
        for (reservation& other : *this)
            if (&other != &mine && other.is_settled && other.classes == mine.classes) return &other;
        return nullptr;
    }
    // How many blocks a reserved span holds. One block that no class serves has a span as long, or a granule longer, since the headers of
    // one type's forms differ by a few words.
    [[nodiscard]] static std::size_t blocks_in(slab const& s, span_request const& what) noexcept {
        if (what.c != k_exact) return k_geometry[what.c].blocks_in(s.bytes());
        return s.granules - what.granules <= 1 && what.bytes <= s.bytes() &&
                       free_spans::skip_to(s, what.align) == 0
                   ? 1
                   : 0;
    }
};

POOLED_END_DETAIL
