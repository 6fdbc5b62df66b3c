// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a thread does to a heap while another one has its lock and does not run: it leaves what it frees, and allocates what was left, or in
// a chunk of its own, of which it makes spans of one length. Whoever has the lock next makes it part of the heap.
//
//   upstream ─ grow ─▶ m_fresh_chunks ─ allocate ─▶ a slab; m_left_chunks: its chunk; m_left_spans: the others of that
//   slab ─ deallocate ─▶ m_left_spans ─ allocate ─▶ a slab as long      a span whose pages returned to the system ─▶ m_left_spans
//
// Invariant: the chunk of a span in m_left_spans is in m_chunks or in m_left_chunks. The span has the class k_left, or is one of m_lent, so that those beside it do not become one with it.
//             While a thread looks for a span, nobody else finds those that were left: m_apart counts such threads, so that no pool reports
//             `exhausted` meanwhile.
// Any thread may call, and waits for none. O(chunks that other threads took apart meanwhile).

#include "pooled/heap/slab.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/fork_gate.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

inline slab* slab_heap::allocate(block_request const& what, bool may_wait, bool are_free) noexcept {
    span_request const wanted = span_for(what);
    slab* taken = nullptr;
    for (unsigned turn = 0;; platform::pause(turn++)) {
        std::uint64_t const before = apart();
        try_scoped_lock const lock(*this, may_wait && turn != 0);
        if (!lock) {
            taken = allocate_apart(wanted, are_free);
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
    // All of a span: the lock's holder may read how long it is. A shorter one, if there is no more.
    bool const is_last = has_no_more(what);
    slab* taken = m_left_spans.take_one(k_looks_apart, [&](slab& s) {
        return s.size_class == k_left && s.reserved_for == nullptr && s.bytes() >= what.bytes &&
               (s.granules == what.granules || (is_last && s.granules < what.granules)) &&
               address_of(s.memory()) % what.align == 0;
    });
    chunk* const mine = taken != nullptr ? nullptr : m_fresh_chunks.take_one(~0U, [&](chunk& c) {
        return address_of(c.base) % what.align == 0 && c.bytes >= what.bytes;
    });
    std::uint32_t const others =
        mine != nullptr ? divide(*mine, static_cast<std::uint32_t>(what.granules)) : 0;
    if (mine != nullptr) taken = &mine->record(0);
    if (taken != nullptr) taken->assign(what.c, are_free);
    if (mine != nullptr) {
        taken->set_zero(mine->new_from == 0);
        // The rest may be used before the lock's next holder knows it.
        mine->new_from = mine->held = mine->granules;
        m_left_chunks.push(*mine);
        for (std::size_t i = others; i != 0; --i)
            m_left_spans.push(mine->record(i * taken->granules));
    }
    note_gain();
    // release: pairs with the acquire in apart(); what was put back is seen.
    m_apart.fetch_sub(1, std::memory_order_release);
    return taken;
}

// In spans of this length, the last of which has the rest: no more than are looked at, as one that came for another request may be of any
// length. Returns how many there are besides the first, whose length alone is set.
inline std::uint32_t slab_heap::divide(chunk& fresh, std::uint32_t length) noexcept {
    std::uint32_t const others = detail::smaller((fresh.granules - 1) / length, k_looks_apart);
    for (std::size_t i = 0; i <= others; ++i) {
        slab& s = fresh.record(i * length);
        free_spans::set_length(s, i < others ? length : fresh.granules - i * length);
        if (i != 0) s.size_class = static_cast<std::uint8_t>(k_left);
    }
    return others;
}

POOLED_NOINLINE inline void slab_heap::leave(slab& s) noexcept {
    fork_pass const pass;
    if (s.size_class != k_no_class) s.unassign(k_left);
    m_left_spans.push(s);
    note_gain();
}
POOLED_NOINLINE inline void slab_heap::leave(chunk& fresh, upstream::call& under_way) noexcept {
    fork_pass const pass;
    fresh.epoch = m_epoch;
    m_fresh_chunks.push(fresh);
    under_way.settle();
    note_gain();
}

POOLED_NOINLINE inline void slab_heap::do_apart_slow() noexcept {
    slab* const spans = m_left_spans.take_all();  // first: their chunks were left before them
    decltype(m_left_chunks)::for_each(m_left_chunks.take_all(), [this](chunk& c) { m_chunks.push_back(c); });
    decltype(m_fresh_chunks)::for_each(m_fresh_chunks.take_all(), [this](chunk& c) { link(c); });
    decltype(m_left_spans)::for_each(spans, [this](slab& s) {
        s.size_class = static_cast<std::uint8_t>(k_no_class);
        s.reserved_for == &m_lent ? take_back_purged(s) : static_cast<void>(make_free(s));
    });
}

}  // namespace detail
POOLED_END_NAMESPACE
