// SPDX-License-Identifier: BSL-1.0
#pragma once

// The threads that wait for an object, in order of arrival. A waiter lies on the stack of its thread and sleeps on a word of its
// own: the thread that releases an object grants it to the first waiter and wakes that thread alone, so no thread overtakes and no
// wake-up is lost.
//
//   waiting ──set_grant──▶ granted       the grant belongs to the waiter, whatever happens later
//      └───stop──▶ stopped ──set_grant──▶ granted
//
// A waiter that is stopped, or past its deadline, leaves the queue under the lock, and checks there whether it has a grant.

#include "pooled/config.hpp"
#include "pooled/object/slot.hpp"
#include "pooled/os/platform.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The result of a request: an object, or permission to build some, or nothing.
struct grant {
    slot* object = nullptr;
    std::size_t to_build = 0;  // these count under the bound from now on

    [[nodiscard]] explicit operator bool() const noexcept { return object != nullptr || to_build != 0; }
};

template <class Atomics>
class basic_wait_queue;

// test/model runs it, with the queue, under a model checker.
template <class Atomics = platform_atomics>
class basic_waiter {
public:
    basic_waiter() noexcept = default;
    basic_waiter(basic_waiter const&) = delete;
    basic_waiter& operator=(basic_waiter const&) = delete;

    // Called only by the waiter's own thread. Sleeps until it is granted or stopped, or as long as the deadline policy says.
    template <class DeadlinePolicy>
    void wait(DeadlinePolicy const& deadline) noexcept {
        [[maybe_unused]] auto const watch = deadline.watch(*this);
        for (auto left = deadline.remaining(); is_waiting() && left.count() > 0; left = deadline.remaining())
            Atomics::wait_while(m_state, k_waiting, left.count());
    }
    // acquire: pairs with the release in set_grant(); the result of granted() is seen.
    [[nodiscard]] bool is_granted() const noexcept {
        return m_state.load(std::memory_order_acquire) == k_granted;
    }
    // Requires is_granted().
    [[nodiscard]] grant granted() const noexcept { return m_grant; }

    // Requires a waiter in the queue, and the queue's lock. To be followed by wake().
    void set_grant(grant g) noexcept {
        m_grant = g;
        m_state.store(k_granted,
                      std::memory_order_release);  // release: pairs with the acquire in is_granted()
    }
    // Uses only the address: the waiter may have seen the grant, and no longer exist. Null: does nothing.
    static void wake(basic_waiter* w) noexcept {
        if (w != nullptr) Atomics::wake_one(w->m_state);
    }

    // Any thread, as long as the waiter lives.
    void stop() noexcept {
        std::uint32_t expected = k_waiting;
        if (m_state.compare_exchange_strong(expected, k_stopped, std::memory_order_relaxed))
            Atomics::wake_one(m_state);
    }

private:
    friend class basic_wait_queue<Atomics>;

    [[nodiscard]] bool is_waiting() const noexcept {
        return m_state.load(std::memory_order_relaxed) == k_waiting;
    }

    static constexpr std::uint32_t k_waiting = 0;
    static constexpr std::uint32_t k_stopped = 1;
    static constexpr std::uint32_t k_granted = 2;

    typename Atomics::template atomic<std::uint32_t> m_state{k_waiting};
    typename Atomics::template plain<grant> m_grant{};
    basic_waiter* m_next = nullptr;
    basic_waiter* m_previous = nullptr;
};

// First in, first out. Requires a lock for everything. O(1).
template <class Atomics = platform_atomics>
class basic_wait_queue {
public:
    using waiter = basic_waiter<Atomics>;

    [[nodiscard]] bool empty() const noexcept { return m_first == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }

    void push(waiter& w) noexcept {
        w.m_next = nullptr;
        w.m_previous = m_last;
        (m_last != nullptr ? m_last->m_next : m_first) = &w;
        m_last = &w;
        ++m_size;
    }

    // Requires that `w` is in the queue.
    void remove(waiter& w) noexcept {
        (w.m_previous != nullptr ? w.m_previous->m_next : m_first) = w.m_next;
        (w.m_next != nullptr ? w.m_next->m_previous : m_last) = w.m_previous;
        --m_size;
    }

    // Grants `g` to the first waiter and removes it from the queue; the caller must wake it. Null if no thread waits.
    [[nodiscard]] waiter* grant_first(grant g) noexcept {
        waiter* const w = m_first;
        if (w == nullptr) return nullptr;
        remove(*w);
        w->set_grant(g);
        return w;
    }

    // For a forked child, where none of the waiters exists.
    void clear() noexcept { *this = basic_wait_queue(); }

private:
    waiter* m_first = nullptr;
    waiter* m_last = nullptr;
    std::size_t m_size = 0;
};

using waiter = basic_waiter<>;
using wait_queue = basic_wait_queue<>;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
