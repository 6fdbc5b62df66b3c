// SPDX-License-Identifier: BSL-1.0
#pragma once

// How long an acquire of an object_pool waits when no object is idle and none may be built.

#include "pooled/object/wait_queue.hpp"
#include "pooled/options.hpp"

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

POOLED_BEGIN_DETAIL

// What an acquire does when no object is idle and none may be built. Otherwise it waits: for a duration, which begins when it may have to,
// or as long as a deadline says.
struct or_throw {};
struct or_empty {};

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

// Deadlines: waiter::wait says what their members mean.
template <class Clock, class Duration>
struct deadline {
    explicit deadline(std::chrono::time_point<Clock, Duration> at) noexcept : end(at) {}
    std::chrono::time_point<Clock, Duration> end;

    [[nodiscard]] std::int64_t remaining() const noexcept {
        using seconds = std::chrono::duration<double>;
        auto const now = Clock::now();
        // Compared as seconds first: the clock's unit may be too small to represent an end that counts hours.
        seconds const left = seconds(end.time_since_epoch()) - seconds(now.time_since_epoch());
        bool const is_far = !(left > -k_longest_sleep && left < k_longest_sleep);
        if (is_far) return detail::limited(left, k_longest_sleep).count();
        // Compared first: the difference of unsigned numbers is not negative.
        return end > now ? detail::limited(end - now, k_longest_sleep).count() : 0;
    }
    [[nodiscard]] static int watch(waiter&) noexcept { return 0; }
};

template <class... Args>
inline constexpr bool k_begins_with_stop_token = false;
#if POOLED_HAS_STOP_TOKEN
template <class First, class... Rest>
inline constexpr bool k_begins_with_stop_token<First, Rest...> =
    std::same_as<std::remove_cvref_t<First>, std::stop_token>;

// Without futexes, the destructor of a std::stop_callback of libstdc++ may wait for ever while the callback runs: docs/platforms.md.
// So the waiter asks the token, every 10 ms.
#if defined(__GLIBCXX__) && !defined(_GLIBCXX_HAVE_LINUX_FUTEX)
inline constexpr bool k_asks_stop_token = true;
#else
inline constexpr bool k_asks_stop_token = false;
#endif
struct until_stopped {
    std::stop_token const& token;

    [[nodiscard]] std::int64_t remaining() const noexcept {
        if constexpr (!k_asks_stop_token) return k_longest_sleep.count();
        return token.stop_requested() ? 0 : 10'000'000;
    }
    // Stops the waiter when a stop is requested, or was requested before. Allocates no memory.
    [[nodiscard]] auto watch([[maybe_unused]] waiter& w) const {
        if constexpr (k_asks_stop_token)
            return 0;
        else
            return std::stop_callback(token, [&w]() noexcept { w.stop(); });
    }
};
#endif

POOLED_END_DETAIL
