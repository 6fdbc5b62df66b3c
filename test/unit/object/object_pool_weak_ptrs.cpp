// SPDX-License-Identifier: BSL-1.0
// weak_ptrs and enable_shared_from_this: an object is idle only when nothing refers to it or its control block.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace {

template <class Kind>
class watched : public testing::Test {};
TYPED_TEST_SUITE(watched, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(watched, object_is_not_acquired_again_before_its_last_weak_ptr_is_gone) {
    typename TypeParam::template pool<int> pool({.max_objects = 2});
    test::settle(pool);
    auto a = pool.acquire();
    int const* const address = a.get();
    std::weak_ptr<int> first = a;
    std::weak_ptr<int> second = first;
    a.reset();
    EXPECT_TRUE(first.expired());
    EXPECT_EQ(pool.in_use(), 1U);
    {
        auto const b = pool.acquire();
        EXPECT_NE(b.get(), address);
        EXPECT_FALSE(pool.try_acquire());
    }
    first.reset();
    EXPECT_EQ(pool.in_use(), 1U);
    second.reset();
    EXPECT_EQ(pool.in_use(), 0U);
    EXPECT_EQ(pool.acquire().get(), address);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(watched, object_is_never_seen_by_a_weak_ptr_of_an_earlier_use) {
    typename TypeParam::template pool<int> pool;
    std::vector<std::weak_ptr<int>> watchers;
    for (int i = 0; i < 100; ++i)
        watchers.emplace_back(pool.acquire());
    auto const now = pool.acquire();
    for (auto const& w : watchers) {
        EXPECT_TRUE(w.expired());
        EXPECT_EQ(w.lock(), nullptr);
        EXPECT_TRUE(w.owner_before(now) || now.owner_before(w)) << "an earlier use is another owner";
    }
}

struct shares_itself : std::enable_shared_from_this<shares_itself> {
    int uses = 0;
};

TYPED_TEST(watched, object_by_itself_is_recycled_without_growth) {
    typename TypeParam::template pool<shares_itself> pool({.max_objects = 1});
    for (int i = 1; i <= test::k_settling; ++i) {
        auto const a = pool.acquire();
        EXPECT_EQ(++a->uses, i);
        EXPECT_EQ(a->shared_from_this(), a);
        EXPECT_EQ(a.use_count(), 1);
    }
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.idle(), 1U);
}

TYPED_TEST(watched, object_by_itself_knows_its_owner_only_while_there_is_one) {
    typename TypeParam::template pool<shares_itself> pool;
    shares_itself* const object = pool.acquire().get();
    EXPECT_TRUE(object->weak_from_this().expired());
    auto const unique = pool.acquire_unique();
    EXPECT_EQ(unique.get(), object);
    EXPECT_THROW(static_cast<void>(unique->shared_from_this()), std::bad_weak_ptr);
}

TYPED_TEST(watched, object_by_itself_may_be_owned_in_turns_by_unique_and_shared_pointers) {
    typename TypeParam::template pool<shares_itself> pool({.max_objects = 1});
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(pool.acquire()->shared_from_this());
        EXPECT_TRUE(pool.acquire_unique());
        std::shared_ptr<shares_itself> const converted = pool.acquire_unique();
        EXPECT_EQ(converted->shared_from_this(), converted);
    }
    EXPECT_EQ(pool.idle(), 1U);
}

TYPED_TEST(watched, object_by_itself_and_by_others_is_idle_after_the_others) {
    typename TypeParam::template pool<shares_itself> pool({.max_objects = 1});
    std::weak_ptr<shares_itself> watcher = pool.acquire()->weak_from_this();
    EXPECT_FALSE(pool.try_acquire());
    watcher.reset();
    EXPECT_TRUE(pool.try_acquire());
}

struct base : std::enable_shared_from_this<base> {
    virtual ~base() = default;
    int padding = 0;
};
struct first_base {
    virtual ~first_base() = default;
    int number = 0;
};
struct derived : first_base, base {};
struct of_const : std::enable_shared_from_this<of_const const> {};

TYPED_TEST(watched, object_by_a_base_of_itself_is_recycled_too) {
    typename TypeParam::template pool<derived> pool({.max_objects = 1});
    typename TypeParam::template pool<of_const> constant({.max_objects = 1});
    for (int i = 0; i < 100; ++i) {
        auto const a = pool.acquire();
        EXPECT_EQ(a->shared_from_this(), a);
        auto const b = constant.acquire();
        EXPECT_EQ(b->shared_from_this(), b);
    }
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(constant.idle(), 1U);
}

// std::shared_ptr finds none in either, so there is nothing to forget.
struct secretive : private std::enable_shared_from_this<secretive> {};
struct another_base : std::enable_shared_from_this<another_base> {};
struct ambiguous : base, another_base {};

TYPED_TEST(watched, object_by_a_base_that_shared_ptr_does_not_see_is_recycled) {
    typename TypeParam::template pool<secretive> hidden({.max_objects = 1});
    typename TypeParam::template pool<ambiguous> twice({.max_objects = 1});
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(hidden.try_acquire());
        EXPECT_TRUE(twice.try_acquire());
    }
}

}  // namespace
