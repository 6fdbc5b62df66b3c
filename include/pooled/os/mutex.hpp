// SPDX-License-Identifier: BSL-1.0
#pragma once

// The library's lock: a raw_mutex that is free in every child of a fork, because its holder has entered the fork_gate (where there
// are forks). That of a pool for one thread does nothing.
// Any thread may call; unlock() from the thread that locked. Satisfies BasicLockable.

#include "pooled/config.hpp"
#include "pooled/os/fork_gate.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/os/raw_mutex.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

class mutex {
public:
    constexpr mutex() noexcept = default;
    constexpr explicit mutex(bool is_local) noexcept : m_is_local(is_local) {}

    void lock() noexcept {
        if (m_is_local) return;
        if constexpr (platform::k_has_fork) g_fork_gate.enter();
        m_mutex.lock();
    }
    void unlock() noexcept {
        if (m_is_local) return;
        m_mutex.unlock();
        if constexpr (platform::k_has_fork) g_fork_gate.leave();
    }

private:
    template <class>
    friend struct record_access;
    raw_mutex m_mutex;
    bool m_is_local = false;
};

// Replaces std::scoped_lock for one lock: <mutex> costs each user 550 lines.
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

}  // namespace detail
POOLED_END_NAMESPACE
