// SPDX-License-Identifier: BSL-1.0
#pragma once

// When and how much free memory of a pool returns to upstream and the system: what was not needed during a period, and, at once, what
// large blocks left free beyond a limit. The limit rises by what the pool takes again in the period in which it returned it, and falls by
// what was not needed during a period.
//
// Any thread may call. Takes the locks of the caches, the lists and the heap, one after the other. O(chunks + spans), but for
// on_slow_call(): O(1), but once per period.

#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/steal.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/options.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

// Decides when a pool looks for unused memory to return: at most once per period, and only in calls that are slow anyway. Any
// thread may call; a period's end is reported to one thread.
class release_clock {
public:
    // A `period` that is not positive means never.
    explicit release_clock(std::chrono::milliseconds period) noexcept
        : m_period(std::chrono::nanoseconds(detail::clamp(period, std::chrono::milliseconds(0), k_longest))
                       .count()) {}

    static constexpr std::uint32_t k_calls = 32;

    [[nodiscard]] bool is_on() const noexcept { return m_period > 0; }

    // Whether a period has passed since then.
    [[nodiscard]] bool has_passed(std::int64_t since) const noexcept {
        return platform::coarse_time() - since > m_period;
    }

    // `calls`: number of slow calls of the calling thread, which reads the clock at every 32nd.
    [[nodiscard]] bool is_due(std::uint32_t calls) noexcept {
        if (!is_on() || calls % k_calls != 0) return false;
        std::int64_t const now = platform::coarse_time();
        std::int64_t end = m_end.load(std::memory_order_relaxed);
        if (now < end || !m_end.compare_exchange_strong(end, now + m_period, std::memory_order_relaxed))
            return false;
        return end != 0;  // the first call begins the first period
    }

private:
    static constexpr std::chrono::milliseconds k_longest = std::chrono::hours(24 * 365);  // no sum overflows

    std::int64_t m_period;
    atomic<std::int64_t> m_end{0};
};

class memory_release {
public:
    memory_release(upstream& from, slab_heap& slabs, cache_set& caches,
                   std::chrono::milliseconds period) noexcept
        : m_upstream(from), m_slabs(slabs), m_caches(caches), m_clock(period) {}

    // Some of a thread's `calls` are due; each is of a thread without a cache, which counts none.
    [[nodiscard]] bool is_call_due(std::uint32_t calls) const noexcept {
        return calls % release_clock::k_calls == 0 || m_slabs.has_step() || m_slabs.may_collapse();
    }
    // Once in a period, returns memory that was not needed during it.
    void on_slow_call(std::uint32_t calls) noexcept {
        if (m_clock.is_due(calls)) [[unlikely]]
            release_unused();
        else if (m_slabs.may_collapse()) [[unlikely]]
            m_slabs.collapse_one();
        if (m_slabs.has_step()) [[unlikely]]
            m_slabs.do_step();
    }
    // What slow calls would do, for a pool that nobody calls: called again and again by a thread that does nothing else.
    void work_in_background() noexcept {
        if (!m_upstream.is_system()) return;
        if (m_clock.is_due(0)) release_unused();
        for (int step = 0; step < k_background_steps && m_slabs.has_step(); ++step)
            m_slabs.do_step();
        if (m_slabs.may_collapse()) m_slabs.collapse_one();
    }
    // So many bytes came from upstream.
    void note_grown(std::size_t bytes) noexcept {
        std::size_t const returned = m_returned.load(std::memory_order_relaxed);
        if (returned == 0) return;
        if (m_clock.has_passed(m_returned_at.load(std::memory_order_relaxed)))
            return m_returned.store(0, std::memory_order_relaxed);
        std::size_t const again = detail::smaller(returned, bytes);
        m_returned.store(returned - again, std::memory_order_relaxed);
        m_kept.fetch_add(again, std::memory_order_relaxed);
    }
    // Large blocks of so many bytes become free, by the owner of `cache` (null: a thread without one).
    void release_excess(std::size_t freed, thread_cache* cache) noexcept {
        m_caches.note_freed(static_cast<std::int64_t>(freed), cache);
        // Again after a release: what other threads freed meanwhile, they compared with memory on its way to upstream.
        while (release_some()) {}
    }
    // Returns all free memory that is not reserved to upstream, including what threads have cached.
    void release_free() noexcept;
    std::size_t trim() noexcept;

private:
    // What large blocks left free returns at once when it is more than m_kept and than what is in use: it may be most of the pool's
    // memory, and the last call for long. What small blocks left returns in time (release_unused), as they are created again in most
    // programs.
    static constexpr std::size_t k_least_kept = std::size_t{64} << 20;
    // Blocks return together: so many bytes, or a 32nd of the pool's memory.
    static constexpr std::size_t k_least_excess = std::size_t{4} << 20;

    static constexpr int k_background_steps = 64;

    // Free pages return after each period. Chunks do so when they were free for many, and only then the limit falls: the next one is a
    // mapping that the system makes under a lock, which a preempted thread may hold for a second.
    static constexpr std::uint32_t k_periods = 16;
    // How many bytes of chunks return after a period in which so many were not needed.
    [[nodiscard]] std::size_t end_period(std::size_t unneeded) noexcept;

    [[nodiscard]] bool release_some() noexcept;
    void release_unused() noexcept;

    upstream& m_upstream;
    slab_heap& m_slabs;
    cache_set& m_caches;
    release_clock m_clock;
    // cache_set::freed() when the recent addresses next go to their slabs; a hint.
    atomic<std::size_t> m_drain_at{0};
    atomic<std::size_t> m_kept{k_least_kept};
    atomic<std::size_t> m_returned{0};           // at once in this period, and not taken again; a hint
    atomic<std::int64_t> m_returned_at{0};       // the last time
    observed<std::size_t> m_fewest{k_size_max};  // bytes that were not needed in any of the last periods
    observed<std::uint32_t> m_periods;
};

inline bool memory_release::release_some() noexcept {
    std::size_t const used = m_upstream.used();
    std::size_t const step = detail::larger(k_least_excess, used / 32);
    auto const left_free = static_cast<std::size_t>(m_caches.freed());
    std::size_t const drain_at = m_drain_at.load(std::memory_order_relaxed);
    if (drain_at > left_free + step) m_drain_at.store(left_free + step, std::memory_order_relaxed);
    std::size_t const kept = m_kept.load(std::memory_order_relaxed);
    if (left_free <= kept) return false;
    std::size_t const recent = m_caches.recent_bytes();
    std::size_t const free = m_slabs.free_bytes() + recent;
    std::size_t const most = detail::larger(kept, used - detail::smaller(free, used));
    if (detail::smaller(free, left_free) <= most || m_slabs.has_reservations()) return false;
    // Each recent address keeps a chunk: a few hundred of them kept 723 MiB of 852.
    if (recent != 0 && left_free >= drain_at) {
        m_drain_at.store(left_free + step, std::memory_order_relaxed);
        m_caches.drain_recent();
        for (class_index c = k_first_large; c < k_class_count; ++c)  // what was handed over is left free now
            m_caches.note_freed(static_cast<std::int64_t>(m_caches.end_handed(c)), nullptr);
    }
    if (m_slabs.empty_bytes() < step) return false;
    std::size_t const released = m_slabs.release_chunks(static_cast<std::size_t>(m_caches.freed()));
    // What is left in chunks in use still counts.
    m_caches.note_freed(-static_cast<std::int64_t>(released), nullptr);
    if (m_clock.is_on() && released != 0) {
        m_returned.fetch_add(released, std::memory_order_relaxed);
        m_returned_at.store(platform::coarse_time(), std::memory_order_relaxed);
    }
    return released != 0;
}

inline void memory_release::release_free() noexcept {
    {
        scoped_lock const lock(m_caches);
        m_caches.with_every([this] { return m_caches.collect_all(), true; });
    }
    m_slabs.release_chunks(k_size_max, true);
}

inline std::size_t memory_release::trim() noexcept {
    m_slabs.forget_reservations();
    m_caches.try_drain_slots();
    if (try_scoped_lock const lock(m_caches, false); lock) m_caches.steal_each();
    std::size_t bytes = m_slabs.release_chunks();
    for (class_index c = 0; c < k_class_count; ++c)  // other threads use their caches meanwhile
        if (try_scoped_lock const lock(m_caches[c], false); lock) bytes += m_caches[c].purge();
    return bytes + m_slabs.purge();
}

POOLED_NOINLINE inline void memory_release::release_unused() noexcept {
    if (m_slabs.has_reservations()) return;  // no system call, either
    m_slabs.begin_collapsing();
    std::size_t const free_before = m_slabs.free_bytes();
    if (try_scoped_lock const lock(m_caches); lock) m_caches.steal_from_idle();
    m_caches.try_drain_slots();
    m_caches.drain_recent();
    if (std::size_t const free = m_slabs.free_bytes(); free > free_before + k_least_kept)
        release_excess(free - free_before, nullptr);  // large blocks, as if their owners had freed them now
    std::size_t const unneeded = m_slabs.take_fewest_free();
    m_slabs.begin_purge(unneeded, end_period(unneeded));
}

inline std::size_t memory_release::end_period(std::size_t unneeded) noexcept {
    m_returned.store(0, std::memory_order_relaxed);
    std::size_t const fewest = detail::smaller<std::size_t>(m_fewest, unneeded);
    m_fewest = fewest;
    m_periods.add(1);
    if (m_upstream.is_system() && m_periods % k_periods != 0) return 0;
    m_fewest = k_size_max;
    std::size_t const used = m_upstream.used();
    std::size_t const needed = used - detail::smaller(fewest, used);
    std::size_t const kept = m_kept.load(std::memory_order_relaxed);
    m_kept.store(detail::larger(k_least_kept, detail::smaller(kept, needed)), std::memory_order_relaxed);
    return fewest;
}

POOLED_END_DETAIL
