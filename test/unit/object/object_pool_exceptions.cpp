// SPDX-License-Identifier: BSL-1.0
// After an exception of a lifecycle the pool is as before, and no object is lost.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

struct refusal : std::runtime_error {
    refusal() : std::runtime_error("refused") {}
};

// Throws at acquire, at release, or both, as the test says.
struct may_throw {
    test::life_log* log;
    bool* refuses_acquire;
    bool* refuses_release;
    test::counted<>* create(void* where) const { return ::new (where) test::counted<>(*log); }
    void on_acquire(test::counted<>&) const {
        if (*refuses_acquire) throw refusal();
    }
    void on_release(test::counted<>&) const {
        if (*refuses_release) throw refusal();
    }
};

template <class Kind>
class exception : public testing::Test {
protected:
    using pool_type = typename Kind::template pool<test::counted<>, may_throw>;

    may_throw lifecycle() { return {&log, &refuses_acquire, &refuses_release}; }

    test::life_log log;
    bool refuses_acquire = false;
    bool refuses_release = false;
};
TYPED_TEST_SUITE(exception, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(exception, from_create_leaves_the_pool_as_it_was) {
    typename TestFixture::pool_type pool({.max_objects = 2}, this->lifecycle());
    auto const a = pool.acquire();
    this->log.throw_at(1);
    EXPECT_THROW(static_cast<void>(pool.acquire()), test::constructor_failed);
    this->log.throw_at(1);
    EXPECT_THROW(static_cast<void>(pool.try_acquire_unique()), test::constructor_failed);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.in_use(), 1U);
    EXPECT_EQ(pool.high_water(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_TRUE(pool.try_acquire()) << "it no longer counts under the bound";
    EXPECT_EQ(this->log.alive(), 2);
}

TYPED_TEST(exception, from_any_create_of_a_growth_undoes_all_of_it) {
    for (int n = 1; n <= 8; ++n) {
        typename TestFixture::pool_type pool({.growth = 8, .max_objects = 8}, this->lifecycle());
        this->log.throw_at(n);
        EXPECT_THROW(static_cast<void>(pool.acquire()), test::constructor_failed);
        EXPECT_EQ(pool.capacity(), 0U);
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_TRUE(test::is_valid(pool));
        this->log.throw_at(0);
        auto const a = pool.acquire();
        EXPECT_EQ(pool.capacity(), 8U);
    }
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(exception, from_create_keeps_no_memory) {
    std::size_t const before = test::pools_alive();
    {
        typename TestFixture::pool_type pool({}, this->lifecycle());
        this->log.throw_at(1);
        EXPECT_THROW(static_cast<void>(pool.acquire()), test::constructor_failed);
        EXPECT_EQ(test::pools_alive(), before + 1);
    }
    EXPECT_EQ(test::pools_alive(), before) << "a block was not given back";
}

TYPED_TEST(exception, from_any_initial_object_leaves_nothing) {
    std::size_t const before = test::pools_alive();
    for (int n = 1; n <= 8; ++n) {
        this->log.throw_at(n);
        EXPECT_THROW(typename TestFixture::pool_type({.initial_objects = 8}, this->lifecycle()),
                     test::constructor_failed);
        EXPECT_EQ(this->log.alive(), 0);
    }
    EXPECT_EQ(test::pools_alive(), before);
}

TYPED_TEST(exception, from_a_factory_leaves_the_pool_as_it_was) {
    bool refuses = true;
    typename TypeParam::template pool<int> pool({.max_objects = 1}, [&] {
        if (refuses) throw refusal();
        return 3;
    });
    EXPECT_THROW(static_cast<void>(pool.acquire()), refusal);
    EXPECT_EQ(pool.capacity(), 0U);
    refuses = false;
    EXPECT_EQ(*pool.acquire(), 3);
}

TYPED_TEST(exception, from_on_acquire_makes_the_object_idle_again) {
    typename TestFixture::pool_type pool({.max_objects = 1}, this->lifecycle());
    for (int i = 0; i < test::k_settling; ++i) {
        this->refuses_acquire = true;
        EXPECT_THROW(static_cast<void>(pool.acquire()), refusal);
        EXPECT_THROW(static_cast<void>(pool.acquire_unique()), refusal);
        this->refuses_acquire = false;
        EXPECT_TRUE(pool.acquire());
    }
    EXPECT_EQ(this->log.constructed(), 1);
    EXPECT_EQ(this->log.destroyed(), 0);
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(exception, from_on_acquire_is_not_followed_by_on_release) {
    typename TestFixture::pool_type pool({}, this->lifecycle());
    this->refuses_acquire = this->refuses_release = true;
    EXPECT_THROW(static_cast<void>(pool.acquire()), refusal);
    EXPECT_EQ(this->log.destroyed(), 0) << "which would have thrown, and destroyed the object";
    this->refuses_release = false;
}

TYPED_TEST(exception, from_on_release_destroys_the_object_which_no_longer_counts) {
    typename TestFixture::pool_type pool({.max_objects = 2}, this->lifecycle());
    for (int i = 0; i < 100; ++i) {
        auto a = pool.acquire();
        auto b = pool.acquire_unique();
        EXPECT_FALSE(pool.try_acquire());
        this->refuses_release = true;
        a.reset();
        EXPECT_EQ(this->log.alive(), 1);
        EXPECT_EQ(pool.capacity(), 1U);
        b.reset();
        this->refuses_release = false;
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(pool.capacity(), 0U);
        EXPECT_TRUE(test::is_valid(pool));
    }
}

TYPED_TEST(exception, from_on_release_lets_another_be_built_only_after_the_last_weak_ptr) {
    typename TestFixture::pool_type pool({.max_objects = 1}, this->lifecycle());
    auto a = pool.acquire();
    std::weak_ptr<test::counted<>> watcher = a;
    this->refuses_release = true;
    a.reset();
    this->refuses_release = false;
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_TRUE(watcher.expired());
    EXPECT_FALSE(pool.try_acquire());
    watcher.reset();
    EXPECT_TRUE(pool.try_acquire());
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
