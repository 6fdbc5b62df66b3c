// SPDX-License-Identifier: BSL-1.0
#pragma once

// The mode of a pool at its bound, in which threads keep no blocks: whatever is free is in the central lists, the heap, and the slots through
// which threads exchange blocks (bound_slots.hpp).
//
// Any thread may call. Entering: O(threads + slabs); a request or a return then: O(1).

#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/steal.hpp"

POOLED_BEGIN_DETAIL

POOLED_NOINLINE inline void cache_set::enter_bound() noexcept {
    if (is_at_bound()) return;
    with_every([&] {
        collect_all();
        if (is_at_bound()) return true;  // another thread was faster
        m_slots.begin();
        if (m_pool.is_shared) {
            // No thread uses its cache any more without the lock, including new ones and the caller.
            hold();
            for_each([](thread_cache& cache) { cache.gate.stop(); });
            m_pool.bound_epoch.add(1);
        }
        for (class_index c = 0; c < k_lists; ++c)
            (*this)[c].end_served();
        return true;
    });
}

inline bool cache_set::leave_bound() noexcept {
    if (!is_at_bound()) return true;
    bool const may_leave = bar_slots() && try_lock_classes();
    if (may_leave) {
        m_pool.bound_epoch.add(1);
        drain_slots_locked();
        unlock_classes();
        --m_holds;
    }
    end_bar();
    resume();
    return may_leave;
}

inline bool cache_set::drain_slots() noexcept {
    bool is_settled = true;
    std::uint64_t const deferrals = m_slots.deferrals();
    for (class_index c = m_slots.has_deferred() ? 0 : k_lists; is_settled && c < k_lists; ++c)
        is_settled = try_lock_class(c) && ((*this)[c].unlock(), true);
    if (is_settled) m_slots.end_deferred(deferrals);
    m_slots.drain([this](class_index c, void* block) {
        central& list = (*this)[c];
        bool const is_mine = list.try_lock_for_a_moment();
        if (!is_mine && defer_at_bound(c, block)) return;
        if (!is_mine) list.lock();  // there is no memory
        list.flush({&block, 1});
        list.unlock();
    });
    return is_settled;
}

POOLED_NOINLINE inline void* cache_set::search_slots(block_request const& what,
                                                     thread_cache* cache) noexcept {
    for (unsigned turn = 0; is_at_bound(); ++turn) {
        bound_slots::view seen;
        void* block = m_slots.pop(what.c, seen);
        bool const has_looked = block != nullptr || search_list(what, cache, block);
        if (block != nullptr || (has_looked && m_slots.were_empty(seen))) return block;
        if (!drain_slots() || !has_looked || seen.is_draining) platform::pause(turn);
        // Other threads exchange blocks all the time: not meanwhile.
        if (turn < k_searches || !try_lock_for_a_moment()) continue;
        unlock_at_end const lock(*this);
        std::uint64_t const deferrals = m_slots.deferrals();  // before the locks: others may defer meanwhile
        bool has_all = bar_slots() && try_lock_classes();
        if (has_all) {
            m_slots.end_deferred(deferrals);
            drain_slots_locked();
            static_cast<void>(m_slots.pop(k_no_class, seen));
            has_all = m_slots.were_empty(seen);  // no other thread is on the way from a slot to a list
            block = (*this)[what.c].allocate_one(what);
            unlock_classes();
        }
        end_bar();
        if (has_all || block != nullptr) return block;
    }
    return nullptr;
}

template <class Work>
void cache_set::while_at_bound(thread_cache* cache, Work&& work) noexcept {
    cache != nullptr ? cache->gate.announce() : m_outsiders.announce();
    // acquire: pairs with the release in end_bar(); if this mode has ended before, that is seen.
    bool const is_barred = m_are_slots_barred.load(std::memory_order_acquire);
    if (is_at_bound()) work(!is_barred);
    cache != nullptr ? cache->gate.leave() : m_outsiders.leave();
}

inline bool cache_set::search_list(block_request const& what, thread_cache* cache, void*& block) noexcept {
    central& list = (*this)[what.c];
    if (list.has_nothing()) return true;
    if (!list.try_lock_for_a_moment()) {
        fork_pass const pass;
        while_at_bound(cache, [&](bool may_use_slots) {
            if (!may_use_slots) return;
            class_cache none;
            m_slots.enter_deferral();
            block = list.refill_deferred(none, what);
            m_slots.leave_deferral();
        });
        return block != nullptr;
    }
    block = list.allocate_one(what);
    list.unlock();
    return true;
}

inline bool cache_set::bar_slots() noexcept {
    m_are_slots_barred.store(true, std::memory_order_relaxed);
    return are_all_outside();
}

inline bool cache_set::are_all_outside() noexcept {
    std_atomics::full_barrier();  // pairs with those in announce()
    gate_patience patience;
    for (thread_cache& cache : m_all)
        if (!patience.wait([&cache] { return cache.gate.is_idle(); })) return false;
    return patience.wait([this] { return m_outsiders.take(); });
}

inline void cache_set::end_bar() noexcept {
    m_are_slots_barred.store(false, std::memory_order_release);  // pairs with the acquire in while_at_bound()
}

inline bool cache_set::put_at_bound(class_index c, thread_cache* cache, void* block,
                                    bool is_locked) noexcept {
    if (g_page_map.find(block).pool_id() != m_pool.pool_id) [[unlikely]]
        return false;  // reported under the lock
    bool is_taken = false;
    while_at_bound(cache, [&](bool may_use_slots) {
        // Each block of k_exact has its own size: a slot does not know it.
        std::uint64_t const puts = may_use_slots && c != k_exact ? m_slots.push(c, block) : 0;
        is_taken = puts != 0 || (is_locked && defer_at_bound(c, block));
        if (is_taken && cache != nullptr) cache->classes[c].add_net_taken(-1);
        if (puts % k_counted == 0 && puts != 0) (*this)[c].add_served(k_counted);
    });
    return is_taken;
}

inline bool cache_set::defer_at_bound(class_index c, void* block) noexcept {
    m_slots.enter_deferral();
    bool const is_taken = (*this)[c].defer_one(block);
    m_slots.leave_deferral();
    return is_taken;
}

POOLED_END_DETAIL
