// SPDX-License-Identifier: BSL-1.0
// What every workload needs around its timed loop: a clock, an optimisation barrier, an honest start.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>

namespace bench {

class stopwatch {
public:
    double seconds() const { return std::chrono::duration<double>(clock::now() - m_start).count(); }

private:
    using clock = std::chrono::steady_clock;
    clock::time_point m_start = clock::now();
};

// Compilers may elide a pair of new and delete whose pointer nobody sees; an empty asm that takes the
// pointer counts as a use. The "memory" clobber also makes them store what the constructor wrote.
template <class T>
inline void keep_alive(const T* pointer) {
    asm volatile("" : : "r"(pointer) : "memory");
}

// libstdc++ counts without atomics until the process has started its first thread (3.5 ns a copy against
// 11.9 ns), and some mallocs skip their locks likewise. No program that benefits from a pool is in that state.
inline void start_and_join_one_thread() {
    std::thread([] {}).join();
}

// `full` operations at scale 1, never fewer than `least`.
inline std::uint64_t scaled(std::uint64_t full, double scale, std::uint64_t least = 1) {
    const double wanted = std::round(static_cast<double>(full) * scale);
    return std::max(least, static_cast<std::uint64_t>(wanted));
}

// At or below this scale a run checks arithmetic, not speed: data sets shrink as well as loops.
inline constexpr double k_tiny_scale = 0.001;
inline bool is_tiny(double scale) { return scale <= k_tiny_scale; }

}  // namespace bench
