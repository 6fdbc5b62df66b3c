// SPDX-License-Identifier: BSL-1.0
#pragma once

// A free_list of objects that are made in steps: a thread that takes the last one, or finds none, makes more, within the limits.
//
// One thread at a time, the *grower*, makes a step, and holds no lock meanwhile; other threads that find nothing wait for it.
// `Maker` has four members. Only the grower calls the first three:
//   make(count, before)   makes `count` objects where there were `before`; may throw
//   keep(void** out)      commits them and writes their addresses. Under the lock; must not throw
//   undo()                destroys them, after make() threw or the list got no memory
//   forget()              the grower does not exist in this forked child: what it made is lost, without a destructor
//
// As long as only one thread uses the list, its steps take no lock: m_sole is that thread's cache, and all that is free is in it.
// Its owner then begins and ends a step inside the cache's gate; any other thread first stops the gate (end_sole()).
//
// Invariants: capacity − in use = idle; the list has space for capacity
//             m_sole != null => all idle objects are in that cache, and no other cache exists; only its owner sets it
//             when a call returns, idle == 0 only if no step may be made, or one is being made
// take() and put(): O(1), but for a step. Any thread may call.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/object/free_list.hpp"
#include "pooled/impl/os/fork_gate.hpp"
#include "pooled/impl/os/mutex.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct growth_limits {
    std::size_t initial;
    std::size_t step;  // 0: at most `initial`
    std::size_t max;   // 0: none
};

template <class Maker>
class growing_list {
public:
    growing_list(pool_core& core, growth_limits limits, Maker maker) noexcept
        : m_free(core), m_limits(limits), m_maker(maker) {
        set_capacity(0);
    }

    // Requires that no other thread knows the list yet. Throws what a step throws.
    void make_initial() {
        if (m_limits.initial != 0) grow(m_limits.initial, nullptr);
    }

    // Null when there is none and no step may be made, or when the grower calls. Throws what a step throws; the list is then
    // unchanged. A step that runs out of memory is not yet a failure while one object is left.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* take() {
        void* const found = m_free.take_cached(m_spare);
        return found != nullptr ? found : take_slow();
    }

    // False: it is stale, and the caller keeps it. Otherwise the list may be gone. `is_stale` changes only within take_all().
    [[nodiscard]] bool put(void* p, bool const& is_stale) noexcept {
        return put_cached(p, is_stale) || put_slow(p, is_stale);
    }
    // The first half of put(). False: the caller must call put_slow().
    [[nodiscard]] POOLED_ALWAYS_INLINE bool put_cached(void* p, bool const& is_stale) noexcept {
        return m_free.put_cached(p, is_stale);
    }
    [[nodiscard]] POOLED_NOINLINE bool put_slow(void* p, bool const& is_stale) noexcept {
        if (m_free.put_far(p, is_stale)) return true;
        thread_cache* const mine = m_free.attach();
        scoped_lock const lock(m_free.mutex());
        end_sole();
        if (is_stale) return false;
        m_free.push(mine, p, m_capacity);
        return true;
    }

    // An object in use was not put back: counts one less.
    void lose(bool const& is_stale) noexcept {
        scoped_lock const lock(m_free.mutex());
        end_sole();
        if (!is_stale) set_capacity(m_capacity - 1);
    }

    // Takes everything that is free; capacity becomes 0. Calls `then(maker, count)` while all other threads are kept out. Must not
    // be called by a maker.
    template <class Then>
    [[nodiscard]] free_list::list take_all(Then&& then) noexcept {
        unique_lock lock(m_free.mutex());
        for (end_sole(); m_grower != nullptr; end_sole()) {
            POOLED_CHECK(m_grower != &t_state,
                         "pooled: a pool was cleared by the constructor of one of its objects");
            wait_for_growth(lock);
        }
        m_steps = 0;
        m_is_short_of_memory = false;
        set_capacity(0);
        return m_free.take_all([&](std::size_t count) { then(m_maker, count); });
    }

    [[nodiscard]] growth_limits const& limits() const noexcept { return m_limits; }
    [[nodiscard]] std::size_t capacity() const noexcept { return m_capacity; }
    [[nodiscard]] std::size_t steps() const noexcept { return m_steps; }
    [[nodiscard]] std::size_t idle() noexcept {
        scoped_lock const lock(m_free.mutex());
        return detail::smaller<std::size_t>(m_free.idle(), m_capacity);
    }
    // No object is free, and no step may be made, or there was no memory for the last step.
    [[nodiscard]] bool is_exhausted() noexcept {
        return idle() == 0 && (next_step() == 0 || m_is_short_of_memory);
    }

    // Reports inconsistent counts. Calls `look` on this thread's next address, unless that is in another thread's cache, under
    // the lock, so that no other thread takes the address meanwhile. O(1).
    template <class Look>
    void check(Look&& look) {
        thread_cache* const mine = m_free.attach();
        scoped_lock const lock(m_free.mutex());
        end_sole();
        POOLED_CHECK(m_free.capacity_for(m_capacity) == 0, "pooled: a pool's counts were overwritten");
        if (void* const next = m_free.peek(mine)) look(next);
    }

    // For the extension that has the list; see pool_extension.
    void on_retire(thread_cache& cache) noexcept {
        if (m_sole == &cache) m_sole = nullptr;
        m_free.retire(cache);
    }
    void after_fork_in_child() noexcept {
        if (m_grower == nullptr || m_grower == &t_state) return;
        m_maker.forget();
        m_grower = nullptr;
    }

private:
    POOLED_NOINLINE void* take_slow() {
        if (void* const p = m_free.take_far(m_spare)) return p;
        void* found = begin_alone();
        std::size_t step = next_step();
        if (found == nullptr) {
            thread_cache* const mine = m_free.attach();
            unique_lock lock(m_free.mutex());
            for (;; wait_for_growth(lock)) {
                end_sole();
                found = m_free.pop(mine, m_capacity);
                step = next_step();
                bool const is_enough = found != nullptr && (m_grower != nullptr || m_free.idle() != 0);
                if (is_enough || step == 0 || m_grower == &t_state) return found;
                if (m_grower == nullptr) break;
                if (fork_gate::is_passed())
                    return found;  // a fork is in progress, and the grower waits for its end
            }
            m_grower = &t_state;
        }
        grow(step, found);
        return found != nullptr ? found : take_slow();
    }

    // Called without the lock, by the grower, which holds `found` or null. Throws what a step throws, but for std::bad_alloc if there
    // is `found`; that is put back otherwise.
    void grow(std::size_t count, void* found) {
        free_list::list reserved;
        POOLED_TRY {
            m_maker.make(count, m_capacity);
            reserved.reserve(m_free.capacity_for(m_capacity + count));
        }
        POOLED_CATCH(std::bad_alloc const&) {
            m_maker.undo();
            end_growth([this] { m_is_short_of_memory = true; });
            if (found == nullptr) POOLED_RETHROW;
            return;
        }
        POOLED_CATCH(...) {
            m_maker.undo();
            end_growth([&] {
                if (found != nullptr) m_free.push(m_free.near_cache(), found, m_capacity);
            });
            POOLED_RETHROW;
        }
        if (reserved.capacity() == 0 && end_alone(count)) return;
        end_growth([&] {
            m_free.move_to(reserved);
            m_maker.keep(m_free.add(count));
            count_step(count);
            thread_cache* const mine = m_free.near_cache();
            if (m_free.gather(mine, m_capacity)) m_sole = mine;
        });
    }

    // The step ends with `last()`, under the lock. Not inlined, and near_cache() within, so that a fibre that changed threads in a
    // constructor uses the cache of its present thread.
    template <class Last>
    POOLED_NOINLINE void end_growth(Last last) noexcept {
        {
            scoped_lock const lock(m_free.mutex());
            end_sole();
            last();
            m_grower = nullptr;
            m_growths.store(m_growths.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        m_growths.notify_all();
    }

    // The caller takes its last object and is the grower, without the lock. Null: the lock is needed.
    [[nodiscard]] void* begin_alone() noexcept {
        void* found = nullptr;
        if_alone([&](class_cache& mine) {
            if (m_grower != nullptr || mine.held() != 1 || next_step() == 0) return;
            found = mine.pop_above(0);
            m_grower = &t_state;
        });
        return found;
    }
    // The step has ended, without the lock. False: the lock is needed.
    [[nodiscard]] POOLED_NOINLINE bool end_alone(std::size_t made) noexcept {
        bool is_done = false;
        if_alone([&](class_cache& mine) {
            if (mine.held() != 0 || made > mine.capacity()) return;
            m_maker.keep(mine.fill(static_cast<std::uint32_t>(made)));
            count_step(made);
            m_grower = nullptr;
            is_done = true;
        });
        return is_done;
    }
    // Calls then(its addresses) inside the gate of m_sole, if that is the caller's.
    template <class Then>
    POOLED_ALWAYS_INLINE void if_alone(Then&& then) noexcept {
        thread_cache* const mine = m_free.near_cache();
        if (mine == nullptr || m_sole != mine || !mine->gate.enter()) return;
        if (m_sole == mine) then(mine->recycled);  // again: another thread may have ended it
        mine->gate.leave();
    }
    // Requires the lock.
    void end_sole() noexcept {
        if (m_sole != nullptr) m_free.while_stopped([this] { m_sole = nullptr; });
    }

    void wait_for_growth(unique_lock<free_list::caches_lock>& lock) noexcept {
        std::uint32_t const growths = m_growths.load(std::memory_order_relaxed);
        lock.unlock();
        m_growths.wait(growths, std::memory_order_relaxed);
        lock.lock();
    }

    // The size of the next step; 0: none may be made. Without steps, a cleared list returns to its initial size.
    [[nodiscard]] std::size_t next_step() const noexcept {
        std::size_t const capacity = m_capacity;
        std::size_t const wanted = m_limits.step == 0 && capacity == 0 ? m_limits.initial : m_limits.step;
        return m_limits.max == 0
                   ? wanted
                   : detail::smaller(wanted, m_limits.max - detail::smaller(m_limits.max, capacity));
    }
    void count_step(std::size_t made) noexcept {
        m_steps.add(1);
        m_is_short_of_memory = false;
        set_capacity(m_capacity + made);
    }
    void set_capacity(std::size_t capacity) noexcept {
        m_capacity = capacity;
        m_spare = next_step() != 0 ? 1 : 0;
    }

    free_list m_free;
    observed<std::uint32_t>
        m_spare;  // what a thread's cache keeps for take_slow(): 1 while a step may be made
    observed<bool> m_is_short_of_memory;  // the last step failed because memory ran out
    growth_limits const m_limits;
    observed<std::size_t> m_capacity;
    observed<std::size_t> m_steps;
    Maker m_maker;
    thread_state const* m_grower = nullptr;
    observed<thread_cache*> m_sole;
    std::atomic<std::uint32_t> m_growths{0};  // steps that ended
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
