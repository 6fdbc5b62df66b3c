// SPDX-License-Identifier: BSL-1.0
#pragma once

// Who waits for an object, in the order in which they came. A waiter lies on the stack of its thread and sleeps on a word
// of its own: whoever brings an object gives it to the first in line and wakes that thread alone, so nobody can overtake
// and no wake-up is lost.
//
//   waiting ──call──▶ called       the grant is the waiter's, whatever comes after
//      └───stop──▶ stopped ──call──▶ called
//
// A waiter whose time is up, or who is stopped, leaves the line under the lock, and finds there whether it was called.

#include "pooled/object/slot.hpp"
#include "pooled/os/platform.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace pooled::detail {

// What a request comes to.
struct grant {
    slot* object = nullptr;
    std::size_t to_build =
        0;  // objects that the caller may build: their places under the bound are set aside

    [[nodiscard]] explicit operator bool() const noexcept { return object != nullptr || to_build != 0; }
};

class waiter {
public:
    waiter() noexcept = default;
    waiter(waiter const&) = delete;
    waiter& operator=(waiter const&) = delete;

    // Its own thread only. Returns when called or stopped, or after about `at_most`, or early.
    void sleep(std::chrono::nanoseconds at_most) noexcept {
        platform::wait_while(m_state, k_waiting, at_most.count());
    }
    [[nodiscard]] bool is_waiting() const noexcept {
        return m_state.load(std::memory_order_relaxed) == k_waiting;
    }
    // acquire: pairs with the release in call(); the grant is seen.
    [[nodiscard]] bool is_called() const noexcept {
        return m_state.load(std::memory_order_acquire) == k_called;
    }
    // Requires is_called().
    [[nodiscard]] grant granted() const noexcept { return m_grant; }

    // Requires a waiter in line, and its lock. To be followed by wake().
    void call(grant g) noexcept {
        m_grant = g;
        m_state.store(k_called, std::memory_order_release);  // release: pairs with the acquire in is_called()
    }
    // Needs the address alone: the waiter may have seen the call, and be gone.
    static void wake(waiter* w) noexcept { platform::wake_one(w->m_state); }

    // Any thread, as long as the waiter lives.
    void stop() noexcept {
        std::uint32_t expected = k_waiting;
        if (m_state.compare_exchange_strong(expected, k_stopped, std::memory_order_relaxed))
            platform::wake_one(m_state);
    }

private:
    friend class wait_line;

    static constexpr std::uint32_t k_waiting = 0;
    static constexpr std::uint32_t k_stopped = 1;
    static constexpr std::uint32_t k_called = 2;

    std::atomic<std::uint32_t> m_state{k_waiting};
    grant m_grant;
    waiter* m_next = nullptr;
    waiter* m_previous = nullptr;
};

// First come, first served. Requires a lock for everything; O(1).
class wait_line {
public:
    [[nodiscard]] bool empty() const noexcept { return m_first == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }

    void push(waiter& w) noexcept {
        w.m_previous = m_last;
        (m_last != nullptr ? m_last->m_next : m_first) = &w;
        m_last = &w;
        ++m_size;
    }

    // Requires that `w` is in line.
    void remove(waiter& w) noexcept {
        (w.m_previous != nullptr ? w.m_previous->m_next : m_first) = w.m_next;
        (w.m_next != nullptr ? w.m_next->m_previous : m_last) = w.m_previous;
        --m_size;
    }

    // The first, called with `g` and no longer in line, to be woken; null when nobody waits.
    [[nodiscard]] waiter* call_first(grant g) noexcept {
        waiter* const w = m_first;
        if (w == nullptr) return nullptr;
        remove(*w);
        w->call(g);
        return w;
    }

    // For a forked child, where none of them exists.
    void forget_all() noexcept { *this = wait_line(); }

private:
    waiter* m_first = nullptr;
    waiter* m_last = nullptr;
    std::size_t m_size = 0;
};

}  // namespace pooled::detail
