// SPDX-License-Identifier: BSL-1.0
#pragma once

// The objects of one object_pool, as slots: which are idle and where, how many more may be built, and which threads wait for
// one. The recycler knows what T is, and how it is built.
//
//   thread_cache::recycled ◀─▶ m_used: idle, acquired before       m_fresh: idle, never acquired
//
// The stock is in one of two modes.
//   cached    each thread keeps idle objects in its cache and takes no lock
//   central   all owners are kept out of their caches and all idle objects are in the stock: under the lock it is known that
//             there is no other, and a release goes to the first waiter. Until that thread has woken, another one may take it
// A thread that finds m_used empty enters central mode before it takes a fresh object, builds one, reports "exhausted" or waits.
// So no idle object stays in a cache, and no more objects are built than were in use at once. Entering costs a system call when
// there are other threads, so the stock stays in central mode until k_central_hits acquisitions in a row found an idle object. A
// local pool's stock is always in central mode, and uses its cache nevertheless.
//
// Invariants: m_objects = m_used.capacity + fresh + being built <= bound
//             in use = m_used.outside − Σ held of the caches
//             someone waits without a grant ⇒ central mode, nothing idle, m_objects == bound
// Locks: the core's, then m_mutex. Any thread may call; user code and upstream are never called under a lock. O(1), but for
// entering a mode, take_idle(), close() and count(): O(threads + idle objects).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/object_caches.hpp"
#include "pooled/detail/slot.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/object/idle_list.hpp"
#include "pooled/impl/object/wait_queue.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/object_options.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct object_counts {
    std::size_t capacity = 0;
    std::size_t idle = 0;
    std::size_t high_water = 0;
    std::size_t waiting = 0;
    std::uint64_t built = 0;
};

class object_stock : public pool_extension {
public:
    // options.initial_objects count under the bound from now on; the caller builds them.
    object_stock(pool_core& core, object_pool_options const& options) noexcept
        : m_caches(core),
          m_bound(bound_of(options)),
          m_growth(detail::larger<std::size_t>(options.growth, 1)),
          m_growth_factor(options.growth_factor),
          m_mutex(!core.is_local()),
          m_is_central(core.is_local()),
          m_objects(options.initial_objects),
          m_used(cache_capacity_of(m_bound)) {}

    [[nodiscard]] pool_core& core() const noexcept { return m_caches.core(); }
    [[nodiscard]] object_caches& caches() noexcept { return m_caches; }
    [[nodiscard]] std::size_t bound() const noexcept { return m_bound; }
    // How many objects the pool builds at a time, but for growth_factor.
    [[nodiscard]] std::size_t growth() const noexcept { return detail::smaller(m_growth, m_bound); }
    [[nodiscard]] std::uint32_t generation() const noexcept { return m_caches.generation(); }

    // Called when the cache has no object. Empty: the bound is reached and, at one moment, no object was idle.
    [[nodiscard]] POOLED_API grant take();
    // The same, but waits as long as `deadline` says.
    template <class DeadlinePolicy>
    [[nodiscard]] grant wait(DeadlinePolicy const& deadline);
    // Called when the cache did not take the object. False: it is of an earlier generation. Otherwise the stock may be gone.
    [[nodiscard]] POOLED_API bool put(slot& s) noexcept;

    // How many objects the caller is to build, so that there are `count`; they count under the bound from now on.
    [[nodiscard]] POOLED_API std::size_t set_aside(std::size_t count) noexcept;
    // A slot whose object was just built; the caller hands it out.
    POOLED_API void add_used(slot& s) noexcept;
    // A slot in use, whose object was just built in place of a destroyed one.
    POOLED_API void add_rebuilt(slot& s) noexcept;
    // The same; the first waiter gets the object, or it becomes idle.
    POOLED_API void add_fresh(slot& s) noexcept;

    // Whether an object is counted in m_used, or in m_objects alone.
    enum class counted : bool { as_built, as_used };
    // An object is destroyed, or was not built after all; the first waiter may build one in its place. True when the pool's
    // handle was destroyed and this was the last object: the caller then destroys the stock.
    [[nodiscard]] POOLED_API bool remove(counted how) noexcept;

    // So many of those that the caller was to build are not built after all.
    POOLED_API void cancel(std::size_t count) noexcept;
    // Takes all idle objects, wherever they are; from now on they are counted as built. `outdate`: the other objects are
    // destroyed when they are released.
    enum class in_use : bool { keep, outdate };
    [[nodiscard]] POOLED_API slot_chain take_idle(in_use what) noexcept;
    // take_idle(outdate) for the last time: owners are kept out from now on.
    [[nodiscard]] POOLED_API slot_chain close() noexcept;
    // The handle was destroyed; called after close(). True when no object is in use.
    [[nodiscard]] POOLED_API bool abandon() noexcept;

    [[nodiscard]] POOLED_API object_counts count() noexcept;
    [[nodiscard]] POOLED_API bool is_valid() noexcept;

    void on_retire(thread_cache& cache) noexcept override {
        scoped_lock const own(m_mutex);
        m_used.retire(cache.recycled);
    }
    void after_fork_in_child() noexcept override {
        scoped_lock const own(m_mutex);
        m_waiters.clear();
    }

protected:
    ~object_stock() = default;

private:
    // An acquisition from the central list takes some 15 ns more than one from a cache. After this many, the sum equals the cost of
    // entering central mode, 1 to 20 µs for a barrier on all threads: staying too long and leaving too early cost the same.
    static constexpr std::uint32_t k_central_hits = 1024;

    POOLED_API void enter_central_mode() noexcept;
    void enter_cached_mode() noexcept;
    void collect_caches() noexcept;
    [[nodiscard]] slot_chain take_all_idle() noexcept;
    [[nodiscard]] POOLED_API grant take_locked(thread_cache* cache) noexcept;
    [[nodiscard]] std::size_t next_growth() const noexcept;
    [[nodiscard]] bool uses(thread_cache* cache) const noexcept {
        return cache != nullptr && (!m_is_central || m_caches.is_local());
    }

    object_caches m_caches;
    std::size_t m_bound;
    std::size_t m_growth;
    double m_growth_factor;

    alignas(k_cache_line) optional_mutex m_mutex;
    bool m_is_central;  // written under both locks
    bool m_is_abandoned = false;
    std::uint32_t m_hits = 0;  // acquisitions in a row that found an idle object
    std::size_t m_objects;
    std::uint64_t m_built = 0;  // ever
    idle_list m_used;
    slot_chain m_fresh;
    wait_queue m_waiters;
};

template <class DeadlinePolicy>
grant object_stock::wait(DeadlinePolicy const& deadline) {
    thread_cache* const cache = m_caches.attach();
    waiter self;
    for (;;) {
        {
            scoped_lock const own(m_mutex);
            if (grant const g = take_locked(cache)) return g;
            if (m_caches.is_local()) return {};  // no other thread can release one
            if (m_is_central) {
                m_waiters.push(self);
                break;
            }
        }
        enter_central_mode();
    }
    for (;;) {
        bool const gives_up = !self.wait(deadline);
        scoped_lock const own(m_mutex);
        if (m_waiters.settle(self, gives_up)) return self.granted();
    }
}

#if POOLED_HAS_CODE

// Requires the lock. Empty: no object is idle in the stock (in central mode: anywhere), none may be built, and no waiter may be
// overtaken.
POOLED_CODE grant object_stock::take_locked(thread_cache* cache) noexcept {
    if (slot* const idle = uses(cache) ? m_used.pop(cache->recycled) : m_used.pop()) {
        ++m_hits;
        return {idle};
    }
    if (!m_is_central) return {};
    m_hits = 0;
    if (slot* const fresh = m_fresh.pop()) {
        m_used.add_outside();
        return {fresh};
    }
    std::size_t const count = next_growth();
    if (count == 0) return m_waiters.take_back();
    m_objects += count;
    return {nullptr, count};
}

// Requires the lock. The product may be larger than any size: it is compared as it is.
inline std::size_t object_stock::next_growth() const noexcept {
    std::size_t const left = m_bound - m_objects;
    double const more = static_cast<double>(m_objects) * (m_growth_factor - 1);
    if (more >= static_cast<double>(left)) return left;
    return detail::smaller(left, detail::larger(m_growth, static_cast<std::size_t>(more)));
}

POOLED_CODE grant object_stock::take() {
    if (slot* const s = m_caches.pop_far()) return {s};
    thread_cache* const cache = m_caches.attach();
    for (;;) {
        grant g;
        bool is_enough = false;
        {
            scoped_lock const own(m_mutex);
            g = take_locked(cache);
            if (!g && m_is_central) return {};
            is_enough = m_is_central && m_hits >= k_central_hits;
        }
        if (is_enough) enter_cached_mode();
        if (g) return g;
        enter_central_mode();
    }
}

POOLED_CODE bool object_stock::put(slot& s) noexcept {
    if (m_caches.push_far(s)) return true;
    thread_cache* const cache = m_caches.attach();
    waiter* to_wake = nullptr;
    {
        scoped_lock const own(m_mutex);
        if (s.generation != generation()) return false;
        if (!m_waiters.grant_first({&s}, to_wake)) {
            if (uses(cache))
                m_used.push(s, cache->recycled);
            else
                m_used.push(s);
        }
    }
    waiter::wake(to_wake);
    return true;
}

POOLED_CODE std::size_t object_stock::set_aside(std::size_t count) noexcept {
    scoped_lock const own(m_mutex);
    if (count <= m_objects) return 0;
    return count - std::exchange(m_objects, count);
}

POOLED_CODE void object_stock::add_used(slot& s) noexcept {
    scoped_lock const own(m_mutex);
    s.generation = generation();
    ++m_built;
    m_used.add_outside();
}

POOLED_CODE void object_stock::add_rebuilt(slot& s) noexcept {
    scoped_lock const own(m_mutex);
    s.generation = generation();
    ++m_built;
}

POOLED_CODE void object_stock::add_fresh(slot& s) noexcept {
    waiter* to_wake = nullptr;
    {
        scoped_lock const own(m_mutex);
        s.generation = generation();
        ++m_built;
        if (m_waiters.grant_first({&s}, to_wake))
            m_used.add_outside();
        else
            m_fresh.push(s);
    }
    waiter::wake(to_wake);
}

POOLED_CODE bool object_stock::remove(counted how) noexcept {
    waiter* to_wake = nullptr;
    bool is_last = false;
    {
        scoped_lock const own(m_mutex);
        if (how == counted::as_used) m_used.remove_outside();
        if (!m_waiters.grant_first({nullptr, 1}, to_wake)) --m_objects;  // it counts the waiter's object
        is_last = m_is_abandoned && m_objects == 0;
    }
    waiter::wake(to_wake);
    return is_last;
}

POOLED_CODE void object_stock::cancel(std::size_t count) noexcept {
    for (; count != 0; --count) {
        {
            scoped_lock const own(m_mutex);
            if (m_waiters.empty()) {
                m_objects -= count;
                return;
            }
        }
        static_cast<void>(remove(counted::as_built));  // never the last object: the builder holds the handle
    }
}

// Requires both locks and stopped caches.
inline void object_stock::collect_caches() noexcept {
    m_caches.for_each([this](class_cache& cache) { m_used.collect(cache); });
}

POOLED_CODE void object_stock::enter_central_mode() noexcept {
    scoped_lock const lock(core().caches().mutex());
    if (m_is_central) return;
    m_caches.stop();
    scoped_lock const own(m_mutex);
    m_is_central = true;
    m_hits = 0;
    collect_caches();
}

// Requires a caller that holds the pool's handle: the pool must exist until this returns.
inline void object_stock::enter_cached_mode() noexcept {
    scoped_lock const lock(core().caches().mutex());
    {
        scoped_lock const own(m_mutex);
        if (!m_is_central || m_hits < k_central_hits || m_caches.is_local()) return;
        m_is_central = false;
    }
    m_caches.resume();
}

// Requires both locks and stopped caches.
inline slot_chain object_stock::take_all_idle() noexcept {
    collect_caches();
    slot_chain all(std::move(m_fresh));
    while (slot* const s = m_used.pop()) {
        m_used.remove_outside();
        all.push(*s);
    }
    return all;
}

POOLED_CODE slot_chain object_stock::take_idle(in_use what) noexcept {
    scoped_lock const lock(core().caches().mutex());
    bool const was_central = m_is_central;
    if (!was_central) m_caches.stop();
    slot_chain all = [&] {
        scoped_lock const own(m_mutex);
        if (what == in_use::outdate) m_caches.next_generation();
        return take_all_idle();
    }();
    if (!was_central) m_caches.resume();
    return all;
}

POOLED_CODE slot_chain object_stock::close() noexcept {
    scoped_lock const lock(core().caches().mutex());
    if (!m_is_central) m_caches.stop();
    scoped_lock const own(m_mutex);
    m_is_central = true;
    m_caches.next_generation();
    slot_chain all = take_all_idle();
    m_caches.for_each([this](class_cache& cache) { m_used.retire(cache); });
    return all;
}

POOLED_CODE bool object_stock::abandon() noexcept {
    scoped_lock const own(m_mutex);
    m_is_abandoned = true;
    return m_objects == 0;
}

// Reads the caches without stopping their owners, and therefore clamps: an object may be counted in two places at that moment.
POOLED_CODE object_counts object_stock::count() noexcept {
    scoped_lock const lock(core().caches().mutex());
    scoped_lock const own(m_mutex);
    std::size_t held = 0;
    m_caches.for_each([&](class_cache const& cache) { held += cache.held(); });
    return {.capacity = m_used.capacity() + m_fresh.size(),
            .idle = m_fresh.size() + m_used.size() + detail::smaller(held, m_used.outside()),
            .high_water = m_used.high_water(),
            .waiting = m_waiters.size(),
            .built = m_built};
}

POOLED_CODE bool object_stock::is_valid() noexcept {
    if (!core().is_valid()) return false;
    scoped_lock const lock(core().caches().mutex());
    bool const was_central = m_is_central;
    if (!was_central) m_caches.stop();
    bool valid = true;
    {
        scoped_lock const own(m_mutex);
        std::size_t held = 0;
        m_caches.for_each([&](class_cache const& cache) { held += cache.held(); });
        bool const nothing_idle = m_used.size() == 0 && m_fresh.empty() && held == 0;
        valid = m_used.is_valid() && m_fresh.is_valid() && held <= m_used.outside() &&
                m_used.capacity() + m_fresh.size() <= m_objects && m_objects <= m_bound &&
                (!was_central || held == 0 || m_caches.is_local()) &&
                (m_waiters.empty() || (was_central && nothing_idle && m_objects == m_bound));
    }
    if (!was_central) m_caches.resume();
    return valid;
}
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
