// SPDX-License-Identifier: BSL-1.0
// pool.take_pending(): the deferred objects of an incremental pool, as an object.

#include "pooled/pooled.hpp"

#include "support/lives.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <latch>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

namespace {

constexpr pooled::pool_options k_incremental{.teardown = pooled::teardown::incremental};

struct node : test::counted<> {
    using counted::counted;
    std::shared_ptr<node> next;
};

template <class Pool>
class taken_pending : public testing::Test {
protected:
    ~taken_pending() override { EXPECT_EQ(log.alive(), 0); }

    void drop_list(Pool& pool, int count) {
        std::shared_ptr<node> head;
        for (int i = 0; i < count; ++i) {
            auto front = pool.template make_shared<node>(log);
            front->next = std::move(head);
            head = std::move(front);
        }
    }
    test::life_log log;
};
TYPED_TEST_SUITE(taken_pending, test::pool_kinds, test::pool_kind_names);

static_assert(std::is_nothrow_move_constructible_v<pooled::pending> &&
              std::is_nothrow_move_assignable_v<pooled::pending> &&
              !std::is_copy_constructible_v<pooled::pending> && !std::is_copy_assignable_v<pooled::pending>);

TYPED_TEST(taken_pending, is_empty_when_nothing_waits) {
    TypeParam incremental(k_incremental);
    TypeParam immediate;
    EXPECT_TRUE(pooled::pending().empty());
    EXPECT_TRUE(incremental.take_pending().empty());
    EXPECT_TRUE(immediate.take_pending().empty());
    EXPECT_EQ(pooled::pending().drain(), 0U);
}

TYPED_TEST(taken_pending, is_no_more_the_pools) {
    TypeParam pool(k_incremental);
    this->drop_list(pool, 100);
    pooled::pending work = pool.take_pending();
    EXPECT_FALSE(work.empty());
    EXPECT_EQ(pool.drain(), 0U);
    EXPECT_TRUE(pool.take_pending().empty());
    for (int i = 0; i < 100; ++i)
        pool.deallocate(pool.allocate(24), 24);
    EXPECT_EQ(this->log.alive(), 100);
    EXPECT_EQ(work.drain(30), 30U);
    EXPECT_EQ(this->log.alive(), 70);
    EXPECT_FALSE(work.empty());
    EXPECT_EQ(work.drain(), 70U);
    EXPECT_TRUE(work.empty());
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(taken_pending, destroys_the_rest_when_it_goes) {
    TypeParam pool(k_incremental);
    this->drop_list(pool, 100);
    {
        pooled::pending const work = pool.take_pending();
        EXPECT_EQ(this->log.alive(), 100);
    }
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(taken_pending, moves) {
    TypeParam pool(k_incremental);
    this->drop_list(pool, 10);
    pooled::pending first = pool.take_pending();
    pooled::pending second = std::move(first);
    EXPECT_TRUE(first.empty());  // NOLINT: what a moved-from one is, is promised
    this->drop_list(pool, 5);
    first = pool.take_pending();
    EXPECT_EQ(this->log.alive(), 15);
    first = std::move(second);
    EXPECT_EQ(this->log.alive(), 10);  // what it held is destroyed
    std::ranges::swap(first, second);
    EXPECT_TRUE(first.empty());
    EXPECT_EQ(second.drain(), 10U);
}

TYPED_TEST(taken_pending, outlives_its_pool) {
    auto pool = std::make_unique<TypeParam>(k_incremental);
    this->drop_list(*pool, 100);
    pooled::pending work = pool->take_pending();
    pool.reset();
    EXPECT_EQ(this->log.alive(), 100);
    EXPECT_EQ(work.drain(), 100U);
}

using pending_of_a_pool = taken_pending<pooled::pool>;

TEST_F(pending_of_a_pool, holds_what_every_thread_dropped_and_is_drained_on_another) {
    pooled::pool pool(k_incremental);
    std::latch dropped(1);
    std::latch taken(1);
    std::thread thread([&] {
        drop_list(pool, 100);
        dropped.count_down();
        taken.wait();
    });
    drop_list(pool, 50);
    dropped.wait();
    pooled::pending work = pool.take_pending();
    taken.count_down();
    thread.join();
    EXPECT_EQ(log.alive(), 150);
    std::thread([&] { EXPECT_EQ(work.drain(), 150U); }).join();
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

}  // namespace
