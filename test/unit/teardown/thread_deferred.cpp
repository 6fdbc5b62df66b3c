// SPDX-License-Identifier: BSL-1.0
// What a thread has deferred begins empty and outside its gate, and needs no constructor and no destructor of the thread.

#include "pooled/teardown/thread_deferred.hpp"

#include "pooled/os/fork_gate.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>

namespace {

using namespace pooled::detail;

static_assert(std::is_trivially_destructible_v<thread_deferrals>, "it works to the very end of the thread");

TEST(thread_deferred, begins_empty_with_an_open_gate) {
    thread_deferred mine;
    EXPECT_EQ(mine.batch, nullptr);
    EXPECT_EQ(mine.size, 0U);
    EXPECT_EQ(mine.in_destruction, 0U);
    EXPECT_FALSE(mine.is_blocked);
    EXPECT_FALSE(mine.gate.is_closed());
    ASSERT_TRUE(mine.gate.enter());
    mine.gate.leave();
}

// The owner may take a lock inside, which a fork would keep from it, and a child needs complete batches.
TEST(deferred_pass, keeps_forks_out) {
    thread_deferred mine;
    {
        deferred_pass const pass(mine);
        EXPECT_TRUE(pass);
        EXPECT_FALSE(mine.gate.is_idle());
        EXPECT_EQ(t_fork_gate.locks, 1U);
    }
    EXPECT_EQ(t_fork_gate.locks, 0U);
    EXPECT_TRUE(mine.gate.is_idle());
}

TEST(deferred_pass, lets_nobody_in_once_the_pool_is_closed) {
    thread_deferred mine;
    mine.gate.close();
    EXPECT_FALSE(deferred_pass(mine));
    EXPECT_EQ(t_fork_gate.locks, 0U);
    EXPECT_TRUE(mine.gate.is_idle());
}

TEST(thread_deferred, is_listed_for_each_thread_alone) {
    thread_deferred mine;
    t_deferrals.owned = &mine;
    std::thread([] {
        EXPECT_EQ(t_deferrals.owned, nullptr);
        EXPECT_FALSE(t_deferrals.has_ended);
    }).join();
    t_deferrals.owned = nullptr;
}

}  // namespace
