// SPDX-License-Identifier: BSL-1.0
#pragma once

// The atomics policy of the lock-free parts. They take it as a template parameter, so that a model checker can substitute its
// own atomics and run the production code (test/model).
//
// A policy has:
//   atomic<T>         load and store with a std::memory_order
//   light_barrier()   one side of an asymmetric Dekker handshake: a store before it and a load after it are not reordered,
//                     provided that the other side runs platform::heavy_barrier() between its own store and load
//                     (asymmetric fences: P1202, Goldblatt)
//   plain<T>          a variable that one thread at a time uses, as ordered by the atomics
//
// Parts that sleep, or that store data for each thread, also use platform_atomics (impl/os/platform.hpp).
//
// Read-modify-write operations are on 4 or 8 bytes, never on a bool: for narrower types GCC 12 and 13 call libatomic on
// riscv64, and a program without it does not link.
//
// With membarrier, the light side only stops the compiler from reordering; elsewhere it is a fence.

#include "pooled/config.hpp"

#include <atomic>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct std_atomics {
    template <class T>
    using atomic = std::atomic<T>;
    template <class T>
    using plain = T;

    static void full_barrier() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
    static void light_barrier() noexcept {
#if POOLED_HAS_MEMBARRIER
        std::atomic_signal_fence(std::memory_order_seq_cst);
#else
        std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
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
        m_value.store(value, std::memory_order_relaxed);
        return *this;
    }
    operator T() const noexcept {
        return m_value.load(std::memory_order_relaxed);
    }  // NOLINT: reads as the value
    POOLED_ALWAYS_INLINE void add(T amount) noexcept { *this = static_cast<T>(*this + amount); }
    POOLED_ALWAYS_INLINE void subtract(T amount) noexcept { *this = static_cast<T>(*this - amount); }
    void set(T bits) noexcept { *this = static_cast<T>(*this | bits); }
    void clear(T bits) noexcept { *this = static_cast<T>(*this & ~bits); }

private:
    std::atomic<T> m_value{};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
