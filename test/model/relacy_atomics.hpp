// SPDX-License-Identifier: BSL-1.0
#pragma once

// The atomics policy (pooled/base/atomics.hpp) that lets Relacy run the production code: every load, store and fence is
// a point where its scheduler may switch threads and where a load may return any value that C++ allows.
//
// Include it after all of the library and the standard library: Relacy redefines `new`, `delete`, `free`, `assert` and
// the names std::memory_order_… as macros.

#include <relacy/relacy.hpp>

#include <atomic>
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

struct relacy_atomics {
    template <class T>
    class atomic {
    public:
        explicit atomic(T value) : m_value(value) {}
        [[nodiscard]] T load(std::memory_order order) const { return m_value.load(order_of(order), $); }
        void store(T value, std::memory_order order) { m_value.store(value, order_of(order), $); }

    private:
        rl::atomic<T> m_value;
    };

    // The kernel's barrier on every thread makes the owner's compiler barrier a full fence whenever it matters; the model
    // always takes it for one.
    static void light_barrier() { rl::atomic_thread_fence(rl::mo_seq_cst, $); }
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
