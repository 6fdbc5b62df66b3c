// SPDX-License-Identifier: BSL-1.0
// The gate: who may be behind it, and that owner and raider never are together.

#include "pooled/cache/gate.hpp"

#include "pooled/os/platform.hpp"

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace {

using namespace pooled::detail;

TEST(gate, lets_its_owner_in_when_open) {
    gate<> door;
    EXPECT_TRUE(door.is_idle());
    EXPECT_TRUE(door.enter());
    EXPECT_FALSE(door.is_idle());
    door.leave();
    EXPECT_TRUE(door.is_idle());
}

TEST(gate, turns_its_owner_away_while_stopped_and_is_idle_then) {
    gate<> door;
    door.stop();
    EXPECT_FALSE(door.enter());
    EXPECT_TRUE(door.is_idle());
    EXPECT_FALSE(door.is_closed());
    door.resume();
    EXPECT_TRUE(door.enter());
    door.leave();
}

TEST(gate, stays_shut_once_closed) {
    gate<> door;
    door.stop();
    door.close();
    EXPECT_TRUE(door.is_closed());
    EXPECT_FALSE(door.enter());
    EXPECT_TRUE(door.is_idle());
}

TEST(gate, keeps_owner_and_raider_apart) {
    if (!platform::enable_heavy_barrier()) GTEST_SKIP() << "this system has no membarrier";
    gate<> door;
    long guarded = 0;  // written by both without a lock: the gate is the lock
    long entered = 0;
    std::atomic<bool> done{false};
    std::thread owner([&] {
        while (!done.load(std::memory_order_relaxed)) {
            if (!door.enter()) continue;
            ++guarded;
            ++entered;
            door.leave();
        }
    });
    long const raids = test::k_sanitized ? 300 : 3000;
    for (long i = 0; i < raids; ++i) {
        door.stop();
        platform::heavy_barrier();
        while (!door.is_idle())
            platform::pause(0);
        long const before = guarded;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        guarded = before + 1;
        door.resume();
    }
    done = true;
    owner.join();
    EXPECT_EQ(guarded, entered + raids);
}

}  // namespace
