// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a thread does to a heap while another one has its lock and does not run: it allocates in a chunk of its own, and leaves what it
// frees. Whoever has the lock next makes it part of the heap.
//
//   upstream ─ grow ─▶ m_fresh_chunks ─ allocate ─▶ a slab; m_left_chunks: its chunk; m_left_spans: what is left of that
//   slab ─ deallocate ─▶ m_left_spans                    a span whose pages returned to the system ─▶ m_left_spans
//
// Invariant: the chunk of a span in m_left_spans is in m_chunks or in m_left_chunks. The span has the class k_left, or is one of m_leaving, so that those beside it do not become one with it.
// Any thread may call, and waits for none. O(chunks that other threads took apart meanwhile).

#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/fork_gate.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

POOLED_NOINLINE inline slab* slab_heap::allocate_apart(span_request const& what, bool are_free) noexcept {
    fork_pass const pass;
    chunk* mine = nullptr;
    decltype(m_fresh_chunks)::for_each(m_fresh_chunks.take_all(), [&](chunk& c) {
        bool const suits = mine == nullptr && address_of(c.base) % what.align == 0 && c.bytes >= what.bytes;
        suits ? static_cast<void>(mine = &c) : m_fresh_chunks.push(c);
    });
    note_gain();
    if (mine == nullptr) return nullptr;
    auto const count = detail::smaller(static_cast<std::uint32_t>(what.granules), mine->granules);
    slab& taken = mine->record(0);
    slab* const rest = count != mine->granules ? &mine->record(count) : nullptr;
    if (rest != nullptr) {
        free_spans::set_length(*rest, mine->granules - count);
        rest->size_class = static_cast<std::uint8_t>(k_left);
    }
    free_spans::set_length(taken, count);
    begin_use(taken, what.c, are_free);
    mine->held = mine->granules;
    m_left_chunks.push(*mine);
    if (rest != nullptr) m_left_spans.push(*rest);
    return &taken;
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
        s.reserved_for == &m_leaving ? end_leaving(s) : static_cast<void>(make_free(s));
    });
}

}  // namespace detail
POOLED_END_NAMESPACE
