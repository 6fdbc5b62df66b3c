// SPDX-License-Identifier: BSL-1.0
// Deadline policies turn any duration and any clock into sleeps that the platform can do.

#include "pooled/object/deadline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ratio>

using namespace std::chrono_literals;

namespace {

using pooled::detail::for_duration;
using pooled::detail::k_longest_sleep;
using pooled::detail::sleep_for;
using pooled::detail::until_time;

TEST(sleep_for, is_the_duration_rounded_up_to_nanoseconds) {
    EXPECT_EQ(sleep_for(3ms), 3ms);
    EXPECT_EQ(sleep_for(std::chrono::duration<std::int64_t, std::pico>(1)), 1ns);
    EXPECT_EQ(sleep_for(std::chrono::duration<double>(0.5)), 500ms);
}

TEST(sleep_for, is_zero_for_what_is_not_positive) {
    EXPECT_EQ(sleep_for(0ms), 0ns);
    EXPECT_EQ(sleep_for(-1h), 0ns);
    EXPECT_EQ(sleep_for(std::chrono::hours::min()), 0ns);
    EXPECT_EQ(sleep_for(std::chrono::duration<double>(std::nan(""))), 0ns);
}

TEST(sleep_for, is_an_hour_for_what_is_longer) {
    EXPECT_EQ(sleep_for(2h), k_longest_sleep);
    EXPECT_EQ(sleep_for(std::chrono::hours::max()), k_longest_sleep);
    EXPECT_EQ(sleep_for(std::chrono::duration<double>(std::numeric_limits<double>::infinity())),
              k_longest_sleep);
    EXPECT_EQ(sleep_for(std::chrono::duration<int, std::ratio<86400 * 365>>(1000)), k_longest_sleep);
}

TEST(for_duration, counts_down_from_its_construction) {
    for_duration const policy(10s);
    auto const left = policy.remaining();
    EXPECT_LE(left, 10s);
    EXPECT_GT(left, 5s);
}

TEST(for_duration, is_over_at_once_for_what_is_not_positive) {
    EXPECT_EQ(for_duration(0s).remaining(), 0ns);
    EXPECT_EQ(for_duration(std::chrono::hours::min()).remaining(), 0ns);
}

// Says what the test sets.
struct set_clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<set_clock>;
    [[maybe_unused]] static constexpr bool is_steady = false;
    static time_point now() noexcept { return s_now; }
    static inline time_point s_now{};
};

TEST(until_time, follows_the_clock_of_its_deadline) {
    until_time const policy(set_clock::time_point(100ms));
    EXPECT_EQ(policy.remaining(), 100ms);
    set_clock::s_now = set_clock::time_point(60ms);
    EXPECT_EQ(policy.remaining(), 40ms);
    set_clock::s_now = set_clock::time_point(100ms);
    EXPECT_EQ(policy.remaining(), 0ns);
    set_clock::s_now = set_clock::time_point(50ms);
    EXPECT_EQ(policy.remaining(), 50ms) << "a clock may be set back";
    set_clock::s_now = {};
}

TEST(until_time, is_far_off_for_the_last_time_point_of_a_clock) {
    EXPECT_EQ(until_time(set_clock::time_point::max()).remaining(), k_longest_sleep);
}

// In the clock's unit, such a number of hours does not exist.
TEST(until_time, counts_in_any_unit) {
    using std::chrono::time_point;
    using years = std::chrono::duration<std::int64_t, std::ratio<86400 * 365>>;
    using seconds = std::chrono::duration<double>;
    double const infinite = std::numeric_limits<double>::infinity();
    EXPECT_EQ(until_time(time_point<set_clock, std::chrono::hours>::max()).remaining(), k_longest_sleep);
    EXPECT_EQ(until_time(time_point<std::chrono::steady_clock, std::chrono::milliseconds>::max()).remaining(),
              k_longest_sleep);
    EXPECT_EQ(until_time(time_point<std::chrono::system_clock, years>::max()).remaining(), k_longest_sleep);
    EXPECT_EQ(until_time(time_point<set_clock, seconds>(seconds(infinite))).remaining(), k_longest_sleep);
    EXPECT_EQ(until_time(time_point<std::chrono::steady_clock, std::chrono::hours>::min()).remaining(), 0ns);
    EXPECT_EQ(until_time(time_point<std::chrono::system_clock, years>::min()).remaining(), 0ns);
    EXPECT_EQ(until_time(time_point<set_clock, seconds>(seconds(-infinite))).remaining(), 0ns);
    EXPECT_EQ(until_time(time_point<set_clock, seconds>(seconds(std::nan("")))).remaining(), 0ns);
}

#if POOLED_HAS_STOP_TOKEN

TEST(until_stopped, stops_a_waiter_when_a_stop_is_requested) {
    std::stop_source source;
    pooled::detail::until_stopped const policy(source.get_token());
    pooled::detail::waiter w;
    EXPECT_EQ(policy.remaining(), k_longest_sleep);
    source.request_stop();
    EXPECT_FALSE(w.wait(policy));
}

#endif

}  // namespace
