// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's lock: a raw_mutex that is free in every child of a fork, because its holder has entered the fork_gate (where there
// are forks).
// Any thread may call; unlock() from the thread that locked. Satisfies BasicLockable.

#include "pooled/config.hpp"
#include "pooled/impl/os/fork_gate.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/os/raw_mutex.hpp"

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class mutex {
public:
    constexpr mutex() noexcept = default;
    mutex(mutex const&) = delete;
    mutex& operator=(mutex const&) = delete;

    void lock() noexcept {
        if constexpr (platform::k_has_fork) g_fork_gate.enter();
        m_mutex.lock();
    }
    void unlock() noexcept {
        m_mutex.unlock();
        if constexpr (platform::k_has_fork) g_fork_gate.leave();
    }

private:
    raw_mutex m_mutex;
};

// A lock that does nothing in a pool for one thread.
class optional_mutex {
public:
    constexpr explicit optional_mutex(bool is_shared) noexcept : m_is_shared(is_shared) {}
    void lock() noexcept {
        if (m_is_shared) m_mutex.lock();
    }
    void unlock() noexcept {
        if (m_is_shared) m_mutex.unlock();
    }

private:
    mutex m_mutex;
    bool m_is_shared;
};

// Replace std::scoped_lock for one lock, and std::unique_lock as used here: <mutex> costs each user 550 lines.
template <class Mutex>
class scoped_lock {
public:
    explicit scoped_lock(Mutex& m) noexcept : m_mutex(m) { m_mutex.lock(); }
    ~scoped_lock() { m_mutex.unlock(); }
    scoped_lock(scoped_lock const&) = delete;
    scoped_lock& operator=(scoped_lock const&) = delete;

private:
    Mutex& m_mutex;
};
template <class Mutex>
class unique_lock {
public:
    explicit unique_lock(Mutex& m) noexcept : m_mutex(m) { lock(); }
    ~unique_lock() {
        if (m_is_locked) m_mutex.unlock();
    }
    unique_lock(unique_lock const&) = delete;
    unique_lock& operator=(unique_lock const&) = delete;

    void lock() noexcept {
        m_mutex.lock();
        m_is_locked = true;
    }
    void unlock() noexcept {
        m_mutex.unlock();
        m_is_locked = false;
    }

private:
    Mutex& m_mutex;
    bool m_is_locked = false;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
