// SPDX-License-Identifier: BSL-1.0
// Lifecycle::validate: an object that cannot be used any more is replaced when it is acquired.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

namespace {

struct connection {
    bool is_open = true;
    int acquired = 0;
};

struct world {
    int created = 0;
    int validated = 0;
    bool create_fails = false;
    bool validate_fails = false;
};

struct checked {
    world* seen;
    connection* create(void* where) const {
        if (seen->create_fails) throw std::runtime_error("no connection");
        ++seen->created;
        return ::new (where) connection;
    }
    bool validate(connection& c) const {
        if (seen->validate_fails) throw std::logic_error("cannot tell");
        ++seen->validated;
        return c.is_open;
    }
    void on_acquire(connection& c) const { ++c.acquired; }
};

template <class Kind>
class validate : public testing::Test {
protected:
    using pool_type = typename Kind::template pool<connection, checked>;
    world seen;
};
TYPED_TEST_SUITE(validate, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(validate, keeps_an_object_that_can_be_used) {
    typename TestFixture::pool_type pool({}, {&this->seen});
    connection const* const first = pool.acquire().get();
    EXPECT_EQ(pool.acquire().get(), first);
    EXPECT_EQ(this->seen.created, 1);
    EXPECT_EQ(this->seen.validated, 2);
    EXPECT_EQ(pool.acquire()->acquired, 3);
}

TYPED_TEST(validate, replaces_an_object_that_cannot_be_used) {
    typename TestFixture::pool_type pool({.max_objects = 1}, {&this->seen});
    for (int round = 1; round <= test::k_settling; ++round) {
        pool.acquire()->is_open = false;
        auto const fresh = pool.acquire_unique();
        ASSERT_TRUE(fresh->is_open);
        ASSERT_EQ(fresh->acquired, 1) << "on_acquire sees the new one";
        ASSERT_EQ(this->seen.created, round + 1);
        ASSERT_EQ(pool.capacity(), 1U);
        fresh->is_open = true;
    }
    EXPECT_EQ(pool.stats().built, static_cast<std::size_t>(this->seen.created));
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(validate, loses_only_the_bad_object_when_no_other_can_be_built) {
    typename TestFixture::pool_type pool({.max_objects = 2}, {&this->seen});
    auto const kept = pool.acquire();
    pool.acquire()->is_open = false;
    this->seen.create_fails = true;
    EXPECT_THROW(static_cast<void>(pool.acquire()), std::runtime_error);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.in_use(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
    this->seen.create_fails = false;
    EXPECT_TRUE(pool.try_acquire()) << "it no longer counts under the bound";
}

TYPED_TEST(validate, leaves_the_object_idle_when_it_throws) {
    typename TestFixture::pool_type pool({.max_objects = 1}, {&this->seen});
    static_cast<void>(pool.acquire());
    this->seen.validate_fails = true;
    EXPECT_THROW(static_cast<void>(pool.acquire()), std::logic_error);
    EXPECT_EQ(pool.idle(), 1U);
    this->seen.validate_fails = false;
    EXPECT_TRUE(pool.acquire());
    EXPECT_EQ(this->seen.created, 1);
}

TYPED_TEST(validate, replaces_objects_that_a_factory_built) {
    typename TypeParam::template pool<connection, checked> pool({}, {&this->seen},
                                                                [] { return connection{.acquired = 100}; });
    pool.acquire()->is_open = false;
    EXPECT_EQ(pool.acquire()->acquired, 101);
    EXPECT_EQ(this->seen.created, 0);
}

TYPED_TEST(validate, is_a_function_chosen_at_run_time_too) {
    struct functions {
        std::function<bool(connection&)> validate{};
    };
    typename TypeParam::template pool<connection, functions> none;
    none.acquire()->is_open = false;
    EXPECT_FALSE(none.acquire()->is_open) << "an empty function is as none";
    typename TypeParam::template pool<connection, functions> pool({},
                                                                  {[](connection& c) { return c.is_open; }});
    pool.acquire()->is_open = false;
    EXPECT_TRUE(pool.acquire()->is_open);
}

TYPED_TEST(validate, lets_a_replaced_object_be_outdated_by_clear) {
    typename TestFixture::pool_type pool({}, {&this->seen});
    pool.acquire()->is_open = false;
    auto fresh = pool.acquire();
    pool.clear();
    fresh.reset();
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
