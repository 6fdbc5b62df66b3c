// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's lock: a raw_mutex that is free in every child of a fork, because its holder has entered the fork_gate. That of a pool for
// one thread does nothing. Otherwise as raw_mutex.

#include "pooled/os/fork_gate.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/os/raw_mutex.hpp"

POOLED_BEGIN_DETAIL

class mutex {
public:
    constexpr mutex() noexcept = default;
    constexpr explicit mutex(bool is_local) noexcept : m_is_local(is_local) {}

    void lock() noexcept {
        if (m_is_local) return;
        g_fork_gate.enter();
        if (!m_mutex.try_lock()) [[unlikely]]
            m_mutex.wait(m_is_patient ? raw_mutex::k_patient_attempts : raw_mutex::k_attempts);
    }
    // From now on, a thread that waits for the lock does without a system call as long as it can. Requires the lock.
    void be_patient() noexcept { m_is_patient = true; }
    // False: another thread has it for longer than a critical section takes, because it does not run. Sleeps for some milliseconds at most,
    // and lets it run. Once somebody has waited in vain, the others try for as long as a critical section takes, and let it run if it waits
    // for their processor, until the holder frees it: 64 threads on two processors that all went round the lock instead took up to 40 times
    // as long, and 4 GiB. Out of line: where it is inlined, GCC gives make_unique an instruction more.
    [[nodiscard]] POOLED_NOINLINE bool try_lock_for_a_moment() noexcept {
        bool const is_mine = try_enter([this] {
            if (m_is_patient)
                return m_mutex.spin(is_stalled() ? raw_mutex::k_attempts : raw_mutex::k_patient_attempts);
            if (!is_stalled()) return m_mutex.wait(raw_mutex::k_attempts, k_moment_ns);
            if (m_mutex.spin(raw_mutex::k_attempts)) return true;
            platform::pause(0);
            return m_mutex.try_lock();
        });
        if (!is_mine) m_is_stalled.store(true, std::memory_order_relaxed);
        return is_mine;
    }
    // A hint: its holder did not run when a thread last waited for it in vain.
    [[nodiscard]] bool is_stalled() const noexcept { return m_is_stalled.load(std::memory_order_relaxed); }
    [[nodiscard]] bool try_lock() noexcept {
        return try_enter([] { return false; });
    }
    void unlock() noexcept { static_cast<void>(try_unlock()); }  // whose holder is told nothing
    // Do what those of raw_mutex do.
    [[nodiscard]] bool tell_holder() noexcept { return m_mutex.tell_holder(); }
    [[nodiscard]] bool try_unlock() noexcept {
        if (m_is_local) return true;
        if (is_stalled()) m_is_stalled.store(false, std::memory_order_relaxed);
        if (!m_mutex.try_unlock()) return false;
        g_fork_gate.leave();
        return true;
    }

private:
    friend record_access;
    static constexpr std::int64_t k_moment_ns = 4'000'000;

    template <class Wait>
    [[nodiscard]] bool try_enter(Wait&& wait) noexcept {
        if (m_is_local) return true;
        g_fork_gate.enter();
        bool const is_mine = m_mutex.try_lock() || wait();
        if (!is_mine) g_fork_gate.leave();
        return is_mine;
    }

    raw_mutex m_mutex;
    bool m_is_local = false;
    observed<bool> m_is_patient;
    atomic<bool> m_is_stalled{false};
};

// A structure with a lock. Whoever takes it does the structure's on_lock() first, and on_unlock() last.
template <class Of>
class lockable {
public:
    // Out of line: otherwise GCC inlines less of the standard library's code into programs of the hardened build.
    POOLED_NOINLINE void lock() noexcept {
        m_mutex.lock();
        of().on_lock();
    }
    // Do what those of the lock do.
    [[nodiscard]] bool try_lock() noexcept { return m_mutex.try_lock() && (of().on_lock(), true); }
    [[nodiscard]] bool try_lock_for_a_moment() noexcept {
        return m_mutex.try_lock_for_a_moment() && (of().on_lock(), true);
    }
    void unlock() noexcept {
        of().on_unlock();
        m_mutex.unlock();
    }

protected:
    detail::mutex m_mutex;

private:
    friend Of;
    friend record_access;
    explicit lockable(bool is_local) noexcept : m_mutex(is_local) {}
    [[nodiscard]] Of& of() noexcept { return static_cast<Of&>(*this); }
};

// The caller has the lock already.
template <class Mutex>
class unlock_at_end {
public:
    explicit unlock_at_end(Mutex& locked) noexcept : m_mutex(locked) {}
    ~unlock_at_end() { m_mutex.unlock(); }
    unlock_at_end& operator=(unlock_at_end&&) = delete;

private:
    Mutex& m_mutex;
};

// Replaces std::scoped_lock for one lock: <mutex> costs each user 550 lines.
template <class Mutex>
class scoped_lock : unlock_at_end<Mutex> {
public:
    explicit scoped_lock(Mutex& m) noexcept : unlock_at_end<Mutex>((m.lock(), m)) {}
};

// The same, of a lock that the caller can do without: false when another thread has it.
template <class Mutex>
class try_scoped_lock {
public:
    explicit try_scoped_lock(Mutex& m) noexcept : m_mutex(m), m_is_mine(m.try_lock()) {}
    // False only when the holder does not run, unless the caller may wait for it.
    try_scoped_lock(Mutex& m, bool may_wait) noexcept
        : m_mutex(m), m_is_mine(may_wait ? (m.lock(), true) : m.try_lock_for_a_moment()) {}
    ~try_scoped_lock() {
        if (m_is_mine) m_mutex.unlock();
    }
    try_scoped_lock& operator=(try_scoped_lock&&) = delete;
    [[nodiscard]] explicit operator bool() const noexcept { return m_is_mine; }

private:
    Mutex& m_mutex;
    bool m_is_mine;
};

POOLED_END_DETAIL
