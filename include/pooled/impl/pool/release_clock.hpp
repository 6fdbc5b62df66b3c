// SPDX-License-Identifier: BSL-1.0
#pragma once

// Decides when a pool looks for unused memory to return: at most once per period, and only in calls that are slow anyway. Any
// thread may call; a period's end is reported to one thread.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/duration.hpp"
#include "pooled/impl/os/platform.hpp"

#include <atomic>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class release_clock {
public:
    // A `period` that is not positive means never.
    explicit release_clock(std::chrono::milliseconds period) noexcept
        : m_period(std::chrono::nanoseconds(detail::clamp(period, std::chrono::milliseconds(0), k_longest))
                       .count()) {}

    // `calls`: number of slow calls of the calling thread, which reads the clock at every 32nd.
    [[nodiscard]] bool is_due(std::uint32_t calls) noexcept {
        if (m_period <= 0 || calls % 32 != 0) return false;
        std::int64_t const now = platform::coarse_time();
        std::int64_t end = m_end.load(std::memory_order_relaxed);
        if (now < end || !m_end.compare_exchange_strong(end, now + m_period, std::memory_order_relaxed))
            return false;
        return end != 0;  // the first call begins the first period
    }

private:
    static constexpr std::chrono::milliseconds k_longest = std::chrono::hours(24 * 365);  // no sum overflows

    std::int64_t m_period;
    std::atomic<std::int64_t> m_end{0};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
