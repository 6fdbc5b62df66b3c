// SPDX-License-Identifier: BSL-1.0
// The clock for single operations of some nanoseconds: the processor's counter, read so that exactly what lies between
// two readings is counted. On other processors than x86-64 it is steady_clock, which costs more.
#pragma once

#include "support/measure.hpp"

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace bench {

#if defined(__x86_64__)

// Before what is timed. The first fence waits for all that was begun before, the second keeps what follows from starting
// before the counter is read. (Intel, "How to benchmark code execution times", 2010; lfence is the cheaper cpuid.)
inline std::uint64_t ticks_before() {
    _mm_lfence();
    const std::uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
}

// After it. rdtscp waits for all instructions before it by itself. Stores need not have reached the cache yet.
inline std::uint64_t ticks_after() {
    unsigned processor;
    const std::uint64_t ticks = __rdtscp(&processor);
    _mm_lfence();
    return ticks;
}

// Without the fences, which cost more than an operation: for a maximum, which is a thousand operations long.
inline std::uint64_t ticks_now() { return __rdtsc(); }

#else

inline std::uint64_t ticks_before() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
inline std::uint64_t ticks_after() { return ticks_before(); }
inline std::uint64_t ticks_now() { return ticks_before(); }

#endif

// How long a tick is: compares both clocks from its construction on, over all that is measured meanwhile.
class tick_scale {
public:
    double ns_per_tick() const {
        constexpr double k_enough_seconds = 0.005;  // beside it a reading's cost is nothing
        while (m_watch.seconds() < k_enough_seconds) {}
        const double ticks = static_cast<double>(ticks_after() - m_ticks);
        return m_watch.seconds() * 1e9 / ticks;
    }

private:
    stopwatch m_watch;
    std::uint64_t m_ticks = ticks_before();
};

}  // namespace bench
