// SPDX-License-Identifier: BSL-1.0
// For threads that hand objects over: each on a processor of its own, and what it takes a word to go from one to the other.
#pragma once

#include "support/measure.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace bench {

// A thread often starts on the processor of the one that made it, and Linux may leave both there for a tenth of a second: longer than a short
// run. One that wakes gets an idle processor.
class processors {
public:
    explicit processors(unsigned threads) : m_of(threads) {}

    // Returns when each of the threads has called it and none shares its processor, or after 0.1 s. `me`: from 0 on.
    void take_one(unsigned me) {
#if defined(__linux__)
        if (m_of.size() > std::thread::hardware_concurrency()) return;
        const stopwatch watch;
        for (unsigned looks = 1; watch.seconds() < 0.1; ++looks) {
            m_of[me].store(::sched_getcpu() + 1, std::memory_order_relaxed);
            if (are_apart()) return;
            if (me != 0 && looks % 256 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
#else
        static_cast<void>(me);
#endif
    }

private:
    bool are_apart() const {
        for (auto at = m_of.begin(); at != m_of.end(); ++at) {
            const int mine = at->load(std::memory_order_relaxed);
            const auto is_mine = [mine](const std::atomic<int>& other) {
                return other.load(std::memory_order_relaxed) == mine;
            };
            if (mine == 0 || std::any_of(m_of.begin(), at, is_mine)) return false;
        }
        return true;
    }

    std::vector<std::atomic<int>> m_of;  // 0: it has not called yet
};

// The least of some batches, as a figure of the measurement. On a virtual machine it changes by the second, as the hypervisor moves the
// processors: 27 or 175 ns (AMD EPYC, model 17). Samples compare only where it is the same.
inline std::pair<std::string, double> time_hand_over() {
    constexpr unsigned k_batches = 16;
    constexpr unsigned k_words = 200;  // of a batch: there and back
    alignas(128) std::atomic<unsigned> word{0};
    // Yields later than spin_until(): a call of the system takes longer than a word.
    const auto wait_for = [&word](unsigned value) {
        for (unsigned spins = 1; word.load(std::memory_order_relaxed) != value; ++spins)
            if (spins % 4096 == 0) std::this_thread::yield();
    };
    processors apart(2);
    std::thread other([&] {
        apart.take_one(1);
        for (unsigned i = 1; i < k_batches * k_words; i += 2) {
            wait_for(i);
            word.store(i + 1, std::memory_order_relaxed);
        }
    });
    apart.take_one(0);
    double least = 0;
    for (unsigned i = 0; i < k_batches * k_words;) {
        const bool is_first = i == 0;
        const stopwatch watch;
        for (const unsigned end = i + k_words; i < end; i += 2) {
            word.store(i + 1, std::memory_order_relaxed);
            wait_for(i + 2);
        }
        const double ns = watch.seconds() * 1e9 / k_words;
        least = is_first ? ns : std::min(least, ns);
    }
    other.join();
    return {"hand_over_ns", least};
}

}  // namespace bench
