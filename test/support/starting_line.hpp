// SPDX-License-Identifier: BSL-1.0
#pragma once

// Threads leave it within nanoseconds of each other, round after round: from a std::barrier that has slept one is microseconds ahead.
// On Windows, those of libstdc++ 12 that sleep, std::latch too, sometimes miss that they are woken (seen under Wine, in one of some
// hundred rounds).

#include <atomic>
#include <cstddef>
#include <thread>

namespace test {

class starting_line {
public:
    explicit starting_line(std::size_t threads) noexcept : m_threads(threads) {}
    void arrive_and_wait() noexcept {
        // acq_rel, acquire: what each did before it arrived is seen by all that leave.
        std::size_t const mine = m_arrived.fetch_add(1, std::memory_order_acq_rel) / m_threads;
        while (m_arrived.load(std::memory_order_acquire) / m_threads == mine)
            std::this_thread::yield();
    }

private:
    std::size_t const m_threads;
    std::atomic<std::size_t> m_arrived{0};
};

}  // namespace test
