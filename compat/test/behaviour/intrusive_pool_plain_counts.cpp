// SPDX-License-Identifier: BSL-1.0
// memorypool with counts of one thread: handles count without locked instructions, and pools stay for any thread.

#define BOOST_INTRUSIVE_POOL_PLAIN_COUNTS 1

#include "pooled/compat/boost_intrusive_pool.hpp"

#include <boost/intrusive_ptr.hpp>
#include <gtest/gtest.h>

#include <cstddef>
#include <thread>
#include <vector>

namespace {

struct item : memorypool::boost_intrusive_pool_item {
    int number = 0;
    void init(int n) { number = n; }
};
using handle = boost::intrusive_ptr<item>;

TEST(memorypool_plain_counts, the_last_of_several_handles_returns_an_item) {
    memorypool::boost_intrusive_pool<item> pool(4, 4);
    std::thread([] {}).join();
    handle first = pool.allocate_through_init(7);
    std::vector<handle> others(9, first);
    EXPECT_EQ(first->use_count(), 10U);
    first.reset();
    EXPECT_EQ(pool.inuse_count(), 1U);
    EXPECT_EQ(others[8]->number, 7);
    others.clear();
    EXPECT_EQ(pool.inuse_count(), 0U);
    pool.check();
}

TEST(memorypool_plain_counts, a_handle_that_a_recycle_hook_keeps_keeps_its_item) {
    handle kept;
    memorypool::boost_intrusive_pool<item> pool(2, 0, 0, memorypool::RECYCLE_METHOD_CUSTOM_FUNCTION,
                                                [&kept](item& it) { kept = handle(&it); });
    pool.allocate().reset();
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(kept->use_count(), 1U);
    EXPECT_EQ(pool.inuse_count(), 1U);
    pool.set_recycle_method(memorypool::RECYCLE_METHOD_NONE);
    kept.reset();
    EXPECT_EQ(pool.inuse_count(), 0U);
}

TEST(memorypool_plain_counts, items_go_from_thread_to_thread_with_all_their_handles) {
    memorypool::boost_intrusive_pool<item> pool(64, 64);
    std::vector<handle> held;
    for (int i = 0; i < 1'000; ++i)
        held.push_back(pool.allocate_through_init(i));
    std::thread other([mine = std::move(held), &pool]() mutable {
        std::vector<handle> const copies = mine;
        mine.clear();
        EXPECT_GE(pool.inuse_count(), 1'000U);  // and perhaps the one of the loop below
    });
    for (int i = 0; i < 10'000; ++i)
        pool.allocate().reset();
    other.join();
    EXPECT_EQ(pool.inuse_count(), 0U);
}

}  // namespace
