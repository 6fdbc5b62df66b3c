// SPDX-License-Identifier: BSL-1.0
#pragma once

// Keeps threads out of all critical sections of the library while one of them forks, so that the child finds every structure
// whole and every lock free. A fork does not take the locks: a thousand pools have some seventy each.
//
//   thread: enter(), before its first lock       the thread that forks
//     inside[n] += 1                               is_forking = 1
//     is_forking == 0 ?  --> critical section      wait until each inside[n] == 0
//     else inside[n] -= 1, sleep, try again        prepare handlers, fork, parent or child handlers
//   leave(), after its last lock                 is_forking = 0, wake all
//     inside[n] -= 1
//
// A program's own fork handlers run before and after the library's, in the order in which they were registered, so some of
// them run while a fork keeps all others out, and may use pools: the thread that forks enters without a question, and finds
// all locks free.
//
// Invariant: inside[n] = threads whose number is n that are in a critical section, or about to see that they may not be.
//            In a child, others may have been about to: it counts in the other one of two tables.
// Any thread may call. O(1).

#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/os/raw_mutex.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class fork_gate {
public:
    constexpr fork_gate() noexcept = default;
    fork_gate(fork_gate const&) = delete;
    fork_gate& operator=(fork_gate const&) = delete;

    POOLED_NOINLINE void enter() noexcept {
        if (t_thread.locks++ != 0 || t_thread.forks != 0) return;
        for (;;) {
            std::atomic<std::uint32_t>& inside = mine();
            // seq_cst: pairs with the store and the loads in begin(). Either the fork sees this thread inside, or this thread
            // sees the fork.
            inside.fetch_add(1, std::memory_order_seq_cst);
            if (m_is_forking.load(std::memory_order_seq_cst) == 0) [[likely]]
                return;
            inside.fetch_sub(1, std::memory_order_release);
            platform::wait_while(m_is_forking, 1);
        }
    }
    // release: pairs with the load in begin(); what was done inside is seen.
    POOLED_NOINLINE void leave() noexcept {
        if (--t_thread.locks == 0 && t_thread.forks == 0) mine().fetch_sub(1, std::memory_order_release);
    }

    // Around the handlers of a fork, which nest: there is a set for each part of the library that was used. One thread forks
    // at a time. From begin() to end(), no other thread is inside.
    void begin() noexcept {
        if (t_thread.forks++ != 0) return;
        m_turn.lock();
        m_is_forking.store(1, std::memory_order_seq_cst);
        for (slot const& one : m_tables[m_table.load(std::memory_order_relaxed)])
            for (unsigned attempt = 0; one.inside.load(std::memory_order_seq_cst) != 0; ++attempt)
                platform::pause(attempt);
    }
    void end() noexcept {
        if (--t_thread.forks != 0) return;
        m_is_forking.store(0, std::memory_order_seq_cst);
        platform::wake_all(m_is_forking);
        m_turn.unlock();
    }
    // In the child, before end().
    void forget_others() noexcept {
        std::uint32_t const other = 1 - m_table.load(std::memory_order_relaxed);
        for (slot& one : m_tables[other])
            one.inside.store(0, std::memory_order_relaxed);
        m_table.store(other, std::memory_order_relaxed);
    }

    // The calling thread forks.
    [[nodiscard]] static bool is_passed() noexcept { return t_thread.forks != 0; }

private:
    static constexpr std::size_t k_slots = 64;
    struct alignas(64) slot {
        std::atomic<std::uint32_t> inside{0};
    };
    struct per_thread {
        std::uint32_t locks;  // that it holds
        std::uint32_t forks;  // sets of handlers that it is between
    };

    // The thread-local data of threads lie at regular distances: all bits of the address count (Fibonacci hashing, Knuth).
    [[nodiscard]] std::atomic<std::uint32_t>& mine() noexcept {
        static_assert(k_slots == 64);
        std::uint64_t const hash = std::uint64_t{address_of(&t_thread) >> 6} * 0x9e37'79b9'7f4a'7c15U;
        return m_tables[m_table.load(std::memory_order_relaxed)][hash >> 58].inside;
    }

    POOLED_EXPORT static inline constinit thread_local per_thread t_thread{};

    std::array<std::array<slot, k_slots>, 2> m_tables{};
    std::atomic<std::uint32_t> m_table{0};
    std::atomic<std::uint32_t> m_is_forking{0};
    raw_mutex m_turn;
};

POOLED_EXPORT inline constinit fork_gate g_fork_gate;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
