// SPDX-License-Identifier: BSL-1.0
#pragma once

// simulation.hpp by Relacy: every load, store and fence is a point where its scheduler may switch threads, and where a load may return
// any value that C++ allows.
//
// Include it after all of the library and the standard library, once in a program: Relacy redefines `new`, `delete`, `free`, `assert` and
// the names std::memory_order_… as macros.

#include "model/simulation.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <ostream>

// clang-format off: behind all others
#include <relacy/relacy.hpp>
// clang-format on

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

inline void yield() { rl::yield(1, $); }

}  // namespace model

namespace simulation {

// The simulated objects at some addresses, in one iteration.
template <class T, std::size_t Capacity>
class table {
public:
    // Constructs it as T(arguments...) if there is none.
    template <class... Arguments>
    [[nodiscard]] T& at(void const* address, Arguments... arguments) {
        std::size_t const i = index_of(address);
        if (m_keys[i] != nullptr) return *object(i);
        m_keys[i] = address;
        m_used[m_count++] = i;
        RL_ASSERT(m_count < Capacity);
        return *std::construct_at(object(i), arguments...);
    }
    // After an iteration that failed: what made them is gone.
    [[nodiscard]] T* find(void const* address) {
        std::size_t const i = index_of(address);
        return m_keys[i] != nullptr ? object(i) : nullptr;
    }
    void forget() {
        while (m_count != 0)
            m_keys[m_used[--m_count]] = nullptr;
    }
    void clear() {
        while (m_count != 0) {
            std::size_t const i = m_used[--m_count];
            std::destroy_at(object(i));
            m_keys[i] = nullptr;
        }
    }

private:
    // Where it is, or goes.
    [[nodiscard]] std::size_t index_of(void const* address) const {
        std::size_t i = (reinterpret_cast<std::uintptr_t>(address) >> 2) * 0x9e37'79b9'7f4a'7c15U >> 40;
        for (i %= Capacity; m_keys[i] != nullptr && m_keys[i] != address;)
            i = (i + 1) % Capacity;
        return i;
    }
    [[nodiscard]] T* object(std::size_t i) {
        return std::launder(reinterpret_cast<T*>(m_memory.data() + i * sizeof(T)));
    }
    alignas(T) std::array<std::byte, Capacity * sizeof(T)> m_memory;
    std::array<void const*, Capacity> m_keys{};
    std::array<std::size_t, Capacity> m_used{};
    std::size_t m_count = 0;
};

inline table<rl::atomic<std::uint64_t>, 512> g_atomics;
inline table<rl::var<int>, 8192> g_written;
// Relacy's own try_lock() fails now and then without a reason. Who takes all locks of a pool, or none, would never have all.
struct lock_at {
    rl::mutex mutex;
    bool is_held = false;
};
inline table<lock_at, 1024> g_locks;
inline bool g_is_in_thread = false;
inline unsigned g_acts_as = 0;  // whose state is used before and after the threads run
inline unsigned g_iteration = 1;
// What is there; a negative control leaves something out.
struct parts {
    bool light_fence = true;
    bool full_fence = true;
    bool heavy_fence = true;
    bool wake_up = true;
    bool wait_for_copy = true;
    bool orders = true;  // of atomics
};
inline parts g_has;
inline std::int64_t g_now = 0;
// The clock is at its beginning, or k_long after it: the model chooses.
inline bool g_may_lose_patience = false;
inline rl::mutex* g_mappings = nullptr;  // a fork holds it while it copies the process's memory

rl::memory_order order_of(std::memory_order order) {
    return g_has.orders ? model::order_of(order) : rl::mo_relaxed;
}
inline rl::atomic<std::uint64_t>& atomic_at(void const* at, std::uint64_t initial) {
    return g_atomics.at(at, initial);
}
void begin_atomic(void const* at, std::uint64_t value) {
    if (rl::context::is_instance()) atomic_at(at, value).store(value, rl::mo_relaxed, $);
}
std::uint64_t load(void const* at, std::uint64_t initial, std::memory_order order) {
    return atomic_at(at, initial).load(order_of(order), $);
}
void store(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order) {
    atomic_at(at, initial).store(value, order_of(order), $);
}
std::uint64_t exchange(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order) {
    return atomic_at(at, initial).exchange(value, order_of(order), $);
}
std::uint64_t fetch_add(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order) {
    return atomic_at(at, initial).fetch_add(value, order_of(order), $);
}
bool compare_exchange(void const* at, std::uint64_t initial, std::uint64_t& expected, std::uint64_t value,
                      std::memory_order order) {
    return atomic_at(at, initial).compare_exchange_strong(expected, value, order_of(order), $);
}

void note_read(void const* at) {
    if (rl::var<int>* const written = g_written.find(at)) static_cast<void>(int((*written)($)));
}
void note_write(void const* at) { g_written.at(at)($) = 0; }

void lock(void const* at) {
    lock_at& one = g_locks.at(at);
    one.mutex.lock($);
    one.is_held = true;
}
bool try_lock(void const* at) {
    lock_at& one = g_locks.at(at);
    while (!one.is_held)
        if (one.mutex.try_lock($)) return one.is_held = true;
    return false;
}
void unlock(void const* at) {
    lock_at& one = g_locks.at(at);
    one.is_held = false;
    one.mutex.unlock($);
}

void light_fence() {
    if (g_has.light_fence) rl::atomic_thread_fence(rl::mo_seq_cst, $);
}
void full_fence() {
    if (g_has.full_fence) rl::atomic_thread_fence(rl::mo_seq_cst, $);
}
void heavy_fence() {
    if (g_has.heavy_fence) rl::atomic_thread_fence(rl::mo_seq_cst, $);
}
void yield() { model::yield(); }
unsigned thread_index() { return g_is_in_thread ? rl::thread_index() : g_acts_as; }
unsigned iteration() { return g_iteration; }

// Sleepers by address, as in the kernel: only a later call for this address wakes one.
struct sleepers {
    void const* address = nullptr;
    unsigned all = 0;    // calls that woke all
    unsigned one = 0;    // that woke one
    unsigned taken = 0;  // of those, which a sleeper has returned from
    unsigned count = 0;
};
inline std::array<sleepers, 16> g_sleepers;
inline sleepers& sleepers_at(void const* address) {
    sleepers* one = g_sleepers.data();
    while (one->address != nullptr && one->address != address)
        ++one;
    one->address = address;
    return *one;
}
void sleep(void const* at, std::int64_t nanoseconds) {
    bool const has_end = nanoseconds >= 0 && nanoseconds < k_long;
    sleepers& here = sleepers_at(at);
    unsigned const all = here.all;
    ++here.count;
    while (here.all == all && here.taken == here.one && (!has_end || rl::rand(4) != 0))
        model::yield();
    if (here.all == all && here.taken != here.one) ++here.taken;
    --here.count;
}
void wake_one(void const* at) {
    if (!g_has.wake_up) return;
    model::yield();  // between the store and the call
    sleepers& here = sleepers_at(at);
    if (here.one - here.taken < here.count) ++here.one;
}
void wake_all(void const* at) {
    model::yield();
    ++sleepers_at(at).all;
}
std::int64_t time() { return g_may_lose_patience ? rl::rand(2) * k_long : g_now; }
void wait_for_copy() {
    if (g_mappings == nullptr || !g_has.wait_for_copy) return;
    g_mappings->lock($);
    g_mappings->unlock($);
}

// At the beginning of an iteration; there is something when the last one failed.
inline void forget() {
    g_atomics.forget();
    g_written.forget();
    g_locks.forget();
}
// At the end of an iteration, when nothing simulated is used any more.
inline void clear() {
    g_is_in_thread = false;
    g_atomics.clear();
    g_written.clear();
    g_locks.clear();
}

}  // namespace simulation

namespace model {

// Threads act by themselves from here on.
inline void begin_iteration() {
    ++simulation::g_iteration;
    simulation::g_sleepers = {};
    simulation::g_is_in_thread = true;
}

// False unless Relacy ends with the result that `Suite` expects: success, or in a negative control the fault that it must
// be able to see. Silent but for a line; an unexpected result is run again, deterministically, with the whole history.
// (A stream without a buffer: Relacy replaces operator new, so nothing may be allocated inside and freed outside.)
template <class Suite>
[[nodiscard]] bool run(char const* name, unsigned iterations) {
    std::ostream silent(nullptr);
    auto const simulate = [&](std::ostream& out) {
        simulation::forget();
        rl::test_params params;
        params.iteration_count = iterations;
        params.execution_depth_limit = 50'000;
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
