// SPDX-License-Identifier: BSL-1.0
// Waiting for another thread that is about to finish.
#pragma once

#include <thread>

namespace bench {

// Spinning is faster while the other thread runs; on a machine with few cores it may not be running.
template <class Done>
void spin_until(Done&& done) {
    constexpr int k_spins = 64;
    for (int spins = 1; !done(); ++spins) {
        if (spins % k_spins == 0) std::this_thread::yield();
    }
}

}  // namespace bench
