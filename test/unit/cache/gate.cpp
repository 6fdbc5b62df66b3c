// SPDX-License-Identifier: BSL-1.0
// The gate: when its owner may enter, and that owner and stealing thread are never inside together.

#include "pooled/cache/gate.hpp"

#include "pooled/os/platform.hpp"

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace {

using namespace pooled::detail;

TEST(gate, lets_its_owner_in_when_open) {
    gate<> one;
    EXPECT_TRUE(one.is_idle());
    EXPECT_TRUE(one.enter());
    EXPECT_FALSE(one.is_idle());
    one.leave();
    EXPECT_TRUE(one.is_idle());
}

TEST(gate, refuses_its_owner_while_stopped_and_is_idle_then) {
    gate<> one;
    one.stop();
    EXPECT_FALSE(one.enter());
    EXPECT_TRUE(one.is_idle());
    EXPECT_FALSE(one.is_closed());
    one.resume();
    EXPECT_TRUE(one.enter());
    one.leave();
}

TEST(gate, stays_shut_once_closed) {
    gate<> one;
    one.stop();
    one.close();
    EXPECT_TRUE(one.is_closed());
    EXPECT_FALSE(one.enter());
    EXPECT_TRUE(one.is_idle());
}

TEST(gate, reports_whether_it_was_stopped_now_or_before) {
    gate<> one;
    EXPECT_TRUE(one.stop());
    EXPECT_FALSE(one.stop());
    one.resume();
    EXPECT_TRUE(one.stop());
}

TEST(gate, is_stopped_for_a_fork_unless_it_is_closed) {
    gate<> open;
    open.stop_for_fork();
    EXPECT_TRUE(open.is_stopped_for_fork());
    EXPECT_FALSE(open.enter());
    open.resume();
    EXPECT_TRUE(open.enter());
    open.leave();

    gate<> closed;
    closed.stop();
    closed.close();
    closed.stop_for_fork();
    EXPECT_FALSE(closed.is_stopped_for_fork());
    EXPECT_TRUE(closed.is_closed());
}

TEST(gate, needs_no_barrier_when_all_gates_were_stopped_before) {
    std::array<gate<>, 2> gates;
    int barriers = 0;
    int waits = 0;
    auto const stop_both = [&] {
        stop_all(
            [&](auto&& visit) {
                for (gate<>& each : gates)
                    visit(each);
            },
            [&] { ++barriers; }, [&](gate<>&) { ++waits; });
    };
    gates[0].stop();
    stop_both();
    EXPECT_EQ(barriers, 1);
    EXPECT_EQ(waits, 2);
    stop_both();
    EXPECT_EQ(barriers, 1);
    EXPECT_EQ(waits, 2);
}

TEST(gate, keeps_owner_and_stealing_thread_apart) {
    if (!platform::has_heavy_barrier()) GTEST_SKIP() << "this system has no membarrier";
    gate<> one;
    long guarded = 0;  // written by both without a lock: the gate is the lock
    long entered = 0;
    std::atomic<bool> done{false};
    std::thread owner([&] {
        while (!done.load(std::memory_order_relaxed)) {
            if (!one.enter()) continue;
            ++guarded;
            ++entered;
            one.leave();
        }
    });
    long const steals = test::k_sanitized ? 300 : 3000;
    for (long i = 0; i < steals; ++i) {
        one.stop();
        platform::heavy_barrier();
        while (!one.is_idle())
            platform::pause(0);
        long const before = guarded;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        guarded = before + 1;
        one.resume();
    }
    done = true;
    owner.join();
    EXPECT_EQ(guarded, entered + steals);
}

}  // namespace
