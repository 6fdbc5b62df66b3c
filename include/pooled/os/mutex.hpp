// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's lock: 4 bytes, for short critical sections on slow paths.
//
//   0 free   1 held   2 held, and someone may sleep            (Drepper, "Futexes are tricky", 2011, mutex 2)
//   3, 4     the same, held for a fork                         only the thread that forks passes
//
// Not std::mutex, for fork's sake: before_fork holds every lock of every pool at once, far more than ThreadSanitizer's
// deadlock detector can follow (64), and it must be destroyed trivially, since it is in use until the process is gone.
//
// A program's own fork handlers run before and after the library's, in the order in which they were registered, so some of
// them run while all locks are held, and may use pools. To the thread that forks, a lock that it holds for the fork is free:
// lock() and unlock() change nothing, since nobody else can be inside. A lock that is made meanwhile is like any other.
//
// Any thread may call; unlock() from the thread that locked. Satisfies Lockable.

#include "pooled/os/platform.hpp"

#include <atomic>
#include <cstdint>

namespace pooled::detail {

// How many forks of the calling thread are under way: one for each set of handlers that ran.
POOLED_EXPORT inline constinit thread_local std::uint32_t t_forks = 0;

class mutex {
public:
    constexpr mutex() noexcept = default;
    mutex(mutex const&) = delete;
    mutex& operator=(mutex const&) = delete;

    void lock() noexcept {
        if (!try_acquire(k_held)) [[unlikely]]
            lock_slow();
    }

    [[nodiscard]] bool try_lock() noexcept { return try_acquire(k_held) || is_passed(); }

    // release: pairs with the acquires in try_acquire and lock_slow.
    void unlock() noexcept {
        if (is_held_for_fork()) return;  // by the caller: nobody else is inside
        if (m_state.exchange(k_free, std::memory_order_release) == k_contended) platform::wake_one(m_state);
    }

    // Between fork_guard::enter() and leave().
    void lock_for_fork() noexcept {
        if (try_acquire(k_forking)) return;
        lock_slow();
        m_state.store(k_forking_contended, std::memory_order_relaxed);  // someone may sleep, on k_contended
    }
    // Nothing when it was not locked for the fork.
    void unlock_after_fork() noexcept {
        if (!is_held_for_fork()) return;
        // release: pairs with the acquires in try_acquire and lock_slow.
        if (m_state.exchange(k_free, std::memory_order_release) == k_forking_contended)
            platform::wake_one(m_state);
    }
    [[nodiscard]] bool is_held_for_fork() const noexcept {
        return m_state.load(std::memory_order_relaxed) >= k_forking;
    }

private:
    static constexpr std::uint32_t k_free = 0;
    static constexpr std::uint32_t k_held = 1;
    static constexpr std::uint32_t k_contended = 2;
    static constexpr std::uint32_t k_forking = 3;
    static constexpr std::uint32_t k_forking_contended = 4;
    static constexpr unsigned k_attempts = 16384;  // up to a millisecond

    [[nodiscard]] bool try_acquire(std::uint32_t as) noexcept {
        std::uint32_t expected = k_free;
        // acquire: pairs with the release in unlock and unlock_after_fork.
        return m_state.compare_exchange_strong(expected, as, std::memory_order_acquire,
                                               std::memory_order_relaxed);
    }

    // One thread forks at a time (fork_guard), so if the caller is in a fork, it is the one that holds the lock.
    [[nodiscard]] bool is_passed() const noexcept { return t_forks != 0 && is_held_for_fork(); }

    // acquire: pairs with the release in unlock and unlock_after_fork.
    POOLED_NOINLINE void lock_slow() noexcept {
        if (is_passed()) return;
        // A critical section takes less than a call to the system, which threads that hand objects over must not need after
        // reserve(); a holder whose processor does something else for a moment is waited for, too. With 128 attempts, 1 of
        // 7 such hand-overs of 100,000 objects called the system; with 16384, none of 60.
        for (unsigned attempt = 0; attempt < k_attempts; ++attempt) {
            platform::relax();
            if (m_state.load(std::memory_order_relaxed) == k_free && try_acquire(k_held)) return;
        }
        for (;;) {
            std::uint32_t state = m_state.load(std::memory_order_relaxed);
            std::uint32_t const marked = state >= k_forking ? k_forking_contended : k_contended;
            if (state != marked && !m_state.compare_exchange_weak(state, marked, std::memory_order_acquire,
                                                                  std::memory_order_relaxed))
                continue;
            if (state == k_free) return;
            platform::wait_while(m_state, marked);
        }
    }

    std::atomic<std::uint32_t> m_state{k_free};
};

// A lock that a pool of one thread does not take.
class optional_mutex {
public:
    constexpr explicit optional_mutex(bool is_shared) noexcept : m_is_shared(is_shared) {}
    void lock() noexcept {
        if (m_is_shared) m_mutex.lock();
    }
    void unlock() noexcept {
        if (m_is_shared) m_mutex.unlock();
    }
    [[nodiscard]] bool try_lock() noexcept { return !m_is_shared || m_mutex.try_lock(); }
    void lock_for_fork() noexcept {
        if (m_is_shared) m_mutex.lock_for_fork();
    }
    void unlock_after_fork() noexcept { m_mutex.unlock_after_fork(); }
    [[nodiscard]] bool is_held_for_fork() const noexcept { return m_mutex.is_held_for_fork(); }

private:
    mutex m_mutex;
    bool m_is_shared;
};

// Around the handlers of a fork: one thread forks at a time, as far as the library's locks are concerned. Handlers nest:
// there is a set for each part of the library that was used.
class fork_guard {
public:
    constexpr fork_guard() noexcept = default;
    fork_guard(fork_guard const&) = delete;
    fork_guard& operator=(fork_guard const&) = delete;

    void enter() noexcept {
        if (t_forks == 0) m_mutex.lock();
        ++t_forks;
    }
    void leave() noexcept {
        if (--t_forks == 0) m_mutex.unlock();
    }

private:
    mutex m_mutex;
};

POOLED_EXPORT inline constinit fork_guard g_fork_guard;

}  // namespace pooled::detail
