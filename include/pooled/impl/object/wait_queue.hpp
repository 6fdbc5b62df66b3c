// SPDX-License-Identifier: BSL-1.0
#pragma once

// The threads that wait for an object, in order of arrival. A waiter lies on the stack of its thread and sleeps on a word of its
// own: the thread that releases an object grants it to the first waiter that has none, and wakes that thread alone.
//
//   first ─▶ granted … granted ─▶ waiting … waiting
//
// A thread takes microseconds to wake, and milliseconds on a busy machine. Until then, a thread that runs may take the last grant
// back and use the object: the waiter keeps its place and its wake-up, and the next release grants it an object again. So objects
// held for a short time change hands without a system call or a context switch. A waiter's grants are taken back for 50 µs at
// most, and not once it has woken in vain.
//
//   awake, spins ──▶ sleeping      both ──granted──▶ woken ──no grant any more──▶ awake
//   any of them ──stop──▶ stopped
//
// A waiter that is woken, stopped or past its deadline learns under the lock whether it has a grant: settle().

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/impl/os/platform.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The result of a request: an object, or permission to build some, or nothing.
struct grant {
    void* object = nullptr;
    std::size_t to_build = 0;  // these count under the bound from now on

    [[nodiscard]] explicit operator bool() const noexcept { return object != nullptr || to_build != 0; }
};

template <class Atomics, unsigned Spins>
class basic_wait_queue;

// `Spins`: how often a waiter looks before it sleeps. 64 take some 2 µs, about as much as a sleep and a wake-up. Two threads that
// use one object for 1 µs of every 2 get it 0.76 million times a second, and 0.58 without; more threads than processors lose
// nothing (AMD EPYC, 2 processors). test/model runs both classes under a model checker.
template <class Atomics = platform_atomics, unsigned Spins = 64>
class basic_waiter {
public:
    basic_waiter() noexcept = default;
    basic_waiter(basic_waiter const&) = delete;
    basic_waiter& operator=(basic_waiter const&) = delete;

    // Called only by the waiter's own thread, which then calls basic_wait_queue::settle(). Spins, then sleeps, until it is woken.
    // False: it was stopped, or has waited as long as the deadline policy says.
    template <class DeadlinePolicy>
    [[nodiscard]] bool wait(DeadlinePolicy const& deadline) noexcept {
        [[maybe_unused]] auto const watch = deadline.watch(*this);
        auto left = deadline.remaining();
        for (unsigned spins = 0; spins < Spins && state() == k_awake && left.count() > 0; ++spins)
            Atomics::relax();
        change(k_awake, k_sleeping);
        for (; state() == k_sleeping && left.count() > 0; left = deadline.remaining())
            Atomics::wait_while(m_state, k_sleeping, left.count());
        return state() == k_woken;
    }
    // Requires that settle() returned true. Empty: the waiter gave up.
    [[nodiscard]] grant granted() const noexcept { return m_grant; }

    // Uses only the address: the waiter may no longer exist. Null: does nothing.
    static void wake(basic_waiter* w) noexcept {
        if (w != nullptr) Atomics::wake_one(w->m_state);
    }

    // Any thread, as long as the waiter lives.
    void stop() noexcept {
        m_state.exchange(k_stopped, std::memory_order_relaxed);
        Atomics::wake_one(m_state);
    }

private:
    friend class basic_wait_queue<Atomics, Spins>;

    [[nodiscard]] std::uint32_t state() const noexcept { return m_state.load(std::memory_order_relaxed); }
    // True if the state was `from`.
    bool change(std::uint32_t from, std::uint32_t to) noexcept {
        return m_state.compare_exchange_strong(from, to, std::memory_order_relaxed);
    }

    static constexpr std::uint32_t k_awake = 0;
    static constexpr std::uint32_t k_sleeping = 1;
    static constexpr std::uint32_t k_woken = 2;
    static constexpr std::uint32_t k_stopped = 3;

    // Tells only whether to look: everything else is under the queue's lock.
    typename Atomics::template atomic<std::uint32_t> m_state{k_awake};
    typename Atomics::template plain<grant> m_grant{};
    basic_waiter* m_next = nullptr;
    basic_waiter* m_previous = nullptr;
    std::int64_t m_keeps_from = 0;  // the time from which its grants are not taken back; 0: it had none yet
};

// First in, first out. Requires a lock for everything. O(1).
template <class Atomics = platform_atomics, unsigned Spins = 64>
class basic_wait_queue {
public:
    using waiter = basic_waiter<Atomics, Spins>;

    // Those without a grant.
    [[nodiscard]] bool empty() const noexcept { return m_waiting == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }

    void push(waiter& w) noexcept {
        w.m_next = nullptr;
        w.m_previous = m_last;
        (m_last != nullptr ? m_last->m_next : m_first) = &w;
        m_last = &w;
        if (m_waiting == nullptr) m_waiting = &w;
        m_size.add(1);
    }

    // Grants `g` to the first waiter that has no grant; false if there is none. The caller must then wake `to_wake`, which stays
    // null if that thread does not sleep.
    [[nodiscard]] bool grant_first(grant g, waiter*& to_wake) noexcept {
        waiter* const w = m_waiting;
        if (w == nullptr) return false;
        w->m_grant = g;
        if (w->m_keeps_from == 0) w->m_keeps_from = Atomics::time() + k_take_back_ns;
        m_waiting = w->m_next;
        m_size.subtract(1);
        // In this order: a waiter goes from awake to sleeping without the lock.
        if (!w->change(waiter::k_awake, waiter::k_woken) && w->change(waiter::k_sleeping, waiter::k_woken))
            to_wake = w;
        return true;
    }

    // The last grant, if its waiter has not taken it and need not keep it.
    [[nodiscard]] grant take_back() noexcept {
        waiter* const w = m_waiting != nullptr ? m_waiting->m_previous : m_last;
        if (w == nullptr || Atomics::time() >= w->m_keeps_from) return {};
        grant const g = w->m_grant;
        w->m_grant = grant{};
        m_waiting = w;
        m_size.add(1);
        return g;
    }

    // True: the waiter has a grant, or gives up, and is no longer in the queue. False: it is to wait again.
    [[nodiscard]] bool settle(waiter& w, bool gives_up) noexcept {
        if (!grant(w.m_grant)) {
            if (!gives_up) {
                w.m_keeps_from = 1;
                w.change(waiter::k_woken, waiter::k_awake);  // unless it was stopped
                return false;
            }
            if (m_waiting == &w) m_waiting = w.m_next;
            m_size.subtract(1);
        }
        (w.m_previous != nullptr ? w.m_previous->m_next : m_first) = w.m_next;
        (w.m_next != nullptr ? w.m_next->m_previous : m_last) = w.m_previous;
        return true;
    }

    // For a forked child, where none of the waiters exists.
    void clear() noexcept { *this = basic_wait_queue(); }

private:
    // 32 threads that use 4 objects for no time: 0.45 million acquisitions a second if no grant is taken back, 2.1 with 20 µs, 1.9
    // with 50 µs, 1.6 if each waiter may be overtaken 64 times. Used for 5 µs: 1.0, 0.33, 0.16 and 0.02 context switches each.
    // Used for 20 µs, 1 of 1,000 waits is longer than 4.4, 5.6, 3.7 and 37 ms (AMD EPYC, 2 processors beside other work).
    static constexpr std::int64_t k_take_back_ns = 50'000;

    waiter* m_first = nullptr;
    waiter* m_waiting = nullptr;  // the first without a grant; those before it have one
    waiter* m_last = nullptr;
    observed<std::size_t> m_size;
};

using waiter = basic_waiter<>;
using wait_queue = basic_wait_queue<>;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
