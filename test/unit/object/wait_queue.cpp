// SPDX-License-Identifier: BSL-1.0
// Waiters get grants in the order in which they came, also when a thread overtakes, and a grant that races with a stop is not lost.

#include "pooled/object/wait_queue.hpp"

#include "pooled/object/deadline.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ratio>
#include <thread>

using namespace std::chrono_literals;

namespace {

using pooled::detail::for_duration;
using pooled::detail::grant;
using pooled::detail::platform_atomics;

// The time is what a test says.
struct by_hand : platform_atomics {
    static inline std::int64_t s_now = 1;
    static std::int64_t time() noexcept { return s_now; }
};
using wait_queue = pooled::detail::basic_wait_queue<by_hand>;
using waiter = wait_queue::waiter;

struct lasting {
    for_duration<std::chrono::milliseconds::rep, std::milli> all;
    static int watch(waiter&) noexcept { return 0; }
    [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept { return all.remaining(); }
};
[[nodiscard]] lasting no_time() { return {for_duration(std::chrono::milliseconds(0))}; }
[[nodiscard]] lasting a_millisecond() { return {for_duration(std::chrono::milliseconds(1))}; }
[[nodiscard]] lasting an_hour() { return {for_duration(std::chrono::milliseconds(3'600'000))}; }

[[nodiscard]] std::size_t number_of(grant g) { return g.to_build; }
[[nodiscard]] waiter* release(wait_queue& queue, std::size_t number) {
    waiter* to_wake = nullptr;
    EXPECT_TRUE(queue.grant_first({nullptr, number}, to_wake));
    return to_wake;
}

TEST(wait_queue_test, grants_to_the_first_waiter_without_a_grant) {
    wait_queue queue;
    std::array<waiter, 3> waiters;
    waiter* to_wake = nullptr;
    EXPECT_FALSE(queue.grant_first({nullptr, 1}, to_wake));
    for (waiter& w : waiters)
        queue.push(w);
    EXPECT_EQ(queue.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i)
        static_cast<void>(release(queue, i + 1));
    EXPECT_TRUE(queue.empty());
    EXPECT_FALSE(queue.grant_first({nullptr, 4}, to_wake));
    for (std::size_t i : {1U, 0U, 2U}) {
        EXPECT_TRUE(queue.settle(waiters[i], false));
        EXPECT_EQ(number_of(waiters[i].granted()), i + 1);
    }
}

TEST(wait_queue_test, forgets_a_waiter_that_leaves_wherever_it_stands) {
    for (std::size_t leaves = 0; leaves < 3; ++leaves) {
        wait_queue queue;
        std::array<waiter, 3> waiters;
        for (waiter& w : waiters)
            queue.push(w);
        EXPECT_TRUE(queue.settle(waiters[leaves], true));
        EXPECT_FALSE(waiters[leaves].granted());
        EXPECT_EQ(queue.size(), 2U);
        for (std::size_t i = 0; i < 3; ++i) {
            if (i == leaves) continue;
            static_cast<void>(release(queue, i + 1));
            EXPECT_TRUE(queue.settle(waiters[i], false));
            EXPECT_EQ(number_of(waiters[i].granted()), i + 1);
        }
        EXPECT_TRUE(queue.empty());
    }
}

TEST(wait_queue_test, keeps_the_grant_of_a_waiter_that_would_have_given_up) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    static_cast<void>(release(queue, 7));
    EXPECT_TRUE(queue.settle(w, true));
    EXPECT_EQ(number_of(w.granted()), 7U);
}

TEST(wait_queue_test, lets_a_thread_overtake_the_last_waiter_that_has_a_grant) {
    wait_queue queue;
    std::array<waiter, 3> waiters;
    EXPECT_FALSE(queue.take_back());
    for (waiter& w : waiters)
        queue.push(w);
    EXPECT_FALSE(queue.take_back()) << "none is granted";
    static_cast<void>(release(queue, 1));
    static_cast<void>(release(queue, 2));
    EXPECT_EQ(number_of(queue.take_back()), 2U);
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_FALSE(queue.settle(waiters[1], false)) << "it is to wait again";
    EXPECT_EQ(number_of(queue.take_back()), 1U);
    EXPECT_FALSE(queue.take_back());
    for (std::size_t i = 0; i < 3; ++i) {
        static_cast<void>(release(queue, 5 + i));
        EXPECT_TRUE(queue.settle(waiters[i], false)) << "it kept its place";
        EXPECT_EQ(number_of(waiters[i].granted()), 5 + i);
    }
}

TEST(wait_queue_test, takes_a_grant_back_from_the_last_of_all_waiters) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    static_cast<void>(release(queue, 1));
    EXPECT_EQ(number_of(queue.take_back()), 1U);
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_TRUE(queue.settle(w, true));
    EXPECT_TRUE(queue.empty());
}

TEST(wait_queue_test, overtakes_a_waiter_for_50_microseconds_at_most) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    by_hand::s_now = 1'000'000;
    static_cast<void>(release(queue, 1));
    by_hand::s_now += 49'999;
    EXPECT_TRUE(queue.take_back());
    static_cast<void>(release(queue, 1));
    by_hand::s_now += 1;
    EXPECT_FALSE(queue.take_back()) << "counted from its first grant";
    EXPECT_TRUE(queue.settle(w, false));
}

TEST(wait_queue_test, does_not_overtake_a_waiter_that_has_woken_in_vain) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    static_cast<void>(release(queue, 1));
    EXPECT_TRUE(queue.take_back());
    EXPECT_FALSE(queue.settle(w, false));
    EXPECT_FALSE(w.wait(no_time())) << "it waits again";
    static_cast<void>(release(queue, 2));
    EXPECT_FALSE(queue.take_back());
    EXPECT_TRUE(queue.settle(w, false));
    EXPECT_EQ(number_of(w.granted()), 2U);
}

TEST(wait_queue_test, wakes_only_a_waiter_that_sleeps) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    EXPECT_EQ(release(queue, 1), nullptr) << "it has not begun to sleep";
    EXPECT_TRUE(queue.take_back());
    EXPECT_EQ(release(queue, 1), nullptr) << "it was woken, and has not looked yet";
    EXPECT_TRUE(queue.settle(w, false));

    waiter sleeping;
    EXPECT_FALSE(sleeping.wait(no_time()));
    queue.push(sleeping);
    EXPECT_EQ(release(queue, 1), &sleeping);
    EXPECT_TRUE(queue.settle(sleeping, false));
}

TEST(wait_queue_test, is_empty_after_clear) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    queue.clear();
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.size(), 0U);
    EXPECT_FALSE(queue.take_back());
}

TEST(waiter_test, sleeps_until_it_is_granted) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    std::thread other([&] { waiter::wake(release(queue, 7)); });
    EXPECT_TRUE(w.wait(an_hour()));
    other.join();
    EXPECT_TRUE(queue.settle(w, false));
    EXPECT_EQ(number_of(w.granted()), 7U);
}

TEST(waiter_test, sleeps_until_it_is_stopped) {
    waiter w;
    std::thread other([&] { w.stop(); });
    EXPECT_FALSE(w.wait(an_hour()));
    other.join();
    EXPECT_FALSE(w.wait(an_hour())) << "for good";
}

TEST(waiter_test, takes_a_grant_after_a_stop_and_keeps_one_before_it) {
    for (bool const stopped_first : {true, false}) {
        wait_queue queue;
        waiter w;
        queue.push(w);
        if (stopped_first) w.stop();
        static_cast<void>(release(queue, 1));
        if (!stopped_first) w.stop();
        EXPECT_FALSE(w.wait(an_hour()));
        EXPECT_TRUE(queue.settle(w, true));
        EXPECT_TRUE(w.granted());
    }
}

TEST(waiter_test, stays_stopped_when_its_grant_was_taken_back) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    static_cast<void>(release(queue, 1));
    w.stop();
    EXPECT_TRUE(queue.take_back());
    EXPECT_FALSE(queue.settle(w, false)) << "as if it had looked before the stop";
    EXPECT_FALSE(w.wait(an_hour()));
    EXPECT_TRUE(queue.settle(w, true));
}

TEST(waiter_test, does_not_sleep_past_its_deadline) {
    waiter w;
    EXPECT_FALSE(w.wait(a_millisecond()));
}

TEST(waiter_test, need_not_exist_to_be_woken) { waiter::wake(nullptr); }

}  // namespace
