// SPDX-License-Identifier: BSL-1.0
#pragma once

// Deadlines: how long an acquire waits, from a duration, a time point or a stop token. When the wait begins, and after each wake-up,
// remaining() is how much longer to sleep; watch() lets a stop end the wait.

#include "pooled/config.hpp"
#include "pooled/detail/duration.hpp"
#include "pooled/impl/object/wait_queue.hpp"

#include <concepts>
#include <type_traits>
#include <utility>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The longest single sleep; a longer wait is several of them.
inline constexpr std::chrono::nanoseconds k_longest_sleep = std::chrono::hours(1);
// A century: the sum with the steady clock's time does not overflow.
inline constexpr std::chrono::nanoseconds k_longest_wait = std::chrono::hours(24 * 365 * 100);

// Converts any duration, including NaN and values that nanoseconds cannot represent, to 0 ... most.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::nanoseconds limited(std::chrono::duration<Rep, Period> left,
                                                         std::chrono::nanoseconds most) noexcept {
    using seconds = std::chrono::duration<double>;
    double const s = seconds(left).count();
    if (!(s > 0)) return std::chrono::nanoseconds::zero();
    if (s >= seconds(most).count()) return most;
    return std::chrono::ceil<std::chrono::nanoseconds>(left);
}

template <class Limit>
class deadline;

template <class Clock, class Duration>
class deadline<std::chrono::time_point<Clock, Duration>> {
public:
    explicit deadline(std::chrono::time_point<Clock, Duration> end) noexcept : m_end(end) {}
    [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept {
        using seconds = std::chrono::duration<double>;
        auto const now = Clock::now();
        // Compared as seconds first: the clock's unit may be too small to represent an end that counts hours.
        seconds const left = seconds(m_end.time_since_epoch()) - seconds(now.time_since_epoch());
        if (!(left > -k_longest_sleep && left < k_longest_sleep))
            return detail::limited(left, k_longest_sleep);
        return detail::limited(m_end - now, k_longest_sleep);
    }
    [[nodiscard]] static auto watch(waiter&) noexcept { return 0; }

private:
    std::chrono::time_point<Clock, Duration> m_end;
};

template <class Rep, class Period>
class deadline<std::chrono::duration<Rep, Period>> : public deadline<std::chrono::steady_clock::time_point> {
public:
    explicit deadline(std::chrono::duration<Rep, Period> at_most) noexcept
        : deadline<std::chrono::steady_clock::time_point>(std::chrono::steady_clock::now() +
                                                          detail::limited(at_most, k_longest_wait)) {}
};

#if POOLED_HAS_STOP_TOKEN
template <>
class deadline<std::stop_token> {
public:
    explicit deadline(std::stop_token token) noexcept : m_token(std::move(token)) {}
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
