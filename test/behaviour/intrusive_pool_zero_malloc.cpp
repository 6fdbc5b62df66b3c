// SPDX-License-Identifier: BSL-1.0
// A memorypool with free items calls no malloc, nor does one that grows: items are blocks of the default pool. Replaces malloc in
// its own program.

#include "pooled/compat/boost_intrusive_pool.hpp"

#include "support/malloc_counter.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <thread>

namespace {

struct packet : memorypool::boost_intrusive_pool_item {
    void init(int n) { number = n; }
    int number = 0;
    std::array<char, 100> bytes{};
};
using packets = memorypool::boost_intrusive_pool<packet>;

template <std::size_t Count>
void take_and_drop(packets& pool) {
    std::array<boost::intrusive_ptr<packet>, Count> out;
    for (int round = 0; round < 10; ++round) {
        for (auto& p : out) {
            p = pool.allocate_through_init(round);
            ASSERT_NE(p, nullptr);
        }
        for (auto& p : out)
            p.reset();
    }
}

TEST(memorypool_with_free_items, calls_no_malloc) {
    packets pool(1024, 64);
    test::expect_no_malloc([&] { take_and_drop<1000>(pool); });
    EXPECT_EQ(pool.enlarge_steps_done(), 1U);
}

TEST(memorypool_with_free_items, calls_no_malloc_on_a_thread_that_uses_it_first) {
    if (!test::k_counts_malloc) GTEST_SKIP() << "this build cannot count mallocs";
    packets pool(1024, 64);
    take_and_drop<100>(pool);
    test::malloc_calls calls = 0;
    std::thread([&] {
        auto const before = test::malloc_calls_so_far();
        take_and_drop<100>(pool);
        calls = test::malloc_calls_so_far() - before;
    }).join();
    EXPECT_EQ(calls, 0U);
}

TEST(memorypool_that_grows, calls_no_malloc) {
    packets pool(1, 1);
    test::expect_no_malloc([&] { take_and_drop<1000>(pool); });
    EXPECT_EQ(pool.enlarge_steps_done(), pool.capacity());
    EXPECT_GE(pool.capacity(), 1000U);
}

}  // namespace
