// SPDX-License-Identifier: BSL-1.0
#pragma once

// Keeps a thread out of its own cache while another thread works on it. For each operation, the owner enters and leaves, which
// takes two plain stores and a load; a thread that steals (takes blocks from other threads' caches, or destroys the pool) makes
// a system call. So free blocks in a sleeping thread's cache can always be taken, and the fast path has no locked instruction.
//
//   owner: enter                          stealing thread, one at a time
//     busy = 1                              limit = 0
//     light barrier                         heavy barrier (on every thread of the process)
//     limit > n ?  --> use the cache        busy == 0, or soon?  --> use the cache, under the lock of the size class
//     else busy = 0, take the slow path     else leave this cache alone
//   leave                                   limit = k_limit
//     busy = 0
//
// An owner may be preempted inside: who steals does without a cache whose owner stays there (cache_set.hpp).
//
// n: 0, or a number that the owner would have to compare with k_limit: one comparison does both.
//
// This is Dekker's handshake with the costs moved to one side (asymmetric fences, P1202). Either the stealing thread sees
// busy == 1, or the owner sees limit == 0 and takes the slow path.
//
// Invariant: the owner between enter() == true and leave(), and a stealing thread between take() == true and resume(), never use the
// cache at the same time. test/model runs this class under a model checker.

#include "pooled/base/size_class.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

class gate {
public:
    // operator new and delete pass the size of a block, less 1.
    static constexpr std::uint64_t k_limit = k_max_block_bytes;

    constexpr gate() noexcept = default;
    struct closed {};
    constexpr explicit gate(closed) noexcept : m_state(k_closed), m_limit(0) {}

    // Owner only. False: stopped or closed, or n >= k_limit; take the slow path, under a lock.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool enter(std::uint64_t n = 0) noexcept {
        bool const is_in = enter_or_stay(n);
        if (!is_in) [[unlikely]]
            leave();
        return is_in;
    }
    // As enter(), but leave() is the caller's in either case.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool enter_or_stay(std::uint64_t n = 0) noexcept {
        m_busy.store(1, std::memory_order_relaxed);
        std_atomics::light_barrier();
        // acquire: pairs with the release in resume(); what a stealing thread did to the cache is seen.
        return std_atomics::exceeds(m_limit, n);
    }

    // Owner only. release: pairs with the acquire in is_idle().
    POOLED_ALWAYS_INLINE void leave() noexcept { m_busy.store(0, std::memory_order_release); }

    // Owner only, of a gate that may be stopped: what it reads from here to leave() is not ended meanwhile. Whoever ends it writes
    // that, passes a sequentially consistent fence, and waits for is_idle().
    void announce() noexcept {
        m_busy.store(1, std::memory_order_relaxed);
        std_atomics::full_barrier();
    }

    // acquire: pairs with the release in resume(), for an owner who has announced that it is inside.
    [[nodiscard]] bool is_open() const noexcept { return m_limit.load(std::memory_order_acquire) != 0; }

    // Stealing thread only: first stop() each gate, then one heavy barrier, then take() each. False when it was stopped already.
    bool stop() noexcept {
        if (!is_open()) return false;
        m_limit.store(0, std::memory_order_relaxed);
        return true;
    }
    // As stop(), for a fork: the owner resumes its gate when it next needs it, so a fork writes to each page once.
    void stop_for_fork() noexcept {
        if (state() == k_closed) return;
        m_state.store(k_stopped_for_fork, std::memory_order_relaxed);
        m_limit.store(0, std::memory_order_relaxed);
    }
    [[nodiscard]] bool is_stopped_for_fork() const noexcept { return state() == k_stopped_for_fork; }

    // The fork did not wait for the owner. `stays`: it was stopped before, and stays so.
    void give_up_fork(bool stays) noexcept {
        m_state.store(k_open, std::memory_order_relaxed);
        if (!stays) m_limit.store(k_limit, std::memory_order_release);  // pairs with the acquire in enter()
    }

    // Stealing thread only. Whether the owner is outside; it then stays there until resume(), however often it tries to enter.
    [[nodiscard]] bool take() noexcept {
        if (is_taken()) return true;
        if (!is_idle()) return false;
        m_state.store(k_taken, std::memory_order_relaxed);
        return true;
    }
    // A fork has waited for the owner.
    [[nodiscard]] bool is_taken() const noexcept {
        return state() == k_taken || is_stopped_for_fork() || is_closing();
    }

    // Closing thread only: begins to close its own gate, or one that it has taken, or gives that up. An owner that has announced itself and
    // finds the gate closing must leave; the closing thread passes a sequentially consistent fence, and waits for is_idle().
    void set_closing(bool is) noexcept {
        if (is || is_closing())
            m_state.store(is ? k_closing : is_open() ? k_open : k_taken, std::memory_order_relaxed);
    }
    [[nodiscard]] bool is_closing() const noexcept { return state() == k_closing; }

    // acquire: pairs with the release in leave(); what the owner did to the cache is seen.
    [[nodiscard]] bool is_idle() const noexcept { return m_busy.load(std::memory_order_acquire) == 0; }

    // Stealing thread only. release: pairs with the acquire in enter().
    void resume() noexcept {
        m_state.store(k_open, std::memory_order_relaxed);
        m_limit.store(k_limit, std::memory_order_release);
    }

    // Stealing thread only, instead of resume(), or for an owner that exists no more: the owner will never enter again.
    void close() noexcept {
        m_limit.store(0, std::memory_order_relaxed);
        m_state.store(k_closed, std::memory_order_release);
    }

    // acquire: pairs with the release in close(); what the closing thread wrote before is seen.
    [[nodiscard]] bool is_closed() const noexcept {
        return m_state.load(std::memory_order_acquire) == k_closed;
    }

private:
    [[nodiscard]] std::uint32_t state() const noexcept { return m_state.load(std::memory_order_relaxed); }

    static constexpr std::uint32_t k_open = 0;  // or stopped
    static constexpr std::uint32_t k_taken = 1;
    static constexpr std::uint32_t k_stopped_for_fork = 2;
    static constexpr std::uint32_t k_closed = 3;
    static constexpr std::uint32_t k_closing = 4;  // and taken

    std_atomics::atomic<std::uint32_t> m_busy{0};
    std_atomics::atomic<std::uint32_t> m_state{k_open};
    std_atomics::atomic<std::uint64_t> m_limit{k_limit};  // 0 unless it is open
};

// The gate of all threads without a cache of a pool: those that end, and those for whose cache there is no memory.
// Invariant: as that of gate, for all that the pool's classes have deferred.
class shared_gate {
public:
    // Does what that of gate does.
    void announce() noexcept {
        m_inside.fetch_add(1, std::memory_order_relaxed);
        std_atomics::full_barrier();  // pairs with that in stop(), and of who ends what the caller reads
    }
    // False: stopped.
    [[nodiscard]] bool enter() noexcept {
        announce();
        // acquire: pairs with the release in resume().
        if (m_is_open.load(std::memory_order_acquire)) return true;
        leave();
        return false;
    }
    // release: pairs with the acquire in take().
    void leave() noexcept { m_inside.fetch_sub(1, std::memory_order_release); }

    // Stealing thread only, as the next two.
    void stop() noexcept {
        m_is_open.store(false, std::memory_order_relaxed);
        std_atomics::full_barrier();  // pairs with that in enter()
    }
    // Whether all are outside: none enters until resume().
    [[nodiscard]] bool take() const noexcept { return m_inside.load(std::memory_order_acquire) == 0; }
    void resume() noexcept { m_is_open.store(true, std::memory_order_release); }

private:
    std_atomics::atomic<std::uint32_t> m_inside{0};
    std_atomics::atomic<bool> m_is_open{true};
};

// The stealing thread's side. `for_each(visit)` calls visit(gate) for each gate to be stopped, always the same ones;
// `barrier()` is platform::heavy_barrier; `take(gate)` calls gate.take(), perhaps several times.
// False: some owners are still inside. Those outside stay there until their gate is resumed.
template <class ForEach, class Barrier, class Take>
bool stop_all(ForEach&& for_each, Barrier&& barrier, Take&& take) {
    bool any = false;
    for_each([&](auto& each) { any = each.stop() || any; });
    if (any) barrier();  // each that was stopped earlier has had one
    bool all = true;
    for_each([&](auto& each) { all = take(each) && all; });
    return all;
}

// How long a thread waits for others that are inside their gates, all of them together: 2 to 6 µs. One that runs leaves in less.
class gate_patience {
public:
    // Whether `is_over()` before the patience is.
    template <class Condition>
    [[nodiscard]] bool wait(Condition&& is_over) noexcept {
        for (; !is_over(); --m_left) {
            if (m_left == 0) return false;
            platform::relax();
        }
        return true;
    }

private:
    unsigned m_left = 128;
};

POOLED_END_DETAIL
