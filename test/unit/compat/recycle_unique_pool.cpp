// SPDX-License-Identifier: BSL-1.0
// What unique_pool promises beyond recycle.cpp: its pool_ptr.

#include "pooled/compat/recycle.hpp"

#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace {

using object = test::counted<>;
using pool_type = recycle::unique_pool<object>;
using pool_ptr = pool_type::pool_ptr;

class recycle_unique_pool : public testing::Test {
protected:
    test::life_log log;
    test::life_log::scope default_constructed{log};
    ~recycle_unique_pool() override { EXPECT_EQ(log.alive(), 0) << "an object was lost"; }
};

TEST_F(recycle_unique_pool, allocates_a_unique_ptr_with_a_deleter_of_its_own) {
    static_assert(std::is_same_v<decltype(std::declval<pool_type&>().allocate()), pool_ptr>);
    static_assert(std::is_same_v<pool_ptr, std::unique_ptr<object, pool_ptr::deleter_type>>);
    static_assert(std::is_same_v<pool_type::value_ptr, std::unique_ptr<object>>);
    static_assert(std::is_nothrow_move_constructible_v<pool_ptr> && !std::is_copy_constructible_v<pool_ptr>);
}

TEST_F(recycle_unique_pool, release_takes_the_object_out_of_the_pool_for_good) {
    pool_type pool;
    object* const mine = pool.allocate().release();
    EXPECT_EQ(pool.unused_resources(), 0U);
    EXPECT_EQ(log.alive(), 1);
    delete mine;
    EXPECT_EQ(log.alive(), 0);
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TEST_F(recycle_unique_pool, reset_recycles_the_old_object_and_later_the_new_one) {
    pool_type pool;
    pool_ptr pointer = pool.allocate();
    pointer.reset(new object);
    EXPECT_EQ(pool.unused_resources(), 1U);
    pointer.reset();
    EXPECT_EQ(pool.unused_resources(), 2U);
    EXPECT_EQ(log.alive(), 2);
}

TEST_F(recycle_unique_pool, a_pool_ptr_made_by_default_is_empty_and_takes_any_object) {
    pool_type pool;
    pool_ptr pointer;
    EXPECT_EQ(pointer, nullptr);
    pointer = pool.allocate();
    pointer.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TEST_F(recycle_unique_pool, a_pool_ptr_of_no_pool_deletes) {
    pool_ptr pointer;
    pointer.reset(new object);
    pointer.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(recycle_unique_pool, move_assignment_recycles_what_the_target_had) {
    pool_type pool;
    pool_type other;
    auto pointer = pool.allocate();
    pointer = other.allocate();
    EXPECT_EQ(pool.unused_resources(), 1U);
    pointer = nullptr;
    EXPECT_EQ(other.unused_resources(), 1U);
}

TEST_F(recycle_unique_pool, a_pool_ptr_converts_to_a_shared_ptr_that_recycles) {
    pool_type pool;
    std::shared_ptr<object> shared = pool.allocate();
    std::weak_ptr<object> const weak = shared;
    shared.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
    EXPECT_TRUE(weak.expired());
}

TEST_F(recycle_unique_pool, values_that_share_themselves_do_so_behind_a_shared_ptr) {
    struct conversing : std::enable_shared_from_this<conversing> {
        test::counted<> life;
    };
    recycle::unique_pool<conversing> pool;
    for (int use = 0; use < 3; ++use) {
        std::shared_ptr<conversing> shared = pool.allocate();
        auto self = shared->shared_from_this();
        shared.reset();
        EXPECT_EQ(pool.unused_resources(), 0U);
        self.reset();
        EXPECT_EQ(pool.unused_resources(), 1U);
    }
    EXPECT_THROW(static_cast<void>(pool.allocate()->shared_from_this()), std::bad_weak_ptr);
    EXPECT_EQ(log.constructed(), 1);
}

}  // namespace
