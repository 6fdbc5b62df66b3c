// SPDX-License-Identifier: BSL-1.0
#pragma once

// How a heap reserves memory for the objects of one type (heap/reservation.hpp).
//
// Any thread may call; takes the lock of the heap, and not while it calls the system. Beside a holder that does not run, all that it needs
// comes from upstream, unless it may wait. O(spans).

#include "pooled/heap/slab_heap.hpp"

POOLED_BEGIN_DETAIL

inline slab_heap::attempt::attempt(slab_heap& heap, std::array<class_index, 2> classes, bool touches)
    : m_heap(heap),
      m_reservation(::new(g_metadata.allocate(sizeof(reservation))) reservation{classes}),
      m_touches(touches && heap.m_upstream.is_system()) {
    if (try_scoped_lock const lock(heap, false); lock) heap.list(*m_reservation);
}
inline slab_heap::attempt::~attempt() {
    if (m_reservation == nullptr || m_epoch != m_heap.m_epoch) return;
    std::size_t const grown = m_reservation->grown;
    {
        scoped_lock const lock(m_heap);
        m_heap.list(*m_reservation);
        m_heap.end(*m_reservation);
    }
    if (grown != 0) m_heap.release_chunks(grown, true);
}

inline void slab_heap::list(reservation& r) noexcept {
    if (std::exchange(r.is_listed, true)) return;
    m_reservations.push_front(r);
    m_purging = {};
    m_walked = nullptr;
    m_mutex.be_patient();  // from now on no system call
}

template <class Missing>
bool slab_heap::reserve(attempt& by, span_request const& what, Missing&& missing) {
    while ((by.m_left = missing()) != 0) {
        if (!m_upstream.may_give(saturating_multiply(by.m_left, what.bytes))) return false;
        by.m_blocks += by.m_left;
        while (by.m_left != 0)
            if (extend(what, &by.has_failed, &by) == 0) return false;
    }
    return true;
}

inline std::size_t slab_heap::claim(attempt& by, span_request const& what, std::size_t count) noexcept {
    reservation& r = *by.m_reservation;
    try_scoped_lock const lock(*this, by.may_wait);
    by.has_looked = lock && by.has_looked;
    if (lock)
        by.m_blocks =
            count - claim_free(r, what, saturating_subtract(count, m_reservations.free_blocks(r, what)));
    return count - detail::smaller(count, by.m_blocks);
}

inline bool slab_heap::touch(attempt& by) noexcept {
    if (!m_upstream.is_system() || by.m_reservation->is_resident) return true;
    slab_list& spans = by.m_reservation->free;
    for (std::size_t i = 0, end = 0; i == 0 || i < end; ++i) {
        upstream::call under_way(m_upstream);
        slab* s = nullptr;
        {
            try_scoped_lock const lock(*this, by.may_wait);
            if (!lock) return by.has_looked = false;
            if (i == 0)
                for ([[maybe_unused]] slab const& each : spans)
                    ++end;
            s = spans.last();
            if (s == nullptr) return true;
            spans.remove(*s);
            under_way.begin();  // at the bound, others wait for it
            m_free.lend(s->granules);
            begin_loan(*s, false);
        }
        platform::touch_pages(s->memory(), s->bytes());
        leave(*s);
    }
    return true;
}

inline bool slab_heap::reserve_in_use(attempt& by, slab& s) noexcept {
    if (!by.has_looked) return false;  // the lock's holder does not run
    try_scoped_lock const lock(*this, by.may_wait);
    by.has_looked = static_cast<bool>(lock);
    if (!lock) return false;
    list(*by.m_reservation);
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
        r.is_settled.acquire() ? (on_lock(), end(r)) : unreserve(r);  // what it left since is in m_chunks now
}

inline void slab_heap::forget_others() noexcept {
    scoped_lock const lock(*this);
    for (reservation& r : m_reservations)
        if (!r.is_settled && r.by != &t_upstream_calls()) end(r);
    if (m_lent_spans != 0)
        for_each_span([&](slab& s) {
            if (s.size_class == k_lent) leave(s);
        });
    if (!m_chunks.empty()) m_of_parent = detail::next_region();
    if (m_next_collapse.load(std::memory_order_relaxed) == k_collapsing)
        m_next_collapse.store(0, std::memory_order_relaxed);
}

inline void slab_heap::settle(reservation& r) noexcept {
    note_gain();
    try_scoped_lock const lock(*this, false);
    // release: pairs with the acquire in end_reservations(); whoever ends it, does so after this attempt. Then it is left alone.
    r.is_settled.publish(true);
    if (reservation* const earlier = lock ? m_reservations.settled_like(r) : nullptr) end(r, earlier);
}

inline std::size_t slab_heap::claim_free(reservation& r, span_request const& what,
                                         std::size_t count) noexcept {
    list(r);
    while (count != 0) {
        slab* const s = find_unreserved(what);
        if (s == nullptr) break;
        slab& mine = hold(*s, what);
        mine.reserved_for = &r;
        r.is_resident = false;
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

POOLED_END_DETAIL
