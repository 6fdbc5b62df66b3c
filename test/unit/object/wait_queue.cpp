// SPDX-License-Identifier: BSL-1.0
// Which waiters have an offer, and how long they may be overtaken. The order of waiters: object_pool_waiting.cpp and model/wait_queue.cpp.

#include "pooled/impl/object/wait_queue.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

using pooled::detail::platform_atomics;

// The time is what a test says.
struct by_hand : platform_atomics {
    static inline std::int64_t s_now = 1;
    static std::int64_t time() noexcept { return s_now; }
};
using wait_queue = pooled::detail::basic_wait_queue<by_hand>;
using waiter = wait_queue::waiter;

struct no_time {
    static int watch(waiter&) noexcept { return 0; }
    [[nodiscard]] static std::int64_t remaining() noexcept { return 0; }
};

TEST(wait_queue_test, overtakes_a_waiter_for_50_microseconds_at_most) {
    wait_queue queue;
    waiter w;
    queue.wait(w);
    by_hand::s_now = 1'000'000;
    static_cast<void>(queue.offer(1));
    by_hand::s_now += 49'999;
    EXPECT_TRUE(queue.admit(nullptr, 1));
    EXPECT_FALSE(queue.admit(&w, 0));
    static_cast<void>(queue.offer(1));
    by_hand::s_now += 1;
    EXPECT_FALSE(queue.admit(nullptr, 1)) << "counted from its first offer";
    EXPECT_TRUE(queue.admit(&w, 1));
    queue.leave(w);
    EXPECT_TRUE(queue.empty());
}

TEST(wait_queue_test, does_not_overtake_a_waiter_that_has_woken_in_vain) {
    wait_queue queue;
    waiter w;
    queue.wait(w);
    static_cast<void>(queue.offer(1));
    EXPECT_TRUE(queue.admit(nullptr, 1));
    queue.wait(w);
    EXPECT_FALSE(w.wait(no_time())) << "it waits again";
    static_cast<void>(queue.offer(1));
    EXPECT_FALSE(queue.admit(nullptr, 1));
    EXPECT_TRUE(queue.admit(&w, 1));
}

// What the first of them was to build, say, all of it, or what another thread destroyed.
TEST(wait_queue_test, withdraws_what_has_gone_from_those_after_it_too) {
    wait_queue queue;
    waiter w[3];
    for (waiter& one : w)
        queue.wait(one);
    for (int i = 0; i < 4; ++i)
        static_cast<void>(queue.offer(3));
    EXPECT_EQ(queue.size(), 0U);
    queue.wait(w[1]);
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_TRUE(queue.admit(&w[0], 1));
    EXPECT_FALSE(queue.admit(&w[1], 1) || queue.admit(&w[2], 1));
    queue.leave(w[0]);
    static_cast<void>(queue.offer(1));
    EXPECT_TRUE(queue.admit(&w[1], 1)) << "it kept its place";
    EXPECT_FALSE(queue.admit(&w[2], 1));
}

}  // namespace
