// SPDX-License-Identifier: BSL-1.0
#pragma once

// The threads that wait for an object, in order of arrival. A waiter lies on the stack of its thread and sleeps on a word of its
// own. What becomes available is offered to the first waiter without an offer, and wakes that thread alone, which then takes it.
//
//   first ─▶ offered … offered ─▶ waiting … waiting
//
// A thread takes microseconds to wake, and milliseconds on a busy machine. Until then, a thread that runs may withdraw the last offer
// and use the object: the waiter keeps its place and its wake-up, and gets the next offer. So objects held for a short time change
// hands without a system call or a context switch. A waiter's offers are withdrawn for 50 µs at most, and not once it has woken in
// vain.
//
//   awake, spins ──▶ sleeping      both ──offer──▶ woken ──no offer any more──▶ awake
//   any of them ──stop──▶ stopped
//
// A waiter that is woken, stopped or past its deadline learns under the lock whether it has an offer: admit().

#include "pooled/base/intrusive_list.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

class wait_queue;

// test/model runs both classes under a model checker.
class waiter {
public:
    waiter() noexcept = default;
    waiter& operator=(waiter&&) = delete;

    // The waiter's own thread calls it. Spins, then sleeps, until it is woken. False: it was stopped, or has waited as long as the deadline
    // says: `remaining()` is how many nanoseconds longer to sleep, and while the result of `watch(*this)` exists, it may stop the waiter.
    template <class Deadline>
    [[nodiscard]] bool wait(Deadline const& deadline) noexcept {
        [[maybe_unused]] auto const watch = deadline.watch(*this);
        std::int64_t left = deadline.remaining();
        for (unsigned spins = 0; spins < k_waiting.waiter_spins && state() == k_awake && left > 0; ++spins)
            platform::relax();
        change(k_awake, k_sleeping);
        for (; state() == k_sleeping && left > 0; left = deadline.remaining())
            platform::wait_while(m_state, k_sleeping, left);
        return state() == k_woken;
    }

    // For the waiter's own thread.
    [[nodiscard]] bool is_queued() const noexcept { return m_is_queued; }

    // Uses only the address: the waiter may no longer exist. Null: does nothing.
    static void wake(waiter* w) noexcept {
        if (w != nullptr) platform::wake_one(w->m_state);
    }

    // Any thread, as long as the waiter lives.
    void stop() noexcept {
        m_state.exchange(k_stopped, std::memory_order_relaxed);
        platform::wake_one(m_state);
    }

private:
    friend class wait_queue;
    friend struct links_of<waiter>;

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
    std_atomics::atomic<std::uint32_t> m_state{k_awake};
    bool m_is_queued = false;
    std_atomics::plain<bool> m_is_offered{false};
    list_links<waiter> links;
    std::int64_t m_keeps_from = 0;  // the time from which its offers are not withdrawn; 0: it had none yet
};

// First in, first out. Requires a lock for everything. O(1).
class wait_queue {
public:
    [[nodiscard]] bool empty() const noexcept { return m_all.empty(); }
    // The number of waiters without an offer.
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }

    // Whether offer() has somebody to offer one of `available` objects to.
    [[nodiscard]] bool is_due(std::size_t available) const noexcept {
        return m_waiting != nullptr && m_offers < available;
    }
    // The waiter that the caller must wake, or null. One call makes one offer.
    [[nodiscard]] waiter* offer(std::size_t available) noexcept {
        if (!is_due(available)) return nullptr;
        waiter* const w = m_waiting;
        w->m_is_offered = true;
        if (w->m_keeps_from == 0) w->m_keeps_from = platform::time() + k_withdrawal_ns;
        m_waiting = m_all.after(*w);
        ++m_offers;
        m_size.subtract(1);
        // In this order: a waiter goes from awake to sleeping without the lock.
        bool const is_asleep =
            !w->change(waiter::k_awake, waiter::k_woken) && w->change(waiter::k_sleeping, waiter::k_woken);
        return is_asleep ? w : nullptr;
    }

    // Whether a thread may take one of `available` objects: a waiter that has an offer, or a thread that is not in the queue, if
    // nobody is without an offer, or instead of the waiter with the last offer.
    [[nodiscard]] bool admit(waiter const* self, std::size_t available) noexcept {
        if (self != nullptr && self->m_is_queued) return self->m_is_offered;
        if (m_waiting == nullptr && m_offers < available) return true;
        waiter* const last = last_offered();
        if (last == nullptr || platform::time() >= last->m_keeps_from) return false;
        withdraw(*last);
        return true;
    }

    // The waiter got nothing, and is to wait, at the end of the queue, or on in its place. If what it was offered has gone, so has what
    // others were offered after it.
    void wait(waiter& w) noexcept {
        if (w.m_is_queued) {
            while (w.m_is_offered)
                withdraw(*last_offered());
            w.m_keeps_from = 1;
            w.change(waiter::k_woken, waiter::k_awake);  // unless it was stopped
            return;
        }
        w.m_is_queued = true;
        m_all.push_back(w);
        if (m_waiting == nullptr) m_waiting = &w;
        m_size.add(1);
    }
    // It got an object, or gives up.
    void leave(waiter& w) noexcept {
        if (!w.m_is_queued) return;
        w.m_is_queued = false;
        if (w.m_is_offered) {
            w.m_is_offered = false;
            --m_offers;
        } else {
            if (m_waiting == &w) m_waiting = m_all.after(w);
            m_size.subtract(1);
        }
        m_all.remove(w);
    }

    // For a forked child, where none of the waiters exists.
    void clear() noexcept { *this = wait_queue(); }

private:
    // 32 threads that use 4 objects for no time: 0.45 million acquisitions a second if no offer is withdrawn, 2.1 with 20 µs, 1.9
    // with 50 µs, 1.6 if each waiter may be overtaken 64 times. Used for 5 µs: 1.0, 0.33, 0.16 and 0.02 context switches each.
    // Used for 20 µs, 1 of 1,000 waits is longer than 4.4, 5.6, 3.7 and 37 ms (AMD EPYC, 2 processors beside other work).
    static constexpr std::int64_t k_withdrawal_ns = 50'000;

    [[nodiscard]] waiter* last_offered() const noexcept {
        return m_waiting != nullptr ? m_all.before(*m_waiting) : m_all.last();
    }
    void withdraw(waiter& last) noexcept {
        last.m_is_offered = false;
        m_waiting = &last;
        --m_offers;
        m_size.add(1);
    }

    intrusive_list<waiter> m_all;
    waiter* m_waiting = nullptr;  // the first without an offer; those before it have one
    std::size_t m_offers = 0;
    observed<std::size_t> m_size;
};

POOLED_END_DETAIL
