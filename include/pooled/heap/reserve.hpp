// SPDX-License-Identifier: BSL-1.0
#pragma once

// How a heap reserves memory for the objects of one type (heap/reservation.hpp).
//
// Any thread may call; takes the lock of the heap, and not while it calls the system. O(spans).

#include "pooled/heap/reservation.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

inline slab_heap::attempt::attempt(slab_heap& heap, std::array<class_index, 2> classes)
    : m_heap(heap),
      m_reservation(::new(g_metadata.allocate(sizeof(reservation)))
                        reservation{.classes = classes, .free = {}, .links = {}}) {
    scoped_lock const lock(heap);
    heap.m_reservations.push_front(*m_reservation);
    heap.m_purging = {};
    heap.m_walked = nullptr;
    heap.m_mutex.be_patient();  // from now on no system call
}
inline slab_heap::attempt::~attempt() {
    if (m_reservation == nullptr || m_epoch != m_heap.m_epoch) return;
    std::size_t const grown = m_reservation->grown;
    {
        scoped_lock const lock(m_heap);
        m_heap.end(*m_reservation);
    }
    if (grown != 0) m_heap.release_chunks(grown, true);
}

template <class Missing>
bool slab_heap::reserve(attempt& by, span_request const& what, Missing&& missing) {
    reservation& r = *by.m_reservation;
    while (std::size_t left = missing()) {
        if (!m_upstream.may_give(saturating_multiply(left, what.bytes))) return false;
        while (left != 0) {
            upstream::call under_way(m_upstream);
            chunk* const fresh = take_or_note(what, under_way);
            if (fresh == nullptr) return false;
            scoped_lock const lock(*this);
            link(*fresh);
            under_way.settle();
            r.grown += fresh->bytes;
            left = claim_free(r, what, left);
        }
    }
    return true;
}

inline std::size_t slab_heap::claim(attempt& by, span_request const& what, std::size_t count) noexcept {
    scoped_lock const lock(*this);
    reservation& r = *by.m_reservation;
    return claim_free(r, what, count - detail::smaller(count, m_reservations.free_blocks(r, what)));
}

inline void slab_heap::touch(attempt& by) noexcept {
    if (!m_upstream.is_system()) return;
    slab_list& spans = by.m_reservation->free;
    std::size_t left = 0;
    {
        scoped_lock const lock(*this);
        for ([[maybe_unused]] slab const& s : spans)
            ++left;
    }
    for (; left != 0; --left) {
        upstream::call under_way(m_upstream);
        slab* s = nullptr;
        {
            scoped_lock const lock(*this);
            s = spans.pop_front();
            if (s == nullptr) return;
            under_way.begin();  // at the bound, others wait for it
            m_free.lend(s->granules);
            begin_loan(*s);
        }
        platform::touch_pages(s->memory(), s->bytes());
        scoped_lock const lock(*this);
        --m_lent_spans;
        m_free.end_loan(s->granules);
        s->reserved_for = by.m_reservation;
        spans.push_back(*s);
    }
}

inline bool slab_heap::reserve_in_use(attempt& by, slab& s) noexcept {
    scoped_lock const lock(*this);
    if (reservation const* const earlier = s.reserved_for)
        return earlier->classes == by.m_reservation->classes;
    s.reserved_for = by.m_reservation;
    return true;
}

inline void slab_heap::forget_reservations() noexcept {
    if (try_scoped_lock const lock(*this, false); lock) end_reservations();
}
inline void slab_heap::end_reservations() noexcept {
    for (reservation& r : m_reservations)
        r.is_settled ? end(r) : unreserve(r);
}

inline void slab_heap::forget_others() noexcept {
    scoped_lock const lock(*this);
    for (reservation& r : m_reservations)
        if (!r.is_settled && r.by != &t_upstream_calls()) end(r);
    slab_list lent;
    if (m_lent_spans != 0)
        for_each_span([&](slab& s) {
            if (s.reserved_for == &m_lent) lent.push_front(s);
        });
    while (slab* const s = lent.pop_front())
        take_back_purged(*s);
    if (!m_chunks.empty()) m_of_parent = detail::next_region();
    if (m_next_collapse.load(std::memory_order_relaxed) == k_collapsing)
        m_next_collapse.store(0, std::memory_order_relaxed);
}

inline void slab_heap::settle(reservation& r) noexcept {
    scoped_lock const lock(*this);
    note_gain();
    r.is_settled = true;
    if (reservation* const earlier = m_reservations.settled_like(r)) end(r, earlier);
}

inline std::size_t slab_heap::claim_free(reservation& r, span_request const& what,
                                         std::size_t count) noexcept {
    while (count != 0) {
        slab* const s = find_unreserved(what);
        if (s == nullptr) break;
        slab& mine = hold(*s, what);
        mine.reserved_for = &r;
        r.free.push_front(mine);
        count -= detail::smaller(count, reservation_list::blocks_in(mine, what));
    }
    return count;
}

inline void slab_heap::unreserve(reservation& r, reservation* to) noexcept {
    for_each_span([&](slab& s) {
        if (s.reserved_for == &r && s.size_class != k_no_class) s.reserved_for = to;
    });
    while (slab* const s = r.free.pop_front()) {
        s->reserved_for = to;
        make_free(*s);
    }
}

inline void slab_heap::end(reservation& r, reservation* to) noexcept {
    unreserve(r, to);
    m_reservations.remove(r);
    g_metadata.deallocate(&r, sizeof(reservation));
}

}  // namespace detail
POOLED_END_NAMESPACE
