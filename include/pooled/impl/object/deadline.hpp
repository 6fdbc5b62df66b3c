// SPDX-License-Identifier: BSL-1.0
#pragma once

// Deadline policies: how long an acquire waits. When the wait begins, and after each wake-up, a policy computes how much longer to
// sleep; it may also stop the waiter.
//
//   for_duration, until_time      remaining() counts down
//   until_stopped                 no limit, but a stop may be requested (where the standard library has std::stop_token)

#include "pooled/config.hpp"
#include "pooled/detail/duration.hpp"
#include "pooled/impl/object/wait_queue.hpp"

#include <type_traits>
#include <utility>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The longest single sleep; a longer wait is several of them.
inline constexpr std::chrono::nanoseconds k_longest_sleep = std::chrono::hours(1);

// Converts any duration, including NaN and values that nanoseconds cannot represent, to 0 ... k_longest_sleep.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::nanoseconds sleep_for(std::chrono::duration<Rep, Period> left) noexcept {
    using seconds = std::chrono::duration<double>;
    double const s = seconds(left).count();
    if (!(s > 0)) return std::chrono::nanoseconds::zero();
    if (s >= seconds(k_longest_sleep).count()) return k_longest_sleep;
    return std::chrono::ceil<std::chrono::nanoseconds>(left);
}

template <class Clock, class Duration>
class until_time {
public:
    explicit until_time(std::chrono::time_point<Clock, Duration> deadline) noexcept : m_deadline(deadline) {}
    [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept {
        auto const now = Clock::now();
        // Compared as seconds first: the clock's unit may be too small to represent a deadline that counts hours.
        seconds const left = seconds(m_deadline.time_since_epoch()) - seconds(now.time_since_epoch());
        if (!(left > -k_longest_sleep && left < k_longest_sleep)) return detail::sleep_for(left);
        return m_deadline <= now ? std::chrono::nanoseconds::zero() : detail::sleep_for(m_deadline - now);
    }
    [[nodiscard]] static auto watch(waiter&) noexcept { return 0; }

private:
    using seconds = std::chrono::duration<double>;
    std::chrono::time_point<Clock, Duration> m_deadline;
};

// Counted on the steady clock from when the wait begins; compared as seconds, so that no sum can overflow.
template <class Rep, class Period>
class for_duration {
public:
    explicit for_duration(std::chrono::duration<Rep, Period> d) noexcept : m_duration(d) {}
    [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept {
        return detail::sleep_for(seconds(m_duration) - seconds(clock::now() - m_start));
    }
    [[nodiscard]] static auto watch(waiter&) noexcept { return 0; }

private:
    using clock = std::chrono::steady_clock;
    using seconds = std::chrono::duration<double>;
    std::chrono::duration<Rep, Period> m_duration;
    clock::time_point m_start = clock::now();
};

#if POOLED_HAS_STOP_TOKEN
class until_stopped {
public:
    explicit until_stopped(std::stop_token token) noexcept : m_token(std::move(token)) {}
    [[nodiscard]] static std::chrono::nanoseconds remaining() noexcept { return k_longest_sleep; }

    // While the result exists, stops the waiter when a stop is requested, or was requested before. Allocates no memory.
    [[nodiscard]] auto watch(waiter& w) const {
        return std::stop_callback(m_token, [&w]() noexcept { w.stop(); });
    }

private:
    std::stop_token m_token;
};
template <class T>
concept stop_token = std::same_as<std::remove_cvref_t<T>, std::stop_token>;
#else
template <class T>
concept stop_token = false;
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
