// SPDX-License-Identifier: BSL-1.0
#pragma once

// Keeps threads out of all critical sections of the library while one of them forks, so that the child finds every structure
// consistent and every lock free. A fork does not take the locks: a thousand pools have some seventy each.
//
//   thread: enter(), before its first lock       the thread that forks: begin()
//     inside = 1                                   state = closing
//     light barrier                                heavy barrier (on every thread of the process)
//     state == open ?  --> critical section        wait until each inside == 0
//     else inside = 0, sleep, try again          let_in(), the end of the library's prepare handler
//   leave(), after its last lock                   state = closed
//     inside = 0                                 end(), after the fork: state = open, wake all
//
// This is the handshake of cache/gate.hpp: a lock costs two plain stores and a load, and the fork pays. A thread takes part from
// own_flag() to release_flag(), and needs the heavy barrier. All other threads, which use no cache either, increment and
// decrement one of a few counters with locked instructions.
//
// Neither side waits for ever: after a while a thread that sleeps here opens the gate, or a fork goes on without a thread that does not run.
// The state is then *lost*: the child begins anew (pool/registry.hpp). So that it learns that, each thread that enters makes a call first
// that takes as long as the copy (wait_for_copy); order() does so between two stores. docs/mechanisms.md has the argument.
//
// A program's fork handlers may run, and use pools, while a fork keeps all other threads out: the forking thread enters unconditionally and
// finds all locks free.
//
// Invariant: flag.inside == 1 while its owner is in a critical section, or is about to find that it may not enter one;
//            counter = number of such threads without a flag. In a child, other threads may have been about to enter: those without a
//            flag count in the other one of two tables.
// Any thread may call. O(1); begin() and forget_others() O(flags).

#include "pooled/base/algorithm.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <utility>

POOLED_BEGIN_DETAIL

// What the gate knows of one thread.
struct fork_gate_thread {
    std::uint32_t locks;  // held by the thread
    std::uint32_t forks;  // sets of fork handlers in progress on the thread
    void* own;            // its flag, or null
    bool has_turn;        // it forks, and keeps the others out
    bool has_streams;     // it has libc's lock of all streams
    bool is_child_ready;  // in a child, a set of handlers has done its work
};
POOLED_THREAD_STATE(fork_gate_thread, t_fork_gate, {});

// What a higher layer does in the handlers of a fork: each under g_fork_gate, once in a fork.
struct fork_hooks {
    void (*before)() noexcept;
    void (*in_child)() noexcept;
    void (*begin_anew)() noexcept;  // in a child whose state is lost, before anything else is used there
};
POOLED_STATE(atomic<fork_hooks const*>, g_fork_hooks, {nullptr});
// How often a process and its parents were children whose state was lost. What was made before is never freed in such a child.
POOLED_STATE(observed<std::uint32_t>, g_forks_lost, {});

// test/model runs the class under a model checker.
class fork_gate {
public:
    POOLED_API void enter() noexcept;
    // release: pairs with the loads in await_zero(); what was done inside is seen.
    POOLED_API void leave() noexcept;

#if POOLED_HAS_CODE
    // Requires the heavy barrier, and that the calling thread is inside, so that no fork is under way. If all flags that it
    // may take are owned, it continues to use the counters.
    void own_flag() noexcept {
        fork_gate_thread& self = own_state();
        if (self.own != nullptr || self.forks != 0) return;
        std::size_t const first = number();
        for (std::size_t i = 0; i < k_probes; ++i) {
            flag& one = m_flags[(first + i) % k_flags];
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
    // thread at a time has the turn. From begin() to let_in(), no other thread is inside, unless has_given_up(); after it, unless
    // is_lost(). A thread that did not get the turn enters as others do.
    void begin() noexcept {
        fork_gate_thread& self = own_state();
        if (self.forks++ != 0) return;
        m_process.store(platform::process(), std::memory_order_relaxed);
        // acquire: pairs with the release in end().
        self.has_turn = await_until(platform::time() + k_patience,
                                    [this] { return m_turn.exchange(1, std::memory_order_acquire) == 0; });
        if (!self.has_turn) return;
        m_patience_ends = platform::time() + k_patience;
        m_has_given_up = false;
        // seq_cst: pairs with the fetch_add in enter_counted().
        m_state.store(k_closing, std::memory_order_seq_cst);
        std_atomics::full_barrier();  // pairs with that in order()
        for (padded_counter const& one : m_counters[m_table.load(std::memory_order_relaxed)])
            await_zero(one.inside);
        // Only a thread that is inside takes a flag, so from here on flags can only be released. acquire: pairs with the
        // release in release_flag(); what was done inside is seen.
        auto const is_owned = [](flag const& one) {
            return one.is_owned.load(std::memory_order_acquire) != 0;
        };
        if (!detail::any_of(m_flags, is_owned)) return;
        platform::heavy_barrier();
        for (flag const& one : m_flags)
            await_zero(one.inside);
    }
    // For the thread with the turn, before let_in(): false when the fork has waited long enough, also for something else.
    template <class Condition>
    bool await(Condition&& is_met) noexcept {
        if (m_has_given_up || !await_until(m_patience_ends, is_met)) m_has_given_up = true;
        return !m_has_given_up;
    }
    // A thread is, or may be, where the fork wanted none. Everybody else may change all structures, or those of that thread.
    [[nodiscard]] bool has_given_up() const noexcept { return !own_state().has_turn || m_has_given_up; }
    // The library's handlers have ended. From now on, others may open the gate.
    void let_in() noexcept {
        if (!own_state().has_turn) return;
        m_state.store(m_has_given_up ? k_lost : k_closed, std::memory_order_seq_cst);
        if (m_has_given_up) platform::wake_all(m_state);
    }
    void end() noexcept {
        fork_gate_thread& self = own_state();
        if (--self.forks != 0) return;
        self.is_child_ready = false;
        if (!std::exchange(self.has_turn, false)) return;
        m_state.store(k_open, std::memory_order_seq_cst);
        platform::wake_all(m_state);
        m_turn.store(0, std::memory_order_release);
    }
    // A child calls it after its handlers: the child of a handler's own fork goes on to fork itself.
    void become_parent() noexcept {
        m_process.store(platform::process(), std::memory_order_relaxed);
        m_state.store(k_closed, std::memory_order_release);
    }
    // A child calls it once all structures have begun anew. Then the gate is as it was after let_in().
    void recover() noexcept {
        own_state().own = nullptr;  // the next cache asks for another one
        own_state().has_turn = true;
        m_turn.store(1, std::memory_order_relaxed);
        m_state.store(k_closing, std::memory_order_relaxed);
    }
    // The child calls it before end(). Writes only to pages that need it.
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

    // A child sees what the calling thread wrote before, if it sees anything that this thread writes afterwards under a lock that it holds.
    void order() noexcept {
        // Pairs with that in begin(): either this thread sees the fork, or the copy comes after what it wrote.
        std_atomics::full_barrier();
        if (m_state.load(std::memory_order_relaxed) != k_open) platform::wait_for_copy();
    }

    // The thread that forks, or its child, asks.
    [[nodiscard]] bool is_lost() const noexcept {
        return !own_state().has_turn || m_state.load(std::memory_order_relaxed) == k_lost;
    }
    // While a fork is under way: whether this process is not the one that began it.
    [[nodiscard]] bool is_child() const noexcept {
        return m_process.load(std::memory_order_relaxed) != platform::process();
    }
    // How many sets of fork handlers are in progress on the calling thread.
    [[nodiscard]] static std::uint32_t begun() noexcept { return own_state().forks; }
    // Whether the calling thread is forking: others may be waiting for it.
    [[nodiscard]] static bool is_passed() noexcept { return begun() != 0; }

private:
    template <class T>
    using atomic = std_atomics::atomic<T>;
    static constexpr std::size_t k_flags = k_waiting.fork_flags;
    static constexpr std::int64_t k_patience = k_waiting.fork_patience;

    static constexpr std::size_t k_probes =
        detail::smaller<std::size_t>(16, k_flags);  // a thread more counts
    static constexpr std::size_t k_counters = detail::smaller<std::size_t>(16, k_flags);
    struct alignas(64) flag {
        atomic<std::uint32_t> inside{0};
        atomic<std::uint32_t> is_owned{0};  // a word: see base/atomics.hpp
    };
    struct alignas(64) padded_counter {
        atomic<std::uint32_t> inside{0};
    };

    static constexpr std::uint32_t k_open = 0;
    static constexpr std::uint32_t k_closing = 1;  // the forking thread relies on it
    static constexpr std::uint32_t k_closed = 2;
    static constexpr std::uint32_t k_lost = 3;  // as open, until the fork ends

    [[nodiscard]] static fork_gate_thread& own_state() noexcept { return t_fork_gate(); }

#if POOLED_HAS_CODE
    POOLED_ALWAYS_INLINE void enter_first(fork_gate_thread& self) noexcept {
        if (self.own == nullptr) return enter_counted();
        flag_of(self).inside.store(1, std::memory_order_relaxed);
        std_atomics::light_barrier();
        // acquire: pairs with the release in end().
        if (m_state.load(std::memory_order_acquire) != k_open) [[unlikely]]
            enter_closed();
    }
    // Requires that the thread has set its flag.
    POOLED_NOINLINE void enter_closed() noexcept {
        if (enters_lost()) return;
        flag_of(own_state()).inside.store(0, std::memory_order_release);
        wait();
        enter_first(own_state());
    }
    // In a child whose state is lost, handlers of a program may run before the library's.
    POOLED_NOINLINE void enter_in_handler() noexcept {
        fork_gate_thread& self = own_state();
        if (is_lost() && is_child())
            if (fork_hooks const* const hooks = g_fork_hooks.load(std::memory_order_acquire))
                hooks->begin_anew();
        if (!self.has_turn) enter_first(self);
    }
    POOLED_NOINLINE void enter_counted() noexcept {
        for (;;) {
            atomic<std::uint32_t>& inside = counter();
            // seq_cst: pairs with the store and the loads in begin(). Either the fork sees this thread inside, or this thread
            // sees the fork.
            inside.fetch_add(1, std::memory_order_seq_cst);
            // In a child, the fork may have ended, and the tables changed, since counter(): then it must count again.
            if (m_state.load(std::memory_order_seq_cst) == k_open && &inside == &counter()) [[likely]]
                return;
            if (enters_lost()) return;
            inside.fetch_sub(1, std::memory_order_release);
            wait();
        }
    }

    // For a thread that is counted inside. In a child, it waits until all structures begin anew.
    [[nodiscard]] POOLED_NOINLINE bool enters_lost() noexcept {
        // seq_cst: pairs with the exchange in wait().
        if (m_state.load(std::memory_order_seq_cst) != k_lost || is_child()) return false;
        platform::wait_for_copy();
        return true;
    }
    // Until the fork ends, or for long: the fork may be waiting for a lock that this thread holds.
    POOLED_NOINLINE void wait() noexcept {
        bool has_waited = false;
        for (;;) {
            std::uint32_t const state = m_state.load(std::memory_order_acquire);
            if (state == k_open || (state == k_lost && !is_child())) return;
            std::int64_t left = k_patience / 2;  // twice
            std::int64_t const end = platform::time() + left;
            for (; left > 0 && m_state.load(std::memory_order_relaxed) == state;
                 left = end - platform::time())
                platform::wait_while(m_state, state, left);
            if (left > 0 || state != k_closed || is_child()) continue;
            platform::wait_for_copy();  // this may be all that takes so long
            if (!std::exchange(has_waited, true)) continue;
            std::uint32_t closed = k_closed;
            m_state.compare_exchange_strong(closed, k_lost, std::memory_order_seq_cst);
            platform::wake_all(m_state);
        }
    }

    template <class Condition>
    [[nodiscard]] static bool await_until(std::int64_t end, Condition&& is_met) noexcept {
        for (unsigned attempt = 0; !is_met(); ++attempt) {
            if (attempt >= k_attempts_untimed && platform::time() >= end) return false;
            platform::pause(attempt);
        }
        return true;
    }
    // seq_cst: pairs with enter_counted(), and with the releases in leave() and own_flag().
    void await_zero(atomic<std::uint32_t> const& inside) noexcept {
        await([&] { return inside.load(std::memory_order_seq_cst) == 0; });
    }
    static constexpr unsigned k_attempts_untimed = 4;

    // The thread-local data of threads lie at regular distances: all bits of the address count (Fibonacci hashing, Knuth).
    [[nodiscard]] static std::size_t number() noexcept {
        std::uint64_t const hash = std::uint64_t{address_of(&own_state()) >> 6} * 0x9e37'79b9'7f4a'7c15U;
        return static_cast<std::size_t>(hash >> 56);
    }
    [[nodiscard]] atomic<std::uint32_t>& counter() noexcept {
        return m_counters[m_table.load(std::memory_order_relaxed)][number() % k_counters].inside;
    }

    // Requires that the thread has one.
    [[nodiscard]] static flag& flag_of(fork_gate_thread const& thread) noexcept {
        return *static_cast<flag*>(thread.own);
    }
#endif

    std::array<flag, k_flags> m_flags{};
    std::array<std::array<padded_counter, k_counters>, 2> m_counters{};
    atomic<std::uint32_t> m_table{0};
    atomic<std::uint32_t> m_state{k_open};
    atomic<std::uint32_t> m_turn{0};     // 1: a thread has it
    atomic<std::uint64_t> m_process{0};  // of the last begin()
    // The thread with the turn uses these.
    std::int64_t m_patience_ends = 0;
    bool m_has_given_up = false;
};

POOLED_STATE(fork_gate, g_fork_gate);

// While it exists, the thread is inside.
struct fork_pass {
    fork_pass() noexcept { g_fork_gate.enter(); }
    ~fork_pass() { g_fork_gate.leave(); }
    fork_pass& operator=(fork_pass&&) = delete;
};

// Once; `is_first`: before other code of the process can register a handler. False: no memory.
POOLED_API bool register_fork_handlers(bool is_first) noexcept;

#if POOLED_STARTS_FIRST
// The loader calls this before the constructors of all libraries. One for each source: linkers merge none in this section.
[[gnu::section(".preinit_array"), gnu::used]] static void (*register_at_start)() = [] {
    static_cast<void>(detail::register_fork_handlers(true));
};
#endif

#if POOLED_HAS_CODE
POOLED_NOINLINE POOLED_CODE void fork_gate::enter() noexcept {
    if constexpr (!platform::k_has_fork) return;
    fork_gate_thread& self = own_state();
    if (self.locks++ != 0) return;
    if (self.forks != 0) [[unlikely]]
        return enter_in_handler();
    enter_first(self);
}
POOLED_NOINLINE POOLED_CODE void fork_gate::leave() noexcept {
    if constexpr (!platform::k_has_fork) return;
    fork_gate_thread& self = own_state();
    if (--self.locks != 0 || self.has_turn) return;
    if (self.own != nullptr)
        flag_of(self).inside.store(0, std::memory_order_release);
    else
        counter().fetch_sub(1, std::memory_order_release);
}

POOLED_STATE(atomic<std::uint32_t>, g_has_fork_handlers, {0});  // 2: registered before all others

// Between its prepare handlers and the copy, libc takes the lock of all streams, which a thread may hold in fflush(nullptr) while a
// stream's function allocates: taken here, before the gate closes, it is known to be free then. Only by the handlers that run last, as
// those of a program may wait for a thread that wants this lock.
struct fork_handlers {
    static void before() noexcept {
        if (g_has_fork_handlers.load(std::memory_order_relaxed) == 2 && fork_gate::begun() == 0)
            t_fork_gate().has_streams = platform::lock_streams();
        g_fork_gate.begin();
        if (fork_gate::begun() != 1) return;
        call(&fork_hooks::before);
        g_fork_gate.let_in();
    }
    static void in_parent() noexcept {
        g_fork_gate.end();
        if (fork_gate::begun() == 0 && std::exchange(t_fork_gate().has_streams, false))
            platform::unlock_streams();
    }
    // libc has freed the lock of streams. The state may be lost, but nothing was used yet.
    static void in_child() noexcept {
        // Once in each child. Where another namespace has another process of the same number, in the last set of handlers.
        if (g_fork_gate.is_child() || (fork_gate::begun() == 1 && !t_fork_gate().is_child_ready)) {
            if (g_fork_gate.is_lost()) call(&fork_hooks::begin_anew);
            call(&fork_hooks::in_child);
            g_fork_gate.forget_others();
            g_fork_gate.become_parent();
            t_fork_gate().has_streams = false;
            t_fork_gate().is_child_ready = true;
        }
        g_fork_gate.end();
    }

private:
    static void call(void (*fork_hooks::*hook)() noexcept) noexcept {
        // acquire: pairs with the release where the library is first used.
        if (fork_hooks const* const hooks = g_fork_hooks.load(std::memory_order_acquire)) (hooks->*hook)();
    }
};

// Two threads may both register; the outermost handlers act.
POOLED_CODE bool register_fork_handlers(bool is_first) noexcept {
    if (g_has_fork_handlers.load(std::memory_order_acquire) != 0) {
        if (is_first) g_has_fork_handlers.store(2, std::memory_order_relaxed);  // malloc is used even earlier
        return true;
    }
    if (!platform::at_fork(fork_handlers::before, fork_handlers::in_parent, fork_handlers::in_child))
        return false;
    g_has_fork_handlers.store(is_first ? 2 : 1, std::memory_order_release);  // pairs with the acquire above
    return true;
}
#endif

POOLED_END_DETAIL
