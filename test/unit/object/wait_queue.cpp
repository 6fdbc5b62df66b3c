// SPDX-License-Identifier: BSL-1.0
// Waiters get grants in the order in which they came, and a grant that races with a stop is not lost.

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
using pooled::detail::wait_queue;
using pooled::detail::waiter;

[[nodiscard]] for_duration<std::int64_t, std::ratio<3600>> an_hour() {
    return for_duration<std::int64_t, std::ratio<3600>>(std::chrono::hours(1));
}

TEST(wait_queue_test, grants_to_the_first_waiter) {
    wait_queue queue;
    std::array<waiter, 3> waiters;
    EXPECT_EQ(queue.grant_first({nullptr, 1}), nullptr);
    for (waiter& w : waiters)
        queue.push(w);
    EXPECT_EQ(queue.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(queue.grant_first({nullptr, i + 1}), &waiters[i]);
        EXPECT_TRUE(waiters[i].is_granted());
        EXPECT_EQ(waiters[i].granted().to_build, i + 1);
    }
    EXPECT_TRUE(queue.empty());
}

TEST(wait_queue_test, forgets_a_waiter_that_leaves_wherever_it_stands) {
    for (std::size_t leaves = 0; leaves < 3; ++leaves) {
        wait_queue queue;
        std::array<waiter, 3> waiters;
        for (waiter& w : waiters)
            queue.push(w);
        queue.remove(waiters[leaves]);
        EXPECT_EQ(queue.size(), 2U);
        for (std::size_t i = 0; i < 3; ++i) {
            if (i == leaves) continue;
            EXPECT_EQ(queue.grant_first({nullptr, 1}), &waiters[i]);
        }
        EXPECT_TRUE(queue.empty());
    }
}

TEST(wait_queue_test, takes_a_waiter_back_in_at_the_end) {
    wait_queue queue;
    waiter first;
    waiter second;
    queue.push(first);
    queue.push(second);
    queue.remove(first);
    queue.push(first);
    EXPECT_EQ(queue.grant_first({nullptr, 1}), &second);
    EXPECT_EQ(queue.grant_first({nullptr, 1}), &first);
}

TEST(wait_queue_test, is_empty_after_clear) {
    wait_queue queue;
    waiter w;
    queue.push(w);
    queue.clear();
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.size(), 0U);
    EXPECT_EQ(queue.grant_first({nullptr, 1}), nullptr);
}

TEST(waiter_test, sleeps_until_it_is_granted) {
    waiter w;
    std::thread other([&] {
        w.set_grant({nullptr, 7});
        waiter::wake(&w);
    });
    w.wait(an_hour());
    other.join();
    EXPECT_TRUE(w.is_granted());
    EXPECT_EQ(w.granted().to_build, 7U);
}

TEST(waiter_test, sleeps_until_it_is_stopped) {
    waiter w;
    std::thread other([&] { w.stop(); });
    w.wait(an_hour());
    other.join();
    EXPECT_FALSE(w.is_granted());
}

TEST(waiter_test, takes_a_grant_after_a_stop_and_keeps_one_before_it) {
    waiter stopped;
    stopped.stop();
    stopped.set_grant({nullptr, 1});
    EXPECT_TRUE(stopped.is_granted());
    stopped.stop();
    EXPECT_TRUE(stopped.is_granted());
}

TEST(waiter_test, does_not_sleep_past_its_deadline) {
    waiter w;
    w.wait(for_duration(1ms));
    EXPECT_FALSE(w.is_granted());
}

TEST(waiter_test, need_not_exist_to_be_woken) { waiter::wake(nullptr); }

}  // namespace
