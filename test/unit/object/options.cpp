// SPDX-License-Identifier: BSL-1.0
// Growing, bounded and fixed pools, and their counts.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;

namespace {

static_assert(std::is_aggregate_v<pooled::object_pool_options>);
[[maybe_unused]] constexpr pooled::object_pool_options k_in_order{"name", 1, 2, 3, 4, nullptr};
static_assert(k_in_order.initial_objects == 1 && k_in_order.growth == 2 && k_in_order.max_objects == 3 &&
              k_in_order.growth_factor == 4 && k_in_order.upstream == nullptr);

template <class Kind>
class object_pool_of : public testing::Test {
protected:
    using object = test::counted<>;
    using pool_type = typename Kind::template pool<object>;

    static std::vector<std::shared_ptr<object>> take_all(pool_type& pool) {
        std::vector<std::shared_ptr<object>> all;
        while (auto p = pool.try_acquire())
            all.push_back(std::move(p));
        return all;
    }

    test::life_log log;
    test::life_log::scope scope{log};
};
TYPED_TEST_SUITE(object_pool_of, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(object_pool_of, default_options_builds_nothing_before_the_first_acquire) {
    typename TestFixture::pool_type pool;
    EXPECT_EQ(this->log.constructed(), 0);
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_EQ(pool.high_water(), 0U);
    EXPECT_EQ(pool.name(), "object_pool");
}

TYPED_TEST(object_pool_of, max_objects_holds_no_more) {
    typename TestFixture::pool_type pool({.max_objects = 5});
    auto all = this->take_all(pool);
    EXPECT_EQ(all.size(), 5U);
    EXPECT_EQ(this->log.alive(), 5);
    EXPECT_THROW(static_cast<void>(pool.acquire()), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(pool.acquire_unique()), pooled::exhausted);
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_THROW(static_cast<void>(pool.acquire_rc()), pooled::exhausted);
    EXPECT_FALSE(pool.try_acquire_unique());
    EXPECT_FALSE(pool.try_acquire_rc());
    EXPECT_FALSE(pool.acquire_for(0s));
    EXPECT_TRUE(test::is_valid(pool));
    all.pop_back();
    EXPECT_TRUE(pool.try_acquire());
    EXPECT_EQ(this->log.constructed(), 5);
}

TYPED_TEST(object_pool_of, max_objects_names_itself_and_the_bound_when_it_is_exhausted) {
    typename TestFixture::pool_type pool({.name = "buffers", .max_objects = 7});
    auto const all = this->take_all(pool);
    try {
        static_cast<void>(pool.acquire());
        FAIL();
    } catch (pooled::exhausted const& e) {
        std::string const said = e.what();
        EXPECT_NE(said.find("'buffers'"), std::string::npos) << said;
        EXPECT_NE(said.find("max_objects = 7"), std::string::npos) << said;
    }
}

TYPED_TEST(object_pool_of, max_objects_provides_as_many_each_time) {
    typename TestFixture::pool_type pool({.max_objects = 300});
    for (int round = 0; round < 4; ++round) {
        EXPECT_EQ(this->take_all(pool).size(), 300U);
        EXPECT_EQ(pool.idle(), 300U);
        EXPECT_TRUE(test::is_valid(pool));
    }
    EXPECT_EQ(this->log.constructed(), 300);
}

TYPED_TEST(object_pool_of, initial_objects_builds_them_with_the_pool) {
    typename TestFixture::pool_type pool({.initial_objects = 4, .max_objects = 6});
    EXPECT_EQ(this->log.constructed(), 4);
    EXPECT_EQ(pool.capacity(), 4U);
    EXPECT_EQ(pool.idle(), 4U);
    EXPECT_EQ(pool.high_water(), 0U);
    EXPECT_EQ(this->take_all(pool).size(), 6U);
    EXPECT_EQ(this->log.constructed(), 6);
}

TYPED_TEST(object_pool_of, growth_builds_that_many_at_a_time) {
    typename TestFixture::pool_type pool({.growth = 8, .max_objects = 20});
    auto a = pool.acquire();
    EXPECT_EQ(this->log.constructed(), 8);
    EXPECT_EQ(pool.capacity(), 8U);
    EXPECT_EQ(pool.idle(), 7U);
    EXPECT_EQ(pool.high_water(), 1U);
    auto const all = this->take_all(pool);
    EXPECT_EQ(all.size(), 19U);
    EXPECT_EQ(this->log.constructed(), 20);
    EXPECT_EQ(pool.high_water(), 20U);
}

TYPED_TEST(object_pool_of, no_growth_is_of_fixed_size) {
    typename TestFixture::pool_type pool({.initial_objects = 3, .growth = 0});
    EXPECT_EQ(this->take_all(pool).size(), 3U);
    EXPECT_EQ(this->log.constructed(), 3);
    EXPECT_EQ(pool.trim(), 3U);
    EXPECT_EQ(this->take_all(pool).size(), 3U) << "trimmed objects are replaced";
    EXPECT_EQ(this->log.alive(), 3);
}

TYPED_TEST(object_pool_of, contradictory_options_is_not_constructed) {
    using pool = typename TestFixture::pool_type;
    EXPECT_THROW(pool({.initial_objects = 0, .growth = 0}), std::invalid_argument);
    EXPECT_THROW(pool({.initial_objects = 4, .max_objects = 3}), std::invalid_argument);
    EXPECT_EQ(this->log.constructed(), 0);
}

TYPED_TEST(object_pool_of, any_options_counts_what_is_in_use_and_what_is_idle) {
    typename TestFixture::pool_type pool;
    test::settle(pool);
    std::vector<std::shared_ptr<test::counted<>>> held;
    for (std::size_t i = 1; i <= 500; ++i) {
        held.push_back(pool.acquire());
        EXPECT_EQ(pool.in_use(), i);
        EXPECT_EQ(pool.idle(), 0U);
        EXPECT_EQ(pool.capacity(), i);
        EXPECT_EQ(pool.high_water(), i);
    }
    for (std::size_t i = 500; i-- != 0;) {
        held.pop_back();
        EXPECT_EQ(pool.in_use(), i);
        EXPECT_EQ(pool.idle(), 500 - i);
    }
    EXPECT_EQ(pool.high_water(), 500U);
    EXPECT_EQ(pool.waiting(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(object_pool_of, any_options_can_be_trimmed) {
    typename TestFixture::pool_type pool({.initial_objects = 10});
    auto const kept = pool.acquire();
    EXPECT_EQ(pool.trim(), 9U);
    EXPECT_EQ(this->log.alive(), 1);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.in_use(), 1U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_TRUE(pool.acquire());
    EXPECT_EQ(this->log.alive(), 2);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(object_pool_of, any_options_recycles_what_was_in_use_when_it_was_trimmed) {
    typename TestFixture::pool_type pool;
    auto kept = pool.acquire();
    pool.trim();
    kept.reset();
    EXPECT_EQ(this->log.destroyed(), 0);
    EXPECT_EQ(pool.idle(), 1U);
}

TYPED_TEST(object_pool_of, any_options_provides_only_new_objects_after_clear) {
    typename TestFixture::pool_type pool({.max_objects = 3});
    test::settle(pool);
    auto a = pool.acquire();
    auto b = pool.acquire_unique();
    auto c = pool.acquire();
    c.reset();
    EXPECT_EQ(pool.clear(), 1U);
    EXPECT_EQ(this->log.alive(), 2) << "those in use stay valid";
    EXPECT_EQ(pool.in_use(), 2U);
    auto d = pool.acquire();
    EXPECT_FALSE(pool.try_acquire()) << "those in use count under the bound";
    a.reset();
    b.reset();
    EXPECT_EQ(this->log.alive(), 1) << "and are not recycled";
    EXPECT_EQ(pool.capacity(), 1U);
    d.reset();
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(this->take_all(pool).size(), 3U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(object_pool_of, any_options_returns_the_memory_of_trimmed_objects) {
    struct large {
        char bytes[1 << 20];
    };
    typename TypeParam::template pool<large> pool({.initial_objects = 4});
    EXPECT_EQ(pool.trim(), 4U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(object_pool_of, objects_larger_than_memory_throws_bad_alloc_and_stays_usable) {
    struct huge {
        char bytes[std::size_t{1} << 46];
    };
    typename TypeParam::template pool<huge> pool({}, [](void*) {});
    auto const says_that_memory_is_out = [](auto const& acquire) {
        try {
            static_cast<void>(acquire());
        } catch (pooled::exhausted const&) {
            return false;
        } catch (std::bad_alloc const&) {
            return true;
        }
        return false;
    };
    EXPECT_TRUE(says_that_memory_is_out([&] { return pool.acquire(); }));
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_TRUE(says_that_memory_is_out([&] { return pool.acquire_for(1s); }));
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(object_pool_of, any_options_reserves_objects_at_run_time) {
    typename TestFixture::pool_type pool({.max_objects = 10});
    auto const first = pool.acquire();
    pool.reserve(6);
    EXPECT_EQ(this->log.constructed(), 6) << "those in use count";
    EXPECT_EQ(pool.capacity(), 6U);
    EXPECT_EQ(pool.idle(), 5U);
    pool.reserve(3);
    EXPECT_EQ(this->log.constructed(), 6) << "there are as many already";
    EXPECT_EQ(this->take_all(pool).size(), 9U);
    EXPECT_EQ(this->log.constructed(), 10);
    pool.reserve(10);
    EXPECT_EQ(this->log.constructed(), 10);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(object_pool_of, max_objects_reserves_no_more) {
    typename TestFixture::pool_type pool({.max_objects = 10});
    EXPECT_THROW(pool.reserve(11), std::length_error);
    EXPECT_EQ(this->log.constructed(), 0);
    pool.reserve(10);
    EXPECT_EQ(pool.idle(), 10U);
}

TYPED_TEST(object_pool_of, no_growth_reserves_again_what_was_trimmed) {
    typename TestFixture::pool_type pool({.initial_objects = 3, .growth = 0});
    EXPECT_EQ(pool.trim(), 3U);
    pool.reserve(3);
    EXPECT_EQ(this->log.constructed(), 6);
    EXPECT_THROW(pool.reserve(4), std::length_error);
}

TYPED_TEST(object_pool_of, any_options_is_as_before_when_a_reservation_fails) {
    typename TestFixture::pool_type pool({.max_objects = 10});
    pool.reserve(2);
    this->log.throw_at(5);
    EXPECT_THROW(pool.reserve(10), test::constructor_failed);
    EXPECT_EQ(pool.capacity(), 2U);
    EXPECT_EQ(this->log.alive(), 2);
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_EQ(this->take_all(pool).size(), 10U);
}

}  // namespace
