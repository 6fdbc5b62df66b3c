// SPDX-License-Identifier: BSL-1.0

// What each recycle pool promises beyond recycle.cpp. shared_pool: weak pointers, and values that derive from
// enable_shared_from_this.

#include "pooled/compat/recycle.hpp"

#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

class recycle_shared_pool : public testing::Test {
protected:
    test::life_log log;
    test::life_log::scope default_constructed{log};
    ~recycle_shared_pool() override { EXPECT_EQ(log.alive(), 0) << "an object was lost"; }
};

struct shares_itself : std::enable_shared_from_this<shares_itself> {
    test::counted<> life;
};

TEST_F(recycle_shared_pool, allocates_a_plain_shared_ptr) {
    recycle::shared_pool<int> pool;
    static_assert(std::is_same_v<decltype(pool.allocate()), std::shared_ptr<int>>);
    EXPECT_EQ(pool.allocate().use_count(), 1);
}

TEST_F(recycle_shared_pool, recycle_function_converts_from_and_to_one_that_takes_the_pointer_by_value) {
    using by_value = std::function<void(std::shared_ptr<int>)>;
    using pool_type = recycle::shared_pool<int>;
    by_value const counts = [](std::shared_ptr<int> value) { ++*value; };
    pool_type::recycle_function const function = counts;
    pool_type pool([] { return std::make_shared<int>(1); }, function);
    pool.allocate().reset();
    EXPECT_EQ(*pool.allocate(), 2);

    by_value const back = function;
    back(std::make_shared<int>(1));
    pool_type other([] { return std::make_shared<int>(1); }, back);
    other.allocate().reset();
    EXPECT_EQ(*other.allocate(), 2);

    EXPECT_FALSE(pool_type::recycle_function(by_value()));
    EXPECT_FALSE(by_value(pool_type::recycle_function()));
    EXPECT_FALSE(pool_type::recycle_function(nullptr));
    pool_type::recycle_function empty;
    pool_type::recycle_function const copy(empty);
    EXPECT_FALSE(copy);
}

TEST_F(recycle_shared_pool, an_object_returns_with_its_last_copy) {
    recycle::shared_pool<test::counted<>> pool;
    auto first = pool.allocate();
    std::shared_ptr<void const> second = first;
    first.reset();
    EXPECT_EQ(pool.unused_resources(), 0U);
    second.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TEST_F(recycle_shared_pool, a_weak_pointer_never_sees_the_next_user) {
    recycle::shared_pool<test::counted<>> pool;
    auto first = pool.allocate();
    auto const* const address = first.get();
    std::weak_ptr<test::counted<>> const weak = first;
    first.reset();
    EXPECT_TRUE(weak.expired());
    auto const second = pool.allocate();
    EXPECT_EQ(second.get(), address);
    EXPECT_EQ(weak.lock(), nullptr);
}

TEST_F(recycle_shared_pool, a_weak_pointer_keeps_neither_object_nor_pool_alive) {
    auto const captured = std::make_shared<int>(0);
    std::unique_ptr<recycle::shared_pool<test::counted<>>> pool;
    pool = std::make_unique<recycle::shared_pool<test::counted<>>>(
        [this, captured] { return std::make_shared<test::counted<>>(log); });
    auto late = pool->allocate();
    auto early = pool->allocate();
    std::weak_ptr<void> const weak_early = early;
    std::weak_ptr<void> const weak_late = late;
    early.reset();
    pool->free_unused();
    EXPECT_EQ(log.alive(), 1);
    pool.reset();
    EXPECT_EQ(captured.use_count(), 1);
    late.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(recycle_shared_pool, an_object_is_destroyed_as_its_allocate_function_says) {
    int destroyed = 0;
    std::array<int, 2> place{};
    std::size_t next = 0;
    {
        recycle::shared_pool<int> pool(
            [&] { return std::shared_ptr<int>(&place[next++], [&](int*) { ++destroyed; }); });
        auto const first = pool.allocate();
        EXPECT_EQ(first.get(), &place[0]);
        static_cast<void>(pool.allocate());
        EXPECT_EQ(destroyed, 0);
    }
    EXPECT_EQ(destroyed, 2);
}

TEST_F(recycle_shared_pool, recycles_objects_that_somebody_else_owns_too) {
    auto const everywhere = std::make_shared<test::counted<>>();
    recycle::shared_pool<test::counted<>> pool([&] { return everywhere; });
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 1U);
    EXPECT_EQ(pool.allocate().get(), everywhere.get());
}

TEST_F(recycle_shared_pool, makes_objects_of_derived_and_of_const_types) {
    struct base {
        virtual ~base() = default;
        virtual int number() const { return 1; }
    };
    struct derived : base {
        int number() const override { return 2; }
    };
    recycle::shared_pool<base> polymorphic([] { return std::make_shared<derived>(); });
    EXPECT_EQ(polymorphic.allocate()->number(), 2);
    recycle::shared_pool<int const> constant([] { return std::make_shared<int const>(3); });
    EXPECT_EQ(*constant.allocate(), 3);
    EXPECT_EQ(constant.unused_resources(), 1U);
}

// enable_shared_from_this.

TEST_F(recycle_shared_pool, shared_from_this_joins_the_handle) {
    recycle::shared_pool<shares_itself> pool;
    auto handle = pool.allocate();
    auto self = handle->shared_from_this();
    EXPECT_EQ(handle.use_count(), 2);
    EXPECT_FALSE(handle.owner_before(self) || self.owner_before(handle));
    handle.reset();
    EXPECT_EQ(pool.unused_resources(), 0U) << "somebody still uses the object";
    self.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TEST_F(recycle_shared_pool, shared_from_this_joins_the_handle_in_every_use_of_an_object) {
    recycle::shared_pool<shares_itself> pool;
    for (int use = 0; use < 3; ++use) {
        auto const handle = pool.allocate();
        EXPECT_EQ(handle->shared_from_this().use_count(), 2);
        EXPECT_EQ(handle.use_count(), 1);
    }
    EXPECT_EQ(log.constructed(), 1);
}

TEST_F(recycle_shared_pool, weak_from_this_of_one_use_expires_with_it) {
    recycle::shared_pool<shares_itself> pool;
    auto handle = pool.allocate();
    auto const weak = handle->weak_from_this();
    handle.reset();
    EXPECT_TRUE(weak.expired());
    handle = pool.allocate();
    EXPECT_EQ(weak.lock(), nullptr);
}

TEST_F(recycle_shared_pool, a_recycle_function_may_call_shared_from_this) {
    std::weak_ptr<shares_itself> seen;
    recycle::shared_pool<shares_itself> pool([] { return std::make_shared<shares_itself>(); },
                                             [&](std::shared_ptr<shares_itself> value) {
                                                 seen = value;
                                                 EXPECT_EQ(value->shared_from_this(), value);
                                             });
    static_cast<void>(pool.allocate());
    EXPECT_FALSE(seen.expired()) << "the pool's own pointer keeps an idle object";
    pool.free_unused();
    EXPECT_TRUE(seen.expired());
}

TEST_F(recycle_shared_pool, objects_that_share_themselves_are_destroyed_after_their_pool) {
    auto pool = std::make_unique<recycle::shared_pool<shares_itself>>();
    auto handle = pool->allocate();
    pool.reset();
    auto self = handle->shared_from_this();
    handle.reset();
    EXPECT_EQ(log.alive(), 1);
    self.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(recycle_shared_pool, knows_enable_shared_from_this_in_a_base_and_through_const) {
    struct derived : shares_itself {
        int more = 0;
    };
    recycle::shared_pool<derived> pool;
    auto const handle = pool.allocate();
    EXPECT_EQ(handle->shared_from_this().use_count(), 2);

    recycle::shared_pool<shares_itself const> constant(
        [] { return std::make_shared<shares_itself const>(); });
    auto const looked_at = constant.allocate();
    EXPECT_EQ(looked_at->shared_from_this().use_count(), 2);
}

struct one : std::enable_shared_from_this<one> {};
struct other : std::enable_shared_from_this<other> {};
struct ambiguous : one, other {};
struct hidden : private std::enable_shared_from_this<hidden> {};

TEST_F(recycle_shared_pool, does_not_set_a_weak_ptr_that_shared_ptr_does_not_set) {
    static_assert(pooled::detail::shares_from_this<one>);
    static_assert(!pooled::detail::shares_from_this<ambiguous>);
    static_assert(!pooled::detail::shares_from_this<hidden>);
    static_assert(!pooled::detail::shares_from_this<int>);
    recycle::shared_pool<ambiguous> both;
    EXPECT_EQ(both.allocate()->one::weak_from_this().lock(), nullptr);
    recycle::shared_pool<hidden> none;
    EXPECT_NE(none.allocate(), nullptr);
}

// What unique_pool promises beyond recycle.cpp: its pool_ptr.

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
