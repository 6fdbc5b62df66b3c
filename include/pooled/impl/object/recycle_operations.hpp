// SPDX-License-Identifier: BSL-1.0
#pragma once

// The operations of a recycle_list (detail/recycle_list.hpp) that no thread's cache serves. Out of line. All but count(), is_used_up() and
// those that stop the caches work in a section: under the lock, or in the gate of the only thread that uses the list.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/class_cache.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/gate.hpp"
#include "pooled/detail/recycle_list.hpp"
#include "pooled/detail/recycle_node.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/cache/cache_set.hpp"
#include "pooled/impl/object/wait_queue.hpp"
#include "pooled/impl/os/fork_gate.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// A critical section.
class recycle_list::section {
public:
    POOLED_ALWAYS_INLINE explicit section(recycle_list& list) noexcept : m_list(list) {
        if (thread_cache* const sole = list.m_sole; sole == nullptr || !enter(*sole)) lock();
    }
    ~section() {
        if (m_gate != nullptr)
            m_gate->leave();
        else
            m_list.m_core.caches().unlock();
    }
    section(section const&) = delete;
    section& operator=(section const&) = delete;

private:
    POOLED_ALWAYS_INLINE bool enter(thread_cache& sole) noexcept {
        if (t_state.near_caches[m_list.m_index] != &sole || !sole.gate.enter()) return false;
        m_gate = &sole.gate;
        if (m_list.m_sole == &sole) return true;  // again: another thread may have ended it
        sole.gate.leave();
        m_gate = nullptr;
        return false;
    }
    POOLED_NOINLINE void lock() noexcept {
        m_list.m_core.caches().lock();
        if (m_list.m_sole == nullptr) return;
        m_list.m_core.caches().stop();
        m_list.m_sole = nullptr;
        m_list.m_core.caches().resume();
    }

    recycle_list& m_list;
    detail::gate<>* m_gate = nullptr;
};

POOLED_CODE void recycle_list::note_recycled() noexcept { m_core.caches().add_recycled(); }

// The calling thread's cache, made if it has none; null when it can have none. One of a foreign core grows in its own copy only.
POOLED_ALWAYS_INLINE thread_cache* recycle_list::attach() noexcept {
    thread_cache* const mine = t_state.near_caches[m_index];
    if (mine != nullptr && mine->gate.is_open()) return mine;
    if (m_core.is_local()) return &m_core.local_cache();
    return detail::is_foreign(m_core) ? nullptr : g_registry.attach(m_core);
}

// The functions that follow require a section.

// No thread has another cache, or has ever used it.
inline bool recycle_list::is_only(thread_cache const* mine) const noexcept {
    if (m_sole != nullptr) return true;
    return m_core.caches().first() == mine && (mine == nullptr || mine->links.next == nullptr);
}
// The cache gets its memory here: in the gate, a thread takes no lock.
inline void recycle_list::choose_sole(thread_cache* mine) noexcept {
    if (m_sole != nullptr || mine == nullptr || mine != t_state.near_caches[m_index] || !is_only(mine))
        return;
    if (mine->recycled.capacity() != 0 || mine->recycled.reserve(m_cache_capacity)) m_sole = mine;
}

inline void recycle_list::add_outside() noexcept {
    m_outside.add(1);
    m_high_water = detail::larger<std::size_t>(m_high_water, m_outside + m_idle.size());
}
// The object that was popped from a stack; null for null.
inline void* recycle_list::taken(recycle_node* n) noexcept {
    if (n != nullptr) n->set(m_limits.idle_count, m_generation);
    return object_of(n);
}

inline void recycle_list::flush(class_cache& cache, std::uint32_t n) noexcept {
    auto const oldest = cache.oldest(n);
    for (void* const one : oldest)
        m_idle.push(node_of(one));
    m_outside.subtract(oldest.size());
    cache.drop_oldest(static_cast<std::uint32_t>(oldest.size()));
}
inline void recycle_list::collect(class_cache& cache) noexcept {
    flush(cache, m_cache_capacity);
    if (void* const hot = cache.pop_hot()) {
        m_idle.push(node_of(hot));
        m_outside.subtract(1);
    }
}
// All that may hold objects.
template <class Visit>
POOLED_ALWAYS_INLINE void recycle_list::for_each_cache(Visit&& visit) noexcept {
    if (thread_cache* const sole = m_sole) return visit(sole->recycled);
    m_core.caches().for_each([&](thread_cache& cache) { visit(cache.recycled); });
}
inline void recycle_list::collect_all() noexcept {
    for_each_cache([this](class_cache& cache) { collect(cache); });
}
POOLED_ALWAYS_INLINE std::size_t recycle_list::held() noexcept {
    std::size_t sum = 0;
    for_each_cache([&sum](class_cache const& cache) { sum += cache.held(); });
    return sum;
}

// An idle object of the caller's cache or the list; null when there is none. An empty cache is refilled: what is at the list's front is
// also the first to leave the cache.
POOLED_ALWAYS_INLINE void* recycle_list::pop_idle(thread_cache* mine) noexcept {
    bool const caches = mine != nullptr && !is_central();
    if (caches)
        if (void* const cached = mine->recycled.pop()) return cached;
    void* const p = taken(m_idle.pop());
    if (p == nullptr) return nullptr;
    m_outside.add(1);
    if (caches && m_idle.size() != 0) refill(mine->recycled);
    return p;
}
inline void recycle_list::refill(class_cache& cache) noexcept {
    if (m_cache_capacity <= 2 || (cache.capacity() == 0 && !cache.reserve(m_cache_capacity))) return;
    auto const count =
        static_cast<std::uint32_t>(detail::smaller<std::size_t>(m_cache_capacity / 2 - 1, m_idle.size()));
    void** const array = cache.fill(count);
    std::uint32_t const generation = m_generation;
    for (std::uint32_t i = count; i-- != 0;) {
        recycle_node* const n = m_idle.pop();
        n->set(m_limits.idle_count, generation);
        array[i] = object_of(n);
    }
    m_outside.add(count);
}

inline void recycle_list::push_idle(void* p, thread_cache* mine) noexcept {
    if (mine != nullptr && !is_central()) {
        class_cache& cache = mine->recycled;
        if (cache.push(p)) return;
        if (cache.capacity() != 0) flush(cache, m_cache_capacity / 2);
        if (cache.capacity() != 0 || cache.reserve(m_cache_capacity))
            if (cache.push(p)) return;
    }
    m_idle.push(node_of(p));
    m_outside.subtract(1);
}

inline void recycle_list::enter_central_mode() noexcept {
    if (m_sole == nullptr) m_core.caches().stop();
    m_cacheable = k_none;
    m_hits = 0;
    collect_all();
    if (m_sole == nullptr) m_core.caches().resume();
}

// The product may be larger than any size: it is compared as it is.
POOLED_ALWAYS_INLINE std::size_t recycle_list::next_growth() const noexcept {
    std::size_t const left = m_limits.bound - m_objects;
    if (m_limits.growth == 0) return m_objects == 0 ? detail::smaller(left, m_limits.initial) : 0;
    if (!(m_limits.growth_factor > 1)) return detail::smaller(left, m_limits.growth);
    double const more = static_cast<double>(m_objects) * (m_limits.growth_factor - 1);
    if (more >= static_cast<double>(left)) return left;
    return detail::smaller(left, detail::larger(m_limits.growth, static_cast<std::size_t>(more)));
}

// Empty: no object is idle in the list (in central mode: anywhere), none may be built, and no waiter may be overtaken. `must_wait`: for
// the thread that builds.
POOLED_ALWAYS_INLINE grant recycle_list::take_locked(thread_cache* mine, bool& must_wait) noexcept {
    void* p = pop_idle(mine);
    if (p == nullptr && !is_central() && !is_only(mine)) {
        enter_central_mode();
        p = pop_idle(mine);
    }
    if (p != nullptr) {
        if (is_central() && ++m_hits >= k_central_hits) m_cacheable = m_generation;
        if (!m_limits.grows_early || m_idle.size() != 0 || held() != 0) return {p};
    } else {
        m_hits = 0;
        p = taken(m_fresh.pop());
        if (p != nullptr) {
            add_outside();
            return {p};
        }
    }
    if (m_builder != nullptr) {
        // Not in a constructor, nor in a fork, which the builder waits for.
        must_wait = p == nullptr && m_builder != &t_state && !fork_gate::is_passed();
        return {p};
    }
    std::size_t const count = next_growth();
    if (p == nullptr && count == 0) return m_waiters.take_back();
    if (m_limits.grows_early && count != 0) {
        m_builder = &t_state;
        m_to_build = count;
    }
    m_objects.add(count);
    return {p, count};
}

POOLED_CODE grant recycle_list::take(waiter* self) noexcept {
    if (m_index == k_far_slot) {
        far_pass const pass(m_core.id());
        if (pass)
            if (void* const p = pop_from(t_state.find(m_core.id()), m_spare)) return {p};
    }
    thread_cache* const mine = attach();
    for (;;) {
        std::uint32_t builds = 0;
        {
            section const own(*this);
            bool must_wait = false;
            grant const g = take_locked(mine, must_wait);
            if (!g && !must_wait && self != nullptr && !m_core.is_local()) {
                if (!is_central()) enter_central_mode();  // the caches are empty: they stay so
                m_waiters.push(*self);
            }
            choose_sole(mine);
            if (!must_wait) return g;
            m_is_awaited = true;
            builds = m_builds.load(std::memory_order_relaxed);
        }
        m_builds.wait(builds, std::memory_order_relaxed);
    }
}

POOLED_CODE bool recycle_list::settle(waiter& w, bool gives_up) noexcept {
    section const own(*this);
    return m_waiters.settle(w, gives_up);
}

POOLED_CODE bool recycle_list::put(void* p) noexcept {
    recycle_node const& n = node_of(p);
    if (m_index == k_far_slot) {
        far_pass const pass(m_core.id());
        if (pass && push_to(t_state.find(m_core.id()), p, n)) return true;
    }
    thread_cache* const mine = attach();
    waiter* to_wake = nullptr;
    {
        section const own(*this);
        if (n.generation != m_generation) return false;
        if (!m_waiters.grant_first({p}, to_wake)) {
            push_idle(p, mine);
            choose_sole(mine);
        }
    }
    waiter::wake(to_wake);
    return true;
}

POOLED_CODE std::size_t recycle_list::set_aside(std::size_t count) noexcept {
    section const own(*this);
    if (count <= m_objects) return 0;
    std::size_t const more = count - m_objects;
    m_objects = count;
    if (m_limits.grows_early) {
        m_builder = &t_state;
        m_to_build = more;
    }
    return more;
}

POOLED_CODE void recycle_list::add_used(void* p, counted before) noexcept {
    section const own(*this);
    node_of(p).set(m_limits.idle_count, m_generation);
    m_built.add(1);
    if (before == counted::as_built) add_outside();
}

POOLED_CODE void recycle_list::add(recycle_stack&& built, std::size_t missing) noexcept {
    bool is_awaited = false;
    for (bool is_done = false; !is_done;) {
        waiter* to_wake = nullptr;
        {
            section const own(*this);
            is_done = !grant_first_of(built, missing, to_wake);
            if (is_done) {
                m_built.add(built.size());
                if (built.size() != 0) m_steps.add(1);
                m_objects.subtract(missing);
                recycle_stack& to = m_limits.grows_early ? m_idle : m_fresh;
                while (recycle_node* const n = built.pop())
                    to.push(*n);
                m_builder = nullptr;
                is_awaited = std::exchange(m_is_awaited, false);
                update_spare();
                if (is_awaited)
                    m_builds.store(m_builds.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            }
        }
        waiter::wake(to_wake);
    }
    if (is_awaited) m_builds.notify_all();
}

// False when no thread waits, or nothing is left.
inline bool recycle_list::grant_first_of(recycle_stack& built, std::size_t& missing,
                                         waiter*& to_wake) noexcept {
    if (m_waiters.empty()) return false;
    if (void* const p = taken(built.pop())) {
        add_outside();
        m_built.add(1);
        return m_waiters.grant_first({p}, to_wake);
    }
    if (missing == 0) return false;
    --missing;  // it counts the waiter's object
    return m_waiters.grant_first({nullptr, 1}, to_wake);
}

POOLED_CODE bool recycle_list::remove(counted how) noexcept {
    waiter* to_wake = nullptr;
    bool is_last = false;
    {
        section const own(*this);
        if (how == counted::as_used) m_outside.subtract(1);
        if (!m_waiters.grant_first({nullptr, 1}, to_wake)) m_objects.subtract(1);  // it counts the waiter's
        is_last = is_finished();
    }
    waiter::wake(to_wake);
    return is_last;
}

POOLED_CODE bool recycle_list::lose(std::uint32_t of_generation) noexcept {
    section const own(*this);
    if (of_generation == m_generation) {
        m_outside.subtract(1);
        m_objects.subtract(1);
        update_spare();
    } else {
        --m_orphans;
    }
    return is_finished();
}

inline void recycle_list::next_generation() noexcept {
    std::uint32_t const next = m_generation + recycle_node::k_step;
    m_generation = next != recycle_node::k_no_object ? next : k_generation;
}

POOLED_CODE recycle_stack recycle_list::take_idle(in_use what) noexcept {
    scoped_lock const lock(m_core.caches());
    m_core.caches().stop();
    m_sole = nullptr;
    bool const was_central = is_central();
    if (what != in_use::keep) next_generation();
    m_cacheable = was_central || what == in_use::close ? k_none : std::uint32_t{m_generation};
    collect_all();
    recycle_stack all(std::move(m_idle));
    while (recycle_node* const n = m_fresh.pop())
        all.push(*n);
    if (what == in_use::disown) {
        m_orphans += m_outside;
        m_outside = 0;
        m_objects = m_builder != nullptr ? m_to_build : 0;
        m_steps = 0;
        update_spare();
    }
    if (what == in_use::close)
        m_core.caches().for_each([](thread_cache& cache) { cache.recycled.release(); });
    m_core.caches().resume();
    return all;
}

POOLED_CODE bool recycle_list::abandon() noexcept {
    section const own(*this);
    m_is_abandoned = true;
    return is_finished();
}

// Reads without stopping the owners: an object may be counted in two places at that moment.
POOLED_CODE object_counts recycle_list::count() noexcept {
    scoped_lock const lock(m_core.caches());
    std::size_t const kept = m_idle.size() + m_fresh.size();
    return {.capacity = m_outside + kept,
            .idle = kept + detail::smaller<std::size_t>(held(), m_outside),
            .high_water = m_high_water,
            .waiting = m_waiters.size(),
            .built = m_built,
            .steps = m_steps};
}
POOLED_CODE bool recycle_list::is_used_up() noexcept {
    scoped_lock const lock(m_core.caches());
    return m_idle.size() + m_fresh.size() + held() == 0 && next_growth() == 0;
}

POOLED_CODE void recycle_list::inspect_next(void (*look)(recycle_list const&, void const* p)) noexcept {
    thread_cache* const mine = attach();
    section const own(*this);
    POOLED_CHECK(m_idle.is_sound(), "pooled: an idle object was overwritten");
    void* const next = pop_idle(mine);
    if (next == nullptr) return;
    look(*this, next);
    push_idle(next, mine);
}

POOLED_CODE bool recycle_list::is_valid() noexcept {
    if (!m_core.is_valid()) return false;
    scoped_lock const lock(m_core.caches());
    m_core.caches().stop();
    std::size_t const cached = held();
    std::size_t const kept = m_idle.size() + m_fresh.size();
    bool const is_waiting_right = is_central() && kept + cached == 0 && m_objects == m_limits.bound;
    bool const valid = m_idle.is_valid() && m_fresh.is_valid() && cached <= m_outside &&
                       m_outside + kept <= m_objects && m_objects <= m_limits.bound &&
                       (m_limits.grows_early || m_outside + m_idle.size() <= m_high_water) &&
                       (!is_central() || cached == 0) && (m_waiters.empty() || is_waiting_right);
    m_core.caches().resume();
    return valid;
}

// The caches' lock is held.
POOLED_CODE void recycle_list::retire(thread_cache& cache) noexcept {
    if (m_sole == &cache) m_sole = nullptr;
    collect(cache.recycled);
    cache.recycled.release();
}

// In a forked child: neither the waiters exist there, nor a thread that was building, unless it is the one that forked.
POOLED_CODE void recycle_list::forget_threads() noexcept {
    m_waiters.clear();
    if (m_builder == nullptr || m_builder == &t_state) return;
    m_builder = nullptr;
    m_objects.subtract(m_to_build);
    update_spare();
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
