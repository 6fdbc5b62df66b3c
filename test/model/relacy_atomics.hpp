// SPDX-License-Identifier: BSL-1.0
#pragma once

// The atomics policy (pooled/base/atomics.hpp) that lets Relacy run the production code: every load, store and fence is
// a point where its scheduler may switch threads and where a load may return any value that C++ allows.
//
// Include it after all of the library and the standard library: Relacy redefines `new`, `delete`, `free`, `assert` and
// the names std::memory_order_… as macros.

#include <relacy/relacy.hpp>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <ostream>

namespace model {

constexpr rl::memory_order order_of(std::memory_order order) noexcept {
    switch (order) {
    case std::memory_order::relaxed:
        return rl::mo_relaxed;
    case std::memory_order::consume:
        return rl::mo_consume;
    case std::memory_order::acquire:
        return rl::mo_acquire;
    case std::memory_order::release:
        return rl::mo_release;
    case std::memory_order::acq_rel:
        return rl::mo_acq_rel;
    case std::memory_order::seq_cst:
        break;
    }
    return rl::mo_seq_cst;
}

// A model thread's copy of an object that is thread_local in production; new in each iteration.
template <class T>
struct thread_slots {
    static inline T of[8]{};
    static inline unsigned iteration[8]{};
};
inline unsigned g_iteration = 1;  // a suite's before() counts it up: begin_iteration()
inline void begin_iteration() { ++g_iteration; }

// Sleepers by address, as in the kernel: only a later call for this address wakes one.
struct wake_ups {
    void const* address = nullptr;
    unsigned all = 0;    // calls that woke all
    unsigned one = 0;    // that woke one
    unsigned taken = 0;  // of those, which a sleeper has returned from
    unsigned sleepers = 0;
};
struct sleeping {
    static inline wake_ups of[16]{};
    static inline unsigned iteration = 0;
    static wake_ups& at(void const* address) {
        if (iteration != g_iteration) {
            iteration = g_iteration;
            for (wake_ups& each : of)
                each = {};
        }
        wake_ups* one = of;
        while (one->address != nullptr && one->address != address)
            ++one;
        one->address = address;
        return *one;
    }
};

inline constexpr std::int64_t k_without_end = 1'000'000;  // a timed sleep that only a call of wake ends

struct relacy_atomics {
    template <class T>
    class atomic {
    public:
        explicit atomic(T value) : m_value(value) {}
        [[nodiscard]] T load(std::memory_order order) const { return m_value.load(order_of(order), $); }
        void store(T value, std::memory_order order) { m_value.store(value, order_of(order), $); }
        T exchange(T value, std::memory_order order) { return m_value.exchange(value, order_of(order), $); }
        T fetch_add(T value, std::memory_order order) { return m_value.fetch_add(value, order_of(order), $); }
        T fetch_sub(T value, std::memory_order order) { return m_value.fetch_sub(value, order_of(order), $); }
        bool compare_exchange_strong(T& expected, T value, std::memory_order order,
                                     std::memory_order failed) {
            return m_value.compare_exchange_strong(expected, value, order_of(order), $, order_of(failed), $);
        }
        bool compare_exchange_strong(T& expected, T value, std::memory_order order) {
            return compare_exchange_strong(expected, value, order, std::memory_order::relaxed);
        }

    private:
        rl::atomic<T> m_value;
    };

    // Accompanied by an rl::var: Relacy reports every unordered pair of accesses.
    template <class T>
    class plain {
    public:
        explicit plain(T value = T{}) { *this = value; }
        plain& operator=(T value) {
            m_accesses($) = 0;
            m_value = value;
            return *this;
        }
        operator T() const {  // NOLINT: reads as the value
            static_cast<void>(int(m_accesses($)));
            return m_value;
        }

    private:
        mutable rl::var<int> m_accesses;
        T m_value{};
    };

    static bool exceeds(atomic<std::uint64_t> const& limit, std::uint64_t n) {
        return limit.load(std::memory_order::acquire) > n;
    }
    // The kernel's barrier on every thread makes the owner's compiler barrier a full fence whenever it matters; the model
    // always treats it as one.
    static void light_barrier() { rl::atomic_thread_fence(rl::mo_seq_cst, $); }
    static void heavy_barrier() { rl::atomic_thread_fence(rl::mo_seq_cst, $); }
    static void full_barrier() { rl::atomic_thread_fence(rl::mo_seq_cst, $); }

    // A fork holds this while it copies the process's memory.
    static inline rl::mutex* s_mappings = nullptr;
    static void wait_for_copy() {
        s_mappings->lock($);
        s_mappings->unlock($);
    }
    static std::uint64_t process() { return 1; }

    // futex(2): the kernel looks at the newest value, and whoever is to sleep is in its list before anybody else can call
    // wake. Nothing but a call of wake ends the sleep: a lost one is a livelock, which Relacy reports.
    static void wait_while(atomic<unsigned>& state, unsigned value) {
        if (state.fetch_add(0, std::memory_order::relaxed) != value) return;
        wake_ups& calls = sleeping::at(&state);
        unsigned const all = calls.all;
        ++calls.sleepers;
        while (calls.all == all && calls.taken == calls.one)
            rl::yield(1, $);
        if (calls.all == all) ++calls.taken;
        --calls.sleepers;
    }
    // With a timeout, which may occur at any time.
    static void wait_while(atomic<unsigned>& state, unsigned value, std::int64_t nanoseconds) {
        if (nanoseconds == k_without_end) return wait_while(state, value);
        if (state.fetch_add(0, std::memory_order::relaxed) != value) return;
        wake_ups& calls = sleeping::at(&state);
        unsigned const all = calls.all;
        ++calls.sleepers;
        while (calls.all == all && calls.taken == calls.one && rl::rand(4) != 0)
            rl::yield(1, $);
        if (calls.all == all && calls.taken != calls.one) ++calls.taken;
        --calls.sleepers;
    }
    static void wake_one(atomic<unsigned>& state) {
        rl::yield(1, $);  // between the store and the call
        wake_ups& calls = sleeping::at(&state);
        if (calls.one - calls.taken < calls.sleepers) ++calls.one;
    }
    static void wake_all(atomic<unsigned>& state) {
        rl::yield(1, $);
        ++sleeping::at(&state).all;
    }
    static void relax() { rl::yield(1, $); }
    static std::int64_t time() {
        return rl::rand(2) * 1'000'000;
    }  // whether a limit is over: the model chooses
    static void pause(unsigned) { rl::yield(1, $); }
    template <class T>
    [[nodiscard]] static T& per_thread(T&) {
        unsigned const self = rl::thread_index();
        if (thread_slots<T>::iteration[self] != g_iteration) {
            thread_slots<T>::iteration[self] = g_iteration;
            thread_slots<T>::of[self] = T{};
        }
        return thread_slots<T>::of[self];
    }
};

// What a thread that steals does in place of platform::heavy_barrier().
inline void heavy_barrier() { rl::atomic_thread_fence(rl::mo_seq_cst, $); }

inline void yield() { rl::yield(1, $); }

// False unless Relacy ends with the result that `Suite` expects: success, or in a negative control the fault that it must
// be able to see. Silent but for a line; an unexpected result is run again, deterministically, with the whole history.
// (A stream without a buffer: Relacy replaces operator new, so nothing may be allocated inside and freed outside.)
template <class Suite>
[[nodiscard]] bool run(char const* name, unsigned iterations) {
    std::ostream silent(nullptr);
    auto const simulate = [&](std::ostream& out) {
        rl::test_params params;
        params.iteration_count = iterations;
        params.execution_depth_limit = 10'000;
        params.output_stream = &out;
        params.progress_stream = &silent;
        return rl::simulate<Suite>(params);
    };
    bool const as_expected = simulate(silent);
    std::cout << (as_expected ? "ok: " : "FAILED: ") << name << std::endl;
    if (!as_expected) simulate(std::cout);
    return as_expected;
}

}  // namespace model
