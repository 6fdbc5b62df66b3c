// SPDX-License-Identifier: BSL-1.0
#pragma once

// Keeps threads out of all critical sections of the library while one of them forks, so that the child finds every structure
// consistent and every lock free. A fork does not take the locks: a thousand pools have some seventy each.
//
//   thread: enter(), before its first lock       the thread that forks: begin()
//     inside = 1                                   is_forking = 1
//     light barrier                                heavy barrier (on every thread of the process)
//     is_forking == 0 ?  --> critical section      wait until each inside == 0
//     else inside = 0, sleep, try again            prepare handlers, fork, parent or child handlers
//   leave(), after its last lock                 end()
//     inside = 0                                   is_forking = 0, wake all
//
// This is the handshake of cache/gate.hpp: a lock costs two plain stores and a load, and the fork pays. A thread takes part from
// own_flag() to release_flag(), and needs the heavy barrier. All other threads, which use no cache either, increment and
// decrement one of a few counters with locked instructions.
//
// A program's fork handlers run before and after the library's, in the order of registration. Some of them therefore run, and
// may use pools, while a fork keeps all other threads out: the forking thread enters unconditionally and finds all locks free.
//
// Invariant: flag.inside == 1 while its owner is in a critical section, or is about to find that it may not enter one;
//            counter = number of such threads without a flag. In a child, other threads may have been about to enter: those without a
//            flag count in the other one of two tables.
// Any thread may call. O(1); begin() and forget_others() O(flags).

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/os/raw_mutex.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

POOLED_BEGIN_NAMESPACE
namespace detail {

// Of one thread. One variable of the library, not of the class template: the dynamic linker may share that between the users of
// two libpooled.
struct fork_gate_thread {
    std::uint32_t locks;  // held by the thread
    std::uint32_t forks;  // sets of fork handlers in progress on the thread
    void* own;            // its flag, or null
};
POOLED_THREAD_STATE(fork_gate_thread, t_fork_gate, {});

// `Flags`: how many threads may have a flag of their own; 256 take 16 KiB. test/model runs the class under a model checker.
template <class Atomics = platform_atomics, std::size_t Flags = 256>
class basic_fork_gate {
public:
    POOLED_NOINLINE void enter() noexcept {
        fork_gate_thread& self = own_state();
        if (self.locks++ != 0 || self.forks != 0) return;
        if (self.own == nullptr) return enter_counted();
        for (;;) {
            flag_of(self).inside.store(1, std::memory_order_relaxed);
            Atomics::light_barrier();
            // acquire: pairs with the release in end().
            if (m_is_forking.load(std::memory_order_acquire) == 0) [[likely]]
                return;
            flag_of(self).inside.store(0, std::memory_order_release);
            Atomics::wait_while(m_is_forking, 1);
        }
    }
    // release: pairs with the loads in wait_until_zero(); what was done inside is seen.
    POOLED_NOINLINE void leave() noexcept {
        fork_gate_thread& self = own_state();
        if (--self.locks != 0 || self.forks != 0) return;
        if (self.own != nullptr)
            flag_of(self).inside.store(0, std::memory_order_release);
        else
            counter().fetch_sub(1, std::memory_order_release);
    }

#if POOLED_HAS_CODE
    // Requires the heavy barrier, and that the calling thread is inside, so that no fork is under way. If all flags that it
    // may take are owned, it continues to use the counters.
    void own_flag() noexcept {
        fork_gate_thread& self = own_state();
        if (self.own != nullptr || self.forks != 0) return;
        std::size_t const first = number();
        for (std::size_t i = 0; i < k_probes; ++i) {
            flag& one = m_flags[(first + i) % Flags];
            // acquire: pairs with the release in release_flag().
            if (one.is_owned.load(std::memory_order_relaxed) != 0 ||
                one.is_owned.exchange(1, std::memory_order_acquire) != 0)
                continue;
            one.inside.store(1, std::memory_order_relaxed);
            self.own = &one;
            // release: pairs with the load in begin(), which looks at the counters before it looks at the flags.
            counter().fetch_sub(1, std::memory_order_release);
            return;
        }
    }
    // The calling thread ends. Requires that it is not inside, and not between begin() and end(). release: pairs with the acquire in
    // own_flag().
    static void release_flag() noexcept {
        if (void* const own = std::exchange(own_state().own, nullptr))
            static_cast<flag*>(own)->is_owned.store(0, std::memory_order_release);
    }

    // Called before and after the handlers of a fork, which nest: each part of the library that was used has a set of them. One
    // thread forks at a time. From begin() to end(), no other thread is inside.
    void begin() noexcept {
        if (own_state().forks++ != 0) return;
        m_turn.lock();
        // seq_cst: pairs with the fetch_add in enter_counted().
        m_is_forking.store(1, std::memory_order_seq_cst);
        for (padded_counter const& one : m_counters[m_table.load(std::memory_order_relaxed)])
            wait_until_zero(one.inside);
        // Only a thread that is inside takes a flag, so from here on flags can only be released. acquire: pairs with the
        // release in release_flag(); what was done inside is seen.
        auto const is_owned = [](flag const& one) {
            return one.is_owned.load(std::memory_order_acquire) != 0;
        };
        if (!detail::any_of(m_flags, is_owned)) return;
        Atomics::heavy_barrier();
        for (flag const& one : m_flags)
            wait_until_zero(one.inside);
    }
    void end() noexcept {
        if (--own_state().forks != 0) return;
        m_is_forking.store(0, std::memory_order_seq_cst);
        Atomics::wake_all(m_is_forking);
        m_turn.unlock();
    }
    // In the child, before end(). Writes only to pages that need it.
    void forget_others() noexcept {
        for (flag& one : m_flags)
            if (&one != own_state().own && one.is_owned.load(std::memory_order_relaxed) != 0) {
                one.inside.store(0, std::memory_order_relaxed);
                one.is_owned.store(0, std::memory_order_relaxed);
            }
        std::uint32_t const other = 1 - m_table.load(std::memory_order_relaxed);
        for (padded_counter& one : m_counters[other])
            one.inside.store(0, std::memory_order_relaxed);
        m_table.store(other, std::memory_order_relaxed);
    }
#endif

    // How many sets of fork handlers are in progress on the calling thread.
    [[nodiscard]] static std::uint32_t begun() noexcept { return own_state().forks; }
    // Whether the calling thread is forking.
    [[nodiscard]] static bool is_passed() noexcept { return begun() != 0; }

private:
    template <class T>
    using atomic = typename Atomics::template atomic<T>;

    static constexpr std::size_t k_probes = detail::smaller<std::size_t>(16, Flags);  // a thread more counts
    static constexpr std::size_t k_counters = detail::smaller<std::size_t>(16, Flags);
    struct alignas(64) flag {
        atomic<std::uint32_t> inside{0};
        atomic<std::uint32_t> is_owned{0};  // a word: see base/atomics.hpp
    };
    struct alignas(64) padded_counter {
        atomic<std::uint32_t> inside{0};
    };

    POOLED_NOINLINE void enter_counted() noexcept {
        for (;;) {
            atomic<std::uint32_t>& inside = counter();
            // seq_cst: pairs with the store and the loads in begin(). Either the fork sees this thread inside, or this thread
            // sees the fork.
            inside.fetch_add(1, std::memory_order_seq_cst);
            // In a child, the fork may have ended, and the tables changed, since counter(): then it must count again.
            if (m_is_forking.load(std::memory_order_seq_cst) == 0 && &inside == &counter()) [[likely]]
                return;
            inside.fetch_sub(1, std::memory_order_release);
            Atomics::wait_while(m_is_forking, 1);
        }
    }

    // seq_cst: pairs with enter_counted(), and with the releases in leave() and own_flag().
    static void wait_until_zero(atomic<std::uint32_t> const& inside) noexcept {
        for (unsigned attempt = 0; inside.load(std::memory_order_seq_cst) != 0; ++attempt)
            Atomics::pause(attempt);
    }

    // The thread-local data of threads lie at regular distances: all bits of the address count (Fibonacci hashing, Knuth).
    [[nodiscard]] static std::size_t number() noexcept {
        std::uint64_t const hash = std::uint64_t{address_of(&own_state()) >> 6} * 0x9e37'79b9'7f4a'7c15U;
        return static_cast<std::size_t>(hash >> 56);
    }
    [[nodiscard]] atomic<std::uint32_t>& counter() noexcept {
        return m_counters[m_table.load(std::memory_order_relaxed)][number() % k_counters].inside;
    }

    [[nodiscard]] static fork_gate_thread& own_state() noexcept { return Atomics::per_thread(t_fork_gate()); }
    // Requires that the thread has one.
    [[nodiscard]] static flag& flag_of(fork_gate_thread const& thread) noexcept {
        return *static_cast<flag*>(thread.own);
    }

    std::array<flag, Flags> m_flags{};
    std::array<std::array<padded_counter, k_counters>, 2> m_counters{};
    atomic<std::uint32_t> m_table{0};
    atomic<std::uint32_t> m_is_forking{0};
    basic_raw_mutex<Atomics> m_turn;
};

using fork_gate = basic_fork_gate<>;
#if defined(POOLED_BUILDS_LIBRARY)
template class POOLED_EXPORT basic_fork_gate<>;
#elif !POOLED_HAS_CODE
extern template class POOLED_EXPORT basic_fork_gate<>;
#endif

POOLED_STATE(fork_gate, g_fork_gate);

}  // namespace detail
POOLED_END_NAMESPACE
