// SPDX-License-Identifier: BSL-1.0
// When a pool looks for memory that it can return.

#include "pooled/impl/pool/memory.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace {

using pooled::detail::release_clock;
using std::chrono::milliseconds;

bool is_due_within(release_clock& clock, std::chrono::seconds deadline) {
    auto const end = std::chrono::steady_clock::now() + deadline;
    while (std::chrono::steady_clock::now() < end) {
        if (clock.is_due(0)) return true;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
}

TEST(release_clock, is_due_when_a_period_that_began_with_a_call_is_over) {
    release_clock clock(milliseconds(20));
    EXPECT_FALSE(clock.is_due(0));
    EXPECT_TRUE(is_due_within(clock, std::chrono::seconds(20)));
    EXPECT_FALSE(clock.is_due(0)) << "once in a period";
}

TEST(release_clock, reads_the_time_at_every_32nd_call) {
    release_clock clock(milliseconds(1));
    EXPECT_FALSE(clock.is_due(0));
    std::this_thread::sleep_for(milliseconds(30));
    for (std::uint32_t calls = 1; calls < 32; ++calls)
        EXPECT_FALSE(clock.is_due(calls));
    EXPECT_TRUE(clock.is_due(32));
}

TEST(release_clock, without_a_period_is_never_due) {
    for (milliseconds const period : {milliseconds(0), milliseconds(-5)}) {
        release_clock clock(period);
        EXPECT_FALSE(clock.is_due(0));
        std::this_thread::sleep_for(milliseconds(10));
        EXPECT_FALSE(clock.is_due(32));
    }
}

TEST(release_clock, with_a_period_of_more_nanoseconds_than_64_bits_hold_is_not_due) {
    for (milliseconds const period :
         {milliseconds::max(), milliseconds(18'446'744'073'710)}) {  // 2^64 ns and 0.4 ms
        release_clock clock(period);
        EXPECT_FALSE(clock.is_due(0));
        std::this_thread::sleep_for(milliseconds(10));
        EXPECT_FALSE(clock.is_due(32));
    }
}

}  // namespace
