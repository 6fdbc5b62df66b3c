// SPDX-License-Identifier: BSL-1.0
// How long a waiter may be overtaken. The order of waiters and their grants: object_pool_waiting.cpp and model/wait_queue.cpp.

#include "pooled/impl/object/wait_queue.hpp"

#include "pooled/impl/object/deadline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

using namespace std::chrono_literals;

namespace {

using pooled::detail::deadline;
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
    deadline<std::chrono::milliseconds> all;
    static int watch(waiter&) noexcept { return 0; }
    [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept { return all.remaining(); }
};
[[nodiscard]] lasting no_time() { return {deadline<std::chrono::milliseconds>(0ms)}; }
[[nodiscard]] std::size_t number_of(grant g) { return g.to_build; }
[[nodiscard]] waiter* release(wait_queue& queue, std::size_t number) {
    waiter* to_wake = nullptr;
    EXPECT_TRUE(queue.grant_first({nullptr, number}, to_wake));
    return to_wake;
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

}  // namespace
