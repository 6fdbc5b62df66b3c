// SPDX-License-Identifier: BSL-1.0
#pragma once

// The mode of a pool at its bound, in which threads keep no blocks: whatever is free is in the central lists, the heap, and the slots through
// which threads exchange blocks (bound_slots.hpp).
//
// Any thread may call. Entering: O(threads + slabs); a request or a return then: O(1).

#include "pooled/cache/bound_slots.hpp"
#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/central.hpp"
#include "pooled/cache/gate.hpp"
#include "pooled/cache/steal.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <atomic>

POOLED_BEGIN_NAMESPACE
namespace detail {

inline void cache_set::enter_bound() noexcept {
    if (is_at_bound()) return;
    if (m_pool.is_shared) {
        // No thread uses its cache any more without the lock, including new ones and the caller.
        stop_every();
        if (is_at_bound()) return;
        hold();
        for_each([](thread_cache& cache) { cache.gate.stop(); });
    }
    steal_every([&] {
        if (is_at_bound()) return --m_holds, true;  // another thread was faster
        if (m_pool.is_shared) m_pool.bound_epoch.add(1);
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

inline void cache_set::drain_slots() noexcept {
    std::uint64_t const deferrals = m_slots.deferrals();
    for (class_index c = m_slots.has_deferred() ? 0 : k_lists; c < k_lists; ++c)
        scoped_lock const settled((*this)[c]);
    m_slots.end_deferred(deferrals);
    m_slots.drain([this](class_index c, void* block) {
        scoped_lock const lock((*this)[c]);
        (*this)[c].flush({&block, 1});
    });
}

inline void* cache_set::search_slots(block_request const& what) noexcept {
    central& list = (*this)[what.c];
    auto const find = [&]() -> void* {
        if (list.has_nothing()) return nullptr;
        scoped_lock const lock(list);
        return list.allocate_one(what);
    };
    bound_slots::view seen;
    for (unsigned attempt = 0; attempt < k_searches; ++attempt, drain_slots()) {
        if (void* const block = m_slots.pop(what.c, seen)) return block;
        if (void* const block = find()) return block;
        if (m_slots.were_empty(seen)) return nullptr;
        if (seen.is_draining) platform::pause(attempt);
    }
    // Other threads exchange blocks all the time: not any more.
    scoped_lock const lock(*this);
    void* block = nullptr;
    bool has_all = false;
    for (unsigned attempt = 0;; end_bar(), wait_unlocked(attempt++)) {
        if (!bar_slots() || !try_lock_classes()) continue;
        m_slots.end_deferred(m_slots.deferrals());
        drain_slots_locked();
        static_cast<void>(m_slots.pop(k_no_class, seen));
        has_all = m_slots.were_empty(seen);  // no other thread is on the way from a slot to a list
        block = list.allocate_one(what);
        unlock_classes();
        if (has_all || block != nullptr) break;
    }
    end_bar();
    return block;
}

inline bool cache_set::bar_slots() noexcept {
    m_are_slots_barred.store(true, std::memory_order_relaxed);
    std_atomics::full_barrier();  // pairs with that in announce()
    gate_patience patience;
    for (thread_cache& cache : m_all)
        if (!patience.wait([&cache] { return cache.gate.is_idle(); })) return false;
    return true;
}

inline void cache_set::end_bar() noexcept {
    m_are_slots_barred.store(false, std::memory_order_release);  // pairs with the acquire in put_at_bound()
}

inline bool cache_set::put_at_bound(class_index c, thread_cache& cache, void* block,
                                    bool is_locked) noexcept {
    if (g_page_map.find(block).pool_id() != m_pool.pool_id) [[unlikely]]
        return false;  // reported under the lock
    cache.gate.announce();
    // acquire: pairs with the release in leave_bound(); the end of this mode is seen.
    bool const may_put = !m_are_slots_barred.load(std::memory_order_acquire) && is_at_bound();
    std::uint64_t const puts = may_put ? m_slots.push(c, block) : 0;
    class_cache none;
    bool const is_deferred = is_locked && may_put && puts == 0 && (*this)[c].defer_half(none, block);
    if (is_deferred) m_slots.note_deferred();
    if (puts != 0 || is_deferred) cache.classes[c].add_net_taken(-1);
    if (puts % k_counted == 0 && puts != 0) (*this)[c].add_served(k_counted);
    cache.gate.leave();
    return puts != 0 || is_deferred;
}

}  // namespace detail
POOLED_END_NAMESPACE
