// SPDX-License-Identifier: BSL-1.0
// Recycled objects behind unique_ptr and rc_ptr: the same handle types as for other pools, with weak pointers and
// conversions.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using int_pool = pooled::object_pool<int>;
static_assert(std::same_as<decltype(std::declval<int_pool&>().acquire()), std::shared_ptr<int>>);
static_assert(std::same_as<decltype(std::declval<int_pool&>().acquire_unique()), pooled::unique_ptr<int>>);
static_assert(std::same_as<decltype(std::declval<int_pool&>().acquire_rc()), pooled::rc_ptr<int>>);
static_assert(std::same_as<decltype(std::declval<pooled::local_object_pool<int>&>().acquire_rc()),
                           pooled::local_rc_ptr<int>>);
static_assert(sizeof(pooled::unique_ptr<int>) == 8);

template <class Kind>
class handle : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(handle, test::object_pool_kinds, test::object_pool_kind_names);

struct shape {
    virtual ~shape() = default;
    int a = 1;
};
struct named {
    virtual ~named() = default;
    std::string name = "nobody";
};
struct circle : shape, named {
    int radius = 3;
};

TYPED_TEST(handle, unique_ptr_converts_to_a_base_and_recycles) {
    typename TypeParam::template pool<circle> pool;
    pooled::unique_ptr<named> second = pool.acquire_unique();
    second->name = "kept";
    second.reset();
    pooled::unique_ptr<shape> first = pool.acquire_unique();
    EXPECT_EQ(static_cast<circle&>(*first).name, "kept");
    first.reset();
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.idle(), 1U);
}

TYPED_TEST(handle, unique_ptr_turns_into_an_rc_ptr) {
    typename TypeParam::template pool<test::counted<>> pool;
    auto unique = pool.acquire_unique();
    test::counted<>* const where = unique.get();
    typename TypeParam::template pool<test::counted<>>::rc_pointer counted = std::move(unique);
    EXPECT_EQ(counted.get(), where);
    EXPECT_EQ(counted.use_count(), 1);
    auto const copy = counted;
    counted.reset();
    EXPECT_EQ(pool.in_use(), 1U);
}

TYPED_TEST(handle, of_each_kind_in_turn_shares_one_object) {
    typename TypeParam::template pool<test::counted<>> pool({.max_objects = 1});
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(pool.acquire());
        EXPECT_TRUE(pool.acquire_unique());
        auto const counted = pool.acquire_rc();
        typename std::remove_const_t<decltype(counted)>::weak_type const observer = counted;
        EXPECT_EQ(counted.use_count(), 1);
    }
    EXPECT_EQ(this->log.constructed(), 1);
    EXPECT_TRUE(test::is_valid(pool));
}

// shared_ptr and rc_ptr, of both kinds of pool.

template <class Kind>
class counted_handle : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(counted_handle, test::counted_kinds, test::counted_kind_names);

TYPED_TEST(counted_handle, recycles_its_object_when_the_last_owner_goes) {
    typename TestFixture::pool_type pool;
    auto a = TypeParam::acquire(pool);
    auto* const where = a.get();
    auto b = a;
    EXPECT_EQ(a.use_count(), 2);
    a.reset();
    EXPECT_EQ(pool.in_use(), 1U);
    b.reset();
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(TypeParam::acquire(pool).get(), where);
}

TYPED_TEST(counted_handle, keeps_its_object_from_the_next_user_while_weak_pointers_watch_it) {
    typename TestFixture::pool_type pool({.max_objects = 2});
    test::settle(pool);
    auto a = TypeParam::acquire(pool);
    auto const* const address = a.get();
    typename decltype(a)::weak_type first = a;
    typename decltype(a)::weak_type second = first;
    EXPECT_TRUE(first.lock());
    a.reset();
    EXPECT_TRUE(first.expired());
    EXPECT_EQ(pool.in_use(), 1U);
    {
        auto const b = TypeParam::acquire(pool);
        EXPECT_NE(b.get(), address);
        EXPECT_FALSE(TypeParam::try_acquire(pool));
    }
    first.reset();
    EXPECT_EQ(pool.in_use(), 1U);
    second.reset();
    EXPECT_EQ(pool.in_use(), 0U);
    EXPECT_EQ(TypeParam::acquire(pool).get(), address);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(counted_handle, and_weak_pointers_outlive_the_pool) {
    std::optional<typename TestFixture::pool_type> pool{std::in_place};
    test::settle(*pool);
    auto owner = TypeParam::acquire(*pool);
    typename decltype(owner)::weak_type observer = owner;
    auto watched = TypeParam::acquire(*pool);
    typename decltype(owner)::weak_type last = watched;
    auto unique = pool->acquire_unique();
    static_cast<void>(TypeParam::acquire(*pool));
    watched.reset();
    EXPECT_EQ(this->log.alive(), 4);
    pool.reset();
    EXPECT_EQ(this->log.alive(), 3) << "one was idle; one was released already, and is observed still";
    auto copy = owner;
    owner.reset();
    EXPECT_EQ(this->log.alive(), 3);
    copy.reset();
    EXPECT_EQ(this->log.alive(), 2) << "weak pointers do not delay the destruction";
    EXPECT_EQ(observer.lock(), nullptr);
    unique.reset();
    last.reset();
    EXPECT_EQ(this->log.alive(), 0);
    observer.reset();
}

struct throwing {
    bool* throws;
    void on_release(test::counted<>&) const {
        if (*throws) throw std::runtime_error("broken");
    }
};

struct aware : pooled::enable_rc_from_this<aware> {
    int n = 0;
};
struct asks_on_release {
    bool* got_one;
    void on_release(aware& object) const { *got_one = !object.weak_rc_from_this().expired(); }
};

TYPED_TEST(counted_handle, whose_on_release_throws_lets_another_be_built_only_after_the_last_weak_pointer) {
    bool throws = false;
    typename TypeParam::template pool<test::counted<>, throwing> pool({.max_objects = 1}, {&throws});
    auto owner = TypeParam::acquire(pool);
    typename decltype(owner)::weak_type observer = owner;
    throws = true;
    owner.reset();
    throws = false;
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_TRUE(observer.expired());
    EXPECT_FALSE(TypeParam::try_acquire(pool));
    observer.reset();
    EXPECT_TRUE(TypeParam::try_acquire(pool));
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(handle, rc_from_this_of_a_recycled_object_knows_its_owner_only_while_there_is_one) {
    bool got_one = false;
    typename TypeParam::template pool<aware, asks_on_release> pool({.max_objects = 1}, {&got_one});
    for (int i = 0; i < 100; ++i) {
        {
            auto const owner = pool.acquire_rc();
            if constexpr (std::is_same_v<TypeParam, test::shared_kind>)
                EXPECT_EQ(owner->rc_from_this(), owner);
            else
                EXPECT_EQ(owner->local_rc_from_this(), owner);
        }
        EXPECT_FALSE(got_one);
        auto const shared = pool.acquire();
        EXPECT_THROW(static_cast<void>(shared->rc_from_this()), std::bad_weak_ptr);
    }
    EXPECT_EQ(pool.idle(), 1U);
}

TEST(rc_handle, of_an_object_pool_goes_from_thread_to_thread) {
    pooled::object_pool<int> pool({.max_objects = 50});
    std::vector<pooled::rc_ptr<int>> all;
    while (auto p = pool.try_acquire_rc())
        all.push_back(std::move(p));
    auto copies = all;
    std::thread other([&] { copies.clear(); });
    all.clear();
    other.join();
    EXPECT_EQ(pool.idle(), 50U);
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
