// SPDX-License-Identifier: BSL-1.0

#include "pooled/to_shared.hpp"

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

namespace {

struct base {
    virtual ~base() = default;
};
struct other_base {
    int value = 7;
};
struct object : base, other_base {
    explicit object(bool& destroyed) : is_destroyed(destroyed) {}
    ~object() override { is_destroyed = true; }
    bool& is_destroyed;
};

TEST(to_shared, shares_the_object_with_the_pointers_that_counted_it_before) {
    bool is_destroyed = false;
    pooled::rc_ptr<object> counted = pooled::make_rc<object>(is_destroyed);
    std::shared_ptr<object> shared = pooled::to_shared(counted);
    EXPECT_EQ(shared.get(), counted.get());
    EXPECT_EQ(counted.use_count(), 2);
    counted.reset();
    EXPECT_FALSE(is_destroyed);
    std::weak_ptr<object> const observer = shared;
    shared.reset();
    EXPECT_TRUE(is_destroyed);
    EXPECT_TRUE(observer.expired());
}

TEST(to_shared, outlives_the_std_shared_ptr_if_an_rc_ptr_does) {
    bool is_destroyed = false;
    pooled::rc_ptr<object> counted = pooled::make_rc<object>(is_destroyed);
    pooled::to_shared(counted).reset();
    EXPECT_FALSE(is_destroyed);
    EXPECT_EQ(counted.use_count(), 1);
}

TEST(to_shared, takes_a_base_that_does_not_lie_at_the_start_and_void_and_const) {
    bool is_destroyed = false;
    pooled::rc_ptr<other_base const> counted = pooled::make_rc<object>(is_destroyed);
    std::shared_ptr<other_base const> shared = pooled::to_shared(std::move(counted));
    EXPECT_EQ(shared->value, 7);
    shared.reset();
    EXPECT_TRUE(is_destroyed);
}

TEST(to_shared, of_an_empty_pointer_is_empty_and_takes_no_block) {
    EXPECT_EQ(pooled::to_shared(pooled::rc_ptr<int>()), nullptr);
    EXPECT_EQ(pooled::to_shared(pooled::local_rc_ptr<int>()), nullptr);
}

TEST(to_shared, may_be_dropped_on_another_thread_and_after_the_pool) {
    bool is_destroyed = false;
    std::shared_ptr<object> shared;
    {
        pooled::pool pool;
        shared = pooled::to_shared(pool.make_rc<object>(is_destroyed));
        EXPECT_TRUE(pool.owns(shared.get()));
    }
    std::thread([shared = std::move(shared)] {}).join();
    EXPECT_TRUE(is_destroyed);
}

TEST(to_shared, of_a_local_rc_ptr_counts_with_it) {
    pooled::local_pool pool;
    pooled::local_rc_ptr<int> counted = pool.make_rc<int>(3);
    std::shared_ptr<int> const shared = pooled::to_shared(counted);
    EXPECT_EQ(counted.use_count(), 2);
    EXPECT_EQ(*shared, 3);
}

TEST(to_shared, takes_arrays) {
    pooled::rc_ptr<int[]> numbers = pooled::make_rc_for_overwrite<int[]>(2);
    numbers[1] = 4;
    std::shared_ptr<int[]> const shared = pooled::to_shared(std::move(numbers));
    EXPECT_EQ(shared[1], 4);
}

}  // namespace
