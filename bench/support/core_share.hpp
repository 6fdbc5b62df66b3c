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
// which leaves three of four places for them. Empty: unknown on this processor. Where a loop lies changes what it takes, so there is one
// function, and each loop begins a line: of copies at eight places, which took turns on a quiet processor, two said 0.4, the others 0.0, and on a
// shared one they said 0.0 to 1.0 (AMD EPYC, model 1).
[[gnu::noinline]] inline std::optional<double> shared_with_others() {
#if defined(__x86_64__)
    constexpr int k_probes = 64;
    constexpr int k_steps = 2000;
    constexpr double k_much = 1.15;
    int shared = 0;
    for (int probe = 0; probe < k_probes; ++probe) {
        std::uint64_t chain = 3;
        int left = k_steps;
        const stopwatch alone;
        asm volatile(".balign 64\n"
                     "0:\timulq $3, %0, %0\n\tdecl %1\n\tjnz 0b"
                     : "+r"(chain), "+r"(left)
                     :
                     : "cc");
        const double least = alone.seconds();
        std::uint64_t a = 0;
        std::uint64_t b = 0;
        std::uint64_t c = 0;
        std::uint64_t d = 0;
        left = k_steps;
        const stopwatch beside;
        asm volatile(".balign 64\n"
                     "0:\timulq $3, %0, %0\n\taddq $1, %1\n\taddq $1, %2\n\taddq $1, %3\n\taddq $1, %4\n\t"
                     "addq $1, %1\n\taddq $1, %2\n\taddq $1, %3\n\taddq $1, %4\n\tdecl %5\n\tjnz 0b"
                     : "+r"(chain), "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(left)
                     :
                     : "cc");
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
