// SPDX-License-Identifier: BSL-1.0
// How many objects are built at a time, and numbers beyond any memory.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();

template <class Kind>
class growth : public testing::Test {
protected:
    using object = test::counted<>;
    using pool_type = typename Kind::template pool<object>;

    // The capacities that a pool goes through while objects are acquired.
    static std::vector<std::size_t> steps(pool_type& pool, std::size_t count) {
        std::vector<std::shared_ptr<object>> held;
        std::vector<std::size_t> seen;
        while (held.size() != count) {
            held.push_back(pool.acquire());
            if (seen.empty() || seen.back() != pool.capacity()) seen.push_back(pool.capacity());
        }
        EXPECT_TRUE(test::is_valid(pool));
        return seen;
    }

    test::life_log log;
    test::life_log::scope scope{log};
};
TYPED_TEST_SUITE(growth, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(growth, by_a_factor_multiplies_the_number_of_objects) {
    typename TestFixture::pool_type doubling({.growth_factor = 2});
    EXPECT_EQ(TestFixture::steps(doubling, 40), (std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 64}));
    typename TestFixture::pool_type by_half({.initial_objects = 4, .growth_factor = 1.5});
    EXPECT_EQ(TestFixture::steps(by_half, 20), (std::vector<std::size_t>{4, 6, 9, 13, 19, 28}));
}

TYPED_TEST(growth, by_a_factor_builds_at_least_growth_objects) {
    typename TestFixture::pool_type pool({.growth = 8, .growth_factor = 2});
    EXPECT_EQ(TestFixture::steps(pool, 40), (std::vector<std::size_t>{8, 16, 32, 64}));
}

TYPED_TEST(growth, by_a_factor_ends_at_max_objects) {
    typename TestFixture::pool_type pool({.max_objects = 20, .growth_factor = 3});
    EXPECT_EQ(TestFixture::steps(pool, 20), (std::vector<std::size_t>{1, 3, 9, 20}));
    auto const all = [&] {
        std::vector<std::shared_ptr<test::counted<>>> held;
        while (auto p = pool.try_acquire())
            held.push_back(std::move(p));
        return held;
    }();
    EXPECT_EQ(all.size(), 20U);
}

TYPED_TEST(growth, by_a_factor_larger_than_any_number_ends_at_max_objects) {
    typename TestFixture::pool_type pool({.max_objects = 5, .growth_factor = 1e300});
    EXPECT_EQ(TestFixture::steps(pool, 5), (std::vector<std::size_t>{1, 5}));
}

TYPED_TEST(growth, by_a_factor_that_makes_no_sense_is_refused) {
    using pool = typename TestFixture::pool_type;
    for (double const factor :
         {0.0, 0.99, -2.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
        EXPECT_THROW(pool({.growth_factor = factor}), std::invalid_argument) << factor;
}

TYPED_TEST(growth, beyond_the_address_space_is_refused_before_an_object_is_built) {
    using pool = typename TestFixture::pool_type;
    for (std::size_t const many : {k_most, k_most / 2, k_most / 64 + 1, std::size_t{1} << 46}) {
        EXPECT_THROW(pool({.initial_objects = many}), std::length_error) << many;
        EXPECT_THROW(pool({.initial_objects = many, .growth = 0}), std::length_error) << many;
        EXPECT_THROW(pool({.initial_objects = many, .max_objects = k_most}), std::length_error) << many;
        EXPECT_THROW(pool({.growth = many}), std::length_error) << many;
        pool reserving;
        EXPECT_THROW(reserving.reserve(many), std::length_error) << many;
        EXPECT_EQ(reserving.capacity(), 0U);
        EXPECT_TRUE(test::is_valid(reserving));
    }
    EXPECT_EQ(this->log.constructed(), 0);
}

// The address space holds them, no machine does: without the refusal, building them ends when memory does.
TYPED_TEST(growth, beyond_the_memory_of_the_machine_is_refused_before_an_object_is_built) {
    using pool = typename TestFixture::pool_type;
    constexpr std::size_t k_many = std::size_t{1} << 38;
    EXPECT_THROW(pool({.initial_objects = k_many}), std::bad_alloc);
    EXPECT_THROW(pool({.initial_objects = k_many, .growth = 0}), std::bad_alloc);
    EXPECT_THROW(pool({.growth = k_many}), std::bad_alloc);
    EXPECT_THROW(pool({.initial_objects = 2, .growth = k_many, .max_objects = k_most}), std::bad_alloc);
    pool bounded({.growth = k_many, .max_objects = 4});
    EXPECT_THROW(bounded.reserve(k_many), std::length_error);
    pool reserving;
    EXPECT_THROW(reserving.reserve(k_many), std::bad_alloc);
    EXPECT_EQ(reserving.capacity(), 0U);
    EXPECT_TRUE(test::is_valid(reserving));
    EXPECT_NE(reserving.acquire(), nullptr);
    EXPECT_LE(this->log.constructed(), 3);
}

TYPED_TEST(growth, by_a_factor_beyond_the_address_space_is_refused_unless_max_objects_ends_it) {
    using pool = typename TestFixture::pool_type;
    for (double const factor : {1e300, 0x1p64, 0x1p48})
        EXPECT_THROW(pool({.growth_factor = factor}), std::length_error) << factor;
    EXPECT_THROW(pool({.initial_objects = 1000, .growth_factor = 0x1p40}), std::length_error);
    EXPECT_THROW(pool({.max_objects = k_most, .growth_factor = 1e300}), std::length_error);
    pool({.growth_factor = 1000});
    pool({.max_objects = k_most, .growth_factor = 2});
}

TYPED_TEST(growth, without_end_builds_all_of_a_bounded_pool_at_once) {
    typename TestFixture::pool_type pool({.growth = k_most, .max_objects = 7});
    EXPECT_EQ(TestFixture::steps(pool, 7), (std::vector<std::size_t>{7}));
}

TYPED_TEST(growth, beyond_memory_by_a_factor_gives_what_there_is) {
    // A bounded pool provides two megabytes, the factor requests far more.
    pooled::pool const small({.max_bytes = std::size_t{2} << 20});
    struct large {
        std::array<std::byte, 4096> bytes;
    };
    typename TypeParam::template pool<large> pool({.growth_factor = 1e6, .upstream = small.resource()});
    auto const first = pool.acquire();
    std::vector<std::shared_ptr<large>> held;
    for (auto p = pool.try_acquire(); p && held.size() < 10'000; p = pool.try_acquire())
        held.push_back(std::move(p));
    EXPECT_GT(held.size(), 100U);
    EXPECT_THROW(static_cast<void>(pool.acquire()), std::bad_alloc);
    EXPECT_EQ(pool.capacity(), held.size() + 1);
    EXPECT_TRUE(test::is_valid(pool));
    held.pop_back();
    EXPECT_TRUE(pool.acquire());
}

TYPED_TEST(growth, that_fails_midway_leaves_the_pool_as_it_was) {
    typename TestFixture::pool_type pool({.initial_objects = 4, .growth_factor = 3});
    std::vector<std::shared_ptr<test::counted<>>> held;
    for (int i = 0; i < 4; ++i)
        held.push_back(pool.acquire());
    for (int n = 1; n <= 8; ++n) {
        this->log.throw_at(n);
        EXPECT_THROW(static_cast<void>(pool.acquire()), test::constructor_failed);
        EXPECT_EQ(pool.capacity(), 4U);
        EXPECT_EQ(this->log.alive(), 4);
        EXPECT_TRUE(test::is_valid(pool));
    }
    this->log.throw_at(0);
    held.push_back(pool.acquire());
    EXPECT_EQ(pool.capacity(), 12U);
}

TYPED_TEST(growth, whose_upstream_fails_midway_leaves_the_pool_as_it_was) {
    using big = test::counted<20'000>;
    for (std::size_t n = 1;; ++n) {
        test::counting_upstream books;
        test::failing_upstream upstream(books, n);
        {
            try {
                typename TypeParam::template pool<big> pool({.initial_objects = 2, .upstream = &upstream});
                auto const held = pool.acquire();
                std::size_t const before = pool.capacity();
                try {
                    pool.reserve(40);
                } catch (std::bad_alloc const&) {
                    EXPECT_EQ(pool.capacity(), before);
                    EXPECT_EQ(this->log.alive(), static_cast<std::int64_t>(before));
                }
                EXPECT_TRUE(test::is_valid(pool));
                pool.reserve(40);
                EXPECT_EQ(pool.capacity(), 40U);
            } catch (std::bad_alloc const&) {
                EXPECT_TRUE(upstream.has_failed());
            }
        }
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(books.bytes(), 0U);
        if (!upstream.has_failed()) {
            EXPECT_GT(n, 3U);
            break;
        }
    }
}

}  // namespace
