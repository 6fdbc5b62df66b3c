// SPDX-License-Identifier: BSL-1.0
#pragma once

// A lock of 4 bytes, for short critical sections on slow paths.
//
//   0 free   1 held   3 held, and a thread may sleep            (Drepper, "Futexes are tricky", 2011, mutex 2)
//   + 4      a thread has left something for the holder, who does not free the lock before it has looked
//
// Not std::mutex: this one is used until the process ends, so its destructor must be trivial, and a waiting thread spins before
// it calls the system (see wait()).
// Any thread may call; unlock() from the thread that locked. Satisfies Lockable.

#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

// test/model runs the class under a model checker.
class raw_mutex {
public:
    // 1 to 5 µs. A critical section is shorter than a system call, so the lock is free by then unless its holder was preempted: to spin
    // for longer takes the processor from it (64 threads on two processors took four times as long with 16,384 attempts).
    static constexpr unsigned k_attempts = k_waiting.lock_attempts;
    // Up to a millisecond, for those who must not call the system even if the holder was briefly preempted. With 128 attempts, 1 of 7
    // hand-overs of 100,000 objects made a system call; with 16384, none of 60.
    static constexpr unsigned k_patient_attempts = 16384;

    void lock() noexcept {
        if (!try_lock()) [[unlikely]]
            wait(k_attempts);
    }

    [[nodiscard]] bool try_lock() noexcept {
        std::uint32_t expected = k_free;
        // acquire: pairs with the release in unlock.
        return m_state.compare_exchange_strong(expected, k_held, std::memory_order_acquire);
    }

    // Tries so often to lock.
    [[nodiscard]] POOLED_NOINLINE bool spin(unsigned attempts) noexcept {
        for (; attempts != 0; --attempts) {
            platform::relax();
            if (m_state.load(std::memory_order_relaxed) == k_free && try_lock()) return true;
        }
        return false;
    }
    // Takes the lock that try_lock() did not get; within `ns`, unless that is negative. False: the holder did not run in that time.
    // acquire: pairs with the release in unlock.
    POOLED_NOINLINE bool wait(unsigned attempts, std::int64_t ns = -1) noexcept {
        if (spin(attempts)) return true;
        std::int64_t const end = ns < 0 ? 0 : platform::time() + ns;
        for (;;) {
            std::uint32_t const seen = m_state.fetch_or(k_contended, std::memory_order_acquire);
            if ((seen & k_held) == 0) return true;
            std::int64_t const left = ns < 0 ? ns : end - platform::time();
            if (ns >= 0 && left <= 0) return false;  // the holder wakes nobody then, or another one
            platform::wait_while(m_state, seen | k_contended, left);
        }
    }

    // release: pairs with the acquires in try_lock and wait.
    void unlock() noexcept {
        if (m_state.exchange(k_free, std::memory_order_release) == k_contended) platform::wake_one(m_state);
    }

    // The next two are for a lock whose holder other threads tell that they have left something. False: nobody has the lock. release: pairs
    // with the acquire in try_unlock().
    [[nodiscard]] bool tell_holder() noexcept {
        std::uint32_t seen = m_state.load(std::memory_order_relaxed);
        while (seen != k_free &&
               !m_state.compare_exchange_strong(seen, seen | k_left, std::memory_order_release)) {}
        return seen != k_free;
    }
    // Instead of unlock(). False: something was left since the last call; the caller still has the lock. release: as in unlock.
    [[nodiscard]] bool try_unlock() noexcept {
        std::uint32_t seen = k_held;
        while (!m_state.compare_exchange_strong(seen, k_free, std::memory_order_release))
            if ((seen & k_left) != 0) return m_state.fetch_sub(k_left, std::memory_order_acquire), false;
        if (seen == k_contended) platform::wake_one(m_state);
        return true;
    }

protected:
    friend record_access;
    static constexpr std::uint32_t k_free = 0;
    static constexpr std::uint32_t k_held = 1;
    static constexpr std::uint32_t k_contended = 3;
    static constexpr std::uint32_t k_left = 4;

    std_atomics::atomic<std::uint32_t> m_state{k_free};
};

POOLED_END_DETAIL
