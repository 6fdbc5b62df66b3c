// SPDX-License-Identifier: BSL-1.0
#pragma once

// How a heap returns free chunks to upstream and the pages of free spans to the system, and how chunks that were filled with small pages get huge ones.
//
//   free span ─ lend_next ─▶ k_lent, while the system takes its pages, without the lock ─ leave ─▶ free span
//
// Any thread may call; takes the lock of the heap, and not while it calls the system, unless noted. O(spans), besides what the system takes.

#include "pooled/heap/slab_heap.hpp"

POOLED_BEGIN_DETAIL

inline std::size_t slab_heap::release_chunks(std::size_t most, bool may_wait, std::size_t step) noexcept {
    intrusive_list<chunk> released;
    std::size_t bytes = 0;
    if ((m_empty_bytes == 0 && !may_wait) || most == 0) return 0;
    upstream::call under_way(m_upstream);
    {
        try_scoped_lock const lock(*this, may_wait);
        if (!lock) return 0;
        for (chunk& c : m_chunks) {
            if (c.held != 0 || bytes >= step) break;
            if (c.bytes > most - bytes) continue;
            under_way.begin(c.bytes);
            bytes += c.bytes;
            released.push_front(detach(c));
        }
    }
    return return_chunks(released, under_way, refused::keep);
}

inline slab* slab_heap::lend_next(purging& p, std::size_t& looks, upstream::call& under_way) noexcept {
    while (looks != 0) {
        --looks;
        slab* const s = p.bytes != 0 && m_upstream.is_system() ? m_free.next(p.spans) : nullptr;
        if (s == nullptr) return p.bytes = 0, nullptr;
        if (s->is_purged) p.bytes = p.bytes - detail::smaller<std::size_t>(s->bytes(), p.bytes);
        bool const is_half_used = s->owner->held >= s->owner->granules / 2;
        if (s->is_purged || (!p.splits && s->owner->is_huge && is_half_used)) continue;
        std::size_t const count =
            detail::smaller<std::size_t>((p.bytes - 1) / k_granule_bytes + 1, s->granules);
        under_way.begin();  // at the bound, others wait for it
        m_free.lend(count);
        return &begin_loan(hold(*s, count, s->granules - count), true);
    }
    return nullptr;
}

inline std::size_t slab_heap::purge_in_use(slab& s) noexcept {
    if (k_hardened || !m_upstream.is_system()) return 0;
    std::size_t bytes = 0;
    s.for_each_free_run([&](std::size_t first, std::size_t end) {
        auto const whole =
            platform::whole_pages(address_of(s.memory()) + first, end - first, platform::page_bytes());
        if (whole.first >= whole.end) return;
        end_free(s, first, end);
        bytes += platform::release_pages(s.memory() + first, end - first);
    });
    if (bytes != 0) s.owner->is_huge = false;
    return bytes;
}

inline std::size_t slab_heap::go_on(purging& p, std::size_t looks) noexcept {
    for (std::size_t bytes = 0;;) {
        upstream::call under_way(m_upstream);
        slab* lent = nullptr;
        if (try_scoped_lock const lock(*this, false); lock) lent = lend_next(p, looks, under_way);
        if (lent == nullptr) return bytes;
        std::size_t const returned = platform::release_pages(lent->memory(), lent->bytes());
        if (returned != 0) lent->owner->is_huge = false;
        if (returned != 0) looks -= detail::smaller(looks, k_looks_of_call);
        bytes += returned;
        leave(*lent);
        if (try_scoped_lock const lock(*this, false); lock)
            p.bytes = p.bytes - detail::smaller<std::size_t>(returned, p.bytes);
    }
}

inline void slab_heap::collapse_one() noexcept {
    std::int64_t next = m_next_collapse.load(std::memory_order_relaxed);
    if (platform::coarse_time() < next ||
        !m_next_collapse.compare_exchange_strong(next, k_collapsing, std::memory_order_relaxed))
        return;
    span<std::byte> found;
    if (try_scoped_lock const lock(*this, false); lock)
        for (std::size_t left = k_looks_in_step; left != 0 && m_walked != nullptr && found.empty(); --left) {
            chunk& c = *m_walked;
            bool const is_full = c.number > m_of_parent && c.is_small_and_full();
            if (c.was_full && is_full) found = {c.base, c.bytes};
            c.was_full = is_full;
            if (found.empty())
                m_walked = m_chunks.after(c);  // or stays here until it is known what came of it
        }
    next = m_walked != nullptr ? 0 : k_no_collapse;
    if (!found.empty()) {
        bool is_huge = false;
        std::int64_t const took = platform::collapse_page(found.data(), found.size(), is_huge);
        next = platform::coarse_time() + pause_after(took, is_huge);
        try_scoped_lock const lock(*this, false);
        if (chunk* const c = m_walked; lock && c != nullptr && c->base == found.data()) {
            c->is_huge = is_huge;
            c->was_full = false;
            for (std::size_t i = 0; is_huge && i < c->granules; i += c->records()[i].granules)
                c->records()[i].is_purged = false;  // all pages are resident
            m_walked = m_chunks.after(*c);
        }
    }
    m_next_collapse.store(next, std::memory_order_relaxed);
}

POOLED_END_DETAIL
