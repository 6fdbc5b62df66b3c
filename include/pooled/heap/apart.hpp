// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a thread does to a heap while another one has its lock and does not run: it leaves what it frees, and what it takes from upstream, in
// spans of one length, and allocates what was left. Whoever has the lock next makes it part of the heap.
//
//   upstream ─ grow, reserve ─▶ m_left_chunks, m_left_spans: its spans      slab ─ deallocate ─▶ m_left_spans ─ allocate ─▶ a slab as long
//   what is reserved, or was lent to the system ─▶ m_kept_spans
//
// Invariant: the chunk of a span in these lists is in m_chunks or in m_left_chunks. The span has the class k_left or k_lent, so that those
//             beside it do not become one with it. One in m_kept_spans serves nobody before it is part of the heap, and no other thread
//             has it in its hands meanwhile: what is reserved is found once the lock is free.
//             While a thread looks for a span, or leaves a chunk, nobody else finds those that were left: m_apart counts such threads, so
//             that no pool reports `exhausted` meanwhile, and no chunk is detached.
// Any thread may call, and waits for none. O(spans that other threads left meanwhile).

#include "pooled/heap/slab_heap.hpp"

POOLED_BEGIN_DETAIL

inline slab* slab_heap::allocate(block_request const& what, bool may_wait, bool are_free,
                                 std::size_t held) noexcept {
    span_request const wanted = span_for(what, held);
    slab* taken = nullptr;
    for (unsigned turn = 0;; platform::pause(turn++)) {
        std::uint64_t const before = apart();
        try_scoped_lock const lock(*this, may_wait && turn != 0);
        if (!lock) {
            taken = allocate_apart(span_for(what), are_free);  // as long as what grow() leaves
        } else if (slab* const s = find_span(wanted)) {
            (taken = &hold(*s, wanted))->assign(what.c, are_free);
            note_use(*taken);
        }
        if (taken != nullptr || !may_wait || (lock && was_alone(before))) break;
    }
    if (taken != nullptr) map(*taken);
    return taken;
}

POOLED_NOINLINE inline slab* slab_heap::allocate_apart(span_request const& what, bool are_free) noexcept {
    fork_pass const pass;
    m_apart.fetch_add(k_begins_apart, std::memory_order_relaxed);
    std_atomics::full_barrier();  // pairs with that in was_alone()
    // All of a span: the lock's holder may read how long it is. A shorter one, if there is no more or its chunk is.
    bool const is_last = has_no_more(what);
    slab* const taken = m_left_spans.take_one(k_looks_apart, [&](slab& s) {
        return s.bytes() >= what.bytes && s.granules <= what.granules &&
               address_of(s.memory()) % what.align == 0 &&
               (is_last || s.granules >= detail::smaller<std::size_t>(what.granules, s.owner->granules));
    });
    if (taken != nullptr) taken->assign(what.c, are_free);
    note_gain();
    // release: pairs with the acquire in apart(); what was put back is seen.
    m_apart.fetch_sub(1, std::memory_order_release);
    return taken;
}

POOLED_NOINLINE inline void slab_heap::leave(slab& s) noexcept {
    fork_pass const pass;
    if (s.size_class <= k_exact) s.unassign(k_left);
    (s.size_class == k_left && s.reserved_for == nullptr ? m_left_spans : m_kept_spans).push(s);
    note_gain();
}
POOLED_NOINLINE inline std::size_t slab_heap::extend(span_request const& what, bool* has_failed,
                                                     attempt* by) {
    upstream::call under_way(m_upstream);
    chunk* const fresh = take_or_note(what, under_way, m_mutex.is_stalled());
    if (has_failed != nullptr) *has_failed = under_way.has_failed();
    if (fresh == nullptr) return 0;
    std::size_t const bytes = fresh->bytes;  // another thread may return it at once
    if (by != nullptr) by->m_reservation->grown += bytes;
    if (try_scoped_lock const lock(*this, false); lock && (by == nullptr || !by->m_touches)) {
        link(*fresh), under_way.settle();
        if (by != nullptr) by->m_left = claim_free(*by->m_reservation, what, by->m_left);
        return bytes;
    }
    if (by != nullptr && by->m_touches) forget_small();
    // The last span has the rest.
    std::size_t const most = by != nullptr ? fresh->granules : k_looks_apart;
    std::size_t const last = detail::smaller((fresh->granules - 1) / what.granules, most);
    for (std::size_t i = 0; i <= last; ++i) {
        slab& s = fresh->record(i * what.granules);
        free_spans::set_length(s, i < last ? what.granules : fresh->granules - i * what.granules);
        s.size_class = static_cast<std::uint8_t>(k_left);
        std::size_t const blocks =
            by != nullptr && by->m_left != 0 ? reservation_list::blocks_in(s, what) : 0;
        if (blocks == 0) continue;
        s.reserved_for = by->m_reservation;
        by->m_left -= detail::smaller(by->m_left, blocks);
        if (by->m_touches) platform::touch_pages(s.memory(), s.bytes());
    }
    fork_pass const pass;
    m_apart.fetch_add(k_begins_apart, std::memory_order_relaxed);
    std_atomics::full_barrier();  // pairs with that in was_alone(); not detached before its spans are left
    m_was_refused.store(false, std::memory_order_relaxed);
    fresh->epoch = m_epoch;
    // All may be used before the lock's next holder knows it.
    fresh->new_from = fresh->held = fresh->granules;
    m_left_chunks.push(*fresh);
    for (std::size_t i = last + 1; i-- != 0;)
        leave(fresh->record(i * what.granules));
    under_way.settle();
    m_apart.fetch_sub(1, std::memory_order_release);  // as in allocate_apart()
    return bytes;
}

POOLED_NOINLINE inline void slab_heap::do_apart_slow() noexcept {
    // First: their chunks were left before them.
    std::array<slab*, 2> const spans{m_left_spans.take_all(), m_kept_spans.take_all()};
    decltype(m_left_chunks)::for_each(m_left_chunks.take_all(), [this](chunk& c) { m_chunks.push_back(c); });
    auto const join = [this](slab& s) {
        bool const is_lent = s.size_class == k_lent;
        bool const is_purged = is_lent && s.is_purged;
        std::size_t const count = s.granules;
        s.size_class = static_cast<std::uint8_t>(k_no_class);
        if (reservation* const by = s.reserved_for) list(*by);
        slab& all = make_free(s, is_purged);
        if (!is_lent) return;
        --m_lent_spans;
        m_free.end_loan(count);
        if (is_purged) m_free.move_to_end(all);  // the walk has seen it
    };
    for (slab* const left : spans)
        decltype(m_left_spans)::for_each(left, join);
}

POOLED_END_DETAIL
