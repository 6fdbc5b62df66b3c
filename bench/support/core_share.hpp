// SPDX-License-Identifier: BSL-1.0
// Whether somebody else uses the core, too. With simultaneous multithreading a processor is half of a core. On a virtual machine the other half
// may work for another one, which no counter of the system shows: then what waits for memory or for results takes as long as before, and
// the rest 1.3 to 1.9 times as long.
#pragma once

#include "support/hand_over.hpp"
#include "support/measure.hpp"

#include <algorithm>
#include <optional>
#include <thread>

namespace bench {

// The share of some hundred microseconds in which instructions that are independent of one another took longer than a chain of multiplications,
// which leaves three of four places for them. Empty: unknown on this processor.
inline std::optional<double> shared_with_others() {
#if defined(__x86_64__)
    constexpr int k_probes = 64;
    constexpr int k_steps = 2000;
    constexpr double k_much = 1.15;
    int shared = 0;
    for (int probe = 0; probe < k_probes; ++probe) {
        std::uint64_t chain = 3;
        const stopwatch alone;
        for (int i = 0; i < k_steps; ++i)
            asm volatile("imulq $3, %0, %0" : "+r"(chain) : : "cc");
        const double least = alone.seconds();
        std::uint64_t a = 0;
        std::uint64_t b = 0;
        std::uint64_t c = 0;
        std::uint64_t d = 0;
        const stopwatch beside;
        for (int i = 0; i < k_steps; ++i) {
            asm volatile("imulq $3, %0, %0\n\taddq $1, %1\n\taddq $1, %2\n\taddq $1, %3\n\taddq $1, %4\n\t"
                         "addq $1, %1\n\taddq $1, %2\n\taddq $1, %3\n\taddq $1, %4"
                         : "+r"(chain), "+r"(a), "+r"(b), "+r"(c), "+r"(d)
                         :
                         : "cc");
        }
        shared += beside.seconds() > k_much * least;
    }
    return static_cast<double>(shared) / k_probes;
#else
    return {};
#endif
}

// The same of two processors at once: the larger share.
inline std::optional<double> either_shared_with_others() {
    processors apart(2);
    std::optional<double> others;
    std::thread other([&] {
        apart.take_one(1);
        others = shared_with_others();
    });
    apart.take_one(0);
    const std::optional<double> own = shared_with_others();
    other.join();
    return std::max(own, others);
}

}  // namespace bench
