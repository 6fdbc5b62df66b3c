// SPDX-License-Identifier: BSL-1.0
#pragma once

// Atomics, and the barriers of the lock-free parts. A model checker compiles these parts with another header instead of this one
// (test/model/stand_ins), so they use no atomic but those of std_atomics:
//
//   atomic<T>         load and store with a std::memory_order
//   light_barrier()   one side of an asymmetric Dekker handshake: a store before it and a load after it are not reordered,
//                     provided that the other side runs platform::heavy_barrier() between its own store and load
//                     (asymmetric fences: P1202, Goldblatt)
//   plain<T>          a variable that one thread at a time uses, as ordered by the atomics
//
// Read-modify-write operations are on 4 or 8 bytes, never on a bool: for narrower types GCC 12 and 13 call libatomic on
// riscv64, and a program without it does not link.
//
// With membarrier, the light side only stops the compiler from reordering; elsewhere it is a fence. Where a process finds out which
// (POOLED_HAS_MEMBARRIER 2), it is one until then: the first pool asks, before there is a gate.

#include "pooled/config.hpp"

#include <atomic>  // also for who includes this header

POOLED_BEGIN_DETAIL

// What the library uses of std::atomic, whose 60 members the debug information of a source repeats for each T: 100 KB. Members that few
// instances need are templates: those that are not used are not repeated. T: an integer or a pointer.
template <class T>
class atomic {
public:
    constexpr atomic() noexcept = default;
    constexpr atomic(T value) noexcept : m_value(value) {}  // NOLINT: as std::atomic converts
    atomic(atomic const&) = delete;
    atomic& operator=(atomic const&) = delete;

    [[nodiscard]] T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
        return __atomic_load_n(&m_value, static_cast<int>(order));
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        __atomic_store_n(&m_value, value, static_cast<int>(order));
    }
    template <class = void>
    T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        return __atomic_exchange_n(&m_value, value, static_cast<int>(order));
    }
    template <class = void>
    T fetch_add(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        return __atomic_fetch_add(&m_value, value, static_cast<int>(order));
    }
    template <class = void>
    T fetch_sub(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        return __atomic_fetch_sub(&m_value, value, static_cast<int>(order));
    }
    // The value afterwards, whose sign needs no instruction of its own.
    template <class = void>
    T add_fetch(T value, std::memory_order order) noexcept {
        return __atomic_add_fetch(&m_value, value, static_cast<int>(order));
    }
    template <class = void>
    T fetch_and(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        return __atomic_fetch_and(&m_value, value, static_cast<int>(order));
    }
    template <class = void>
    T fetch_or(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        return __atomic_fetch_or(&m_value, value, static_cast<int>(order));
    }
    // The second order is that of a failure: not what the first one means for a load, as std::atomic has it.
    template <class = void>
    bool compare_exchange_strong(T& known, T value, std::memory_order order,
                                 std::memory_order failure = std::memory_order_relaxed) noexcept {
        return __atomic_compare_exchange_n(&m_value, &known, value, false, static_cast<int>(order),
                                           static_cast<int>(failure));
    }

private:
    T m_value{};
};

// 1: the system allows heavy barriers; -1: it does not; 0: not asked yet. Not a guarded static: a fork may happen at any moment.
POOLED_STATE(atomic<int>, g_has_heavy_barrier, {0});

struct std_atomics {
    template <class T>
    using atomic = detail::atomic<T>;
    template <class T>
    using plain = T;

    static void full_barrier() noexcept {
#if defined(__x86_64__) && defined(__clang__)
        // As GCC makes it: 11 ns. Clang's fence is an mfence, 40 ns (Zen 5).
        asm volatile("lock {orl $0, (%%rsp)|or DWORD PTR [rsp], 0}" ::: "memory", "cc");
#else
        std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
    }
    // limit > n, with the order of an acquire. GCC loads an atomic before it compares it.
    POOLED_ALWAYS_INLINE static bool exceeds(atomic<std::uint64_t> const& limit, std::uint64_t n) noexcept {
#if defined(__x86_64__) && !defined(__clang__) && !POOLED_THREAD_SANITIZER
        bool result = false;
        asm volatile("cmp{q %2, %1| %1, %2}"
                     : "=@cca"(result)
                     : "m"(reinterpret_cast<std::uint64_t const&>(limit)), "er"(n)
                     : "memory");
        return result;
#else
        return limit.load(std::memory_order_acquire) > n;
#endif
    }
    static void light_barrier() noexcept {
        if (POOLED_HAS_MEMBARRIER == 1 ||
            (POOLED_HAS_MEMBARRIER == 2 && g_has_heavy_barrier.load(std::memory_order_relaxed) == 1))
            std::atomic_signal_fence(std::memory_order_seq_cst);
        else
            full_barrier();
    }
};

// A counter or pointer with one writer at a time, which others may read for statistics at any moment. Compiles to plain
// moves: reading it never orders anything.
template <class T>
class observed {
public:
    constexpr observed() noexcept = default;
    constexpr explicit observed(T value) noexcept : m_value(value) {}
    constexpr observed(observed const& other) noexcept : m_value(T(other)) {}
    observed& operator=(observed const& other) noexcept { return *this = T(other); }
    observed& operator=(T value) noexcept {
        __atomic_store_n(&m_value, value, __ATOMIC_RELAXED);
        return *this;
    }
    operator T() const noexcept {
        return __atomic_load_n(&m_value, __ATOMIC_RELAXED);
    }  // NOLINT: reads as the value
    // These have an order: release, and acquire.
    void publish(T value) noexcept { __atomic_store_n(&m_value, value, __ATOMIC_RELEASE); }
    [[nodiscard]] T acquire() const noexcept { return __atomic_load_n(&m_value, __ATOMIC_ACQUIRE); }
    // For who may write it: GCC then uses the value from memory.
    [[nodiscard]] T own() const noexcept { return m_value; }
    POOLED_ALWAYS_INLINE void add(T amount) noexcept { *this = static_cast<T>(*this + amount); }
    POOLED_ALWAYS_INLINE void subtract(T amount) noexcept { *this = static_cast<T>(*this - amount); }

private:
    T m_value{};
};

POOLED_END_DETAIL
