// SPDX-License-Identifier: BSL-1.0

// Plan: the process forks again and again while threads acquire, release, wait, build and end. In each child the pool must
// be usable: all that was idle can be acquired, no thread waits, and the pool stays valid. Not under ThreadSanitizer, which
// does not support threads in a child of a process with threads.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace stress;

TEST(object_pool_fork_stress, a_child_can_use_the_pool) {
    if (POOLED_STRESS_TSAN)
        GTEST_SKIP() << "ThreadSanitizer does not support a fork of a process with threads";
    constexpr std::size_t k_objects = 8;
    pooled::object_pool<int> scarce({.max_objects = k_objects});
    pooled::object_pool<int> plenty;
    auto const use = [&](std::size_t seed) {
        return [&, seed] {
            std::vector<std::shared_ptr<int>> some;
            for (int i = 0; i < 4; ++i) {
                some.push_back(scarce.acquire_for(std::chrono::microseconds(50 * seed)));
                some.push_back(plenty.acquire());
            }
        };
    };
    repeatedly const a(use(1));
    repeatedly const b(use(2));
    repeatedly const c(use(3));
    repeatedly const short_lived([&] { std::thread(use(4)).join(); });

    for (std::size_t i = 0; i < scaled(300, 60); ++i) {
        auto const use_in_child = [&] {
            if (scarce.waiting() != 0) return 1;
            // What other threads of the parent held is lost to the child; nothing else.
            std::size_t const idle = scarce.idle();
            std::vector<std::shared_ptr<int>> all;
            while (auto p = scarce.try_acquire())
                all.push_back(std::move(p));
            if (all.size() < idle) return 2;
            all.clear();
            for (int n = 0; n < 2000; ++n)
                all.push_back(plenty.acquire());
            std::thread([&] { all.clear(); }).join();
            return test::is_valid(scarce) && test::is_valid(plenty) ? 0 : 3;
        };
        ASSERT_EQ(test::in_child(use_in_child), 0) << "round " << i;
    }
    EXPECT_TRUE(test::is_valid(scarce));
}

}  // namespace
