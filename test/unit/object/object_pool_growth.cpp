// SPDX-License-Identifier: BSL-1.0

// How objects are built and replaced: how many at a time, of which memory, after an exception, after validation; and what
// the statistics say.

#include "pooled/pooled.hpp"
#include "pooled/stats.hpp"

#include "kinds.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();

template <class Kind>
class growth : public test::object_pool_test<Kind> {
protected:
    // The capacities that a pool goes through while objects are acquired.
    template <class Pool>
    static std::vector<std::size_t> steps(Pool& pool, std::size_t count) {
        std::vector<std::shared_ptr<test::counted<>>> held;
        std::vector<std::size_t> seen;
        while (held.size() != count) {
            held.push_back(pool.acquire());
            if (seen.empty() || seen.back() != pool.capacity()) seen.push_back(pool.capacity());
        }
        EXPECT_TRUE(test::is_valid(pool));
        return seen;
    }
};
TYPED_TEST_SUITE(growth, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(growth, by_a_factor_builds_at_least_growth_objects_and_ends_at_max_objects) {
    struct {
        pooled::object_pool_options options;
        std::size_t count;
        std::vector<std::size_t> capacities;
    } const cases[] = {
        {{.growth_factor = 2}, 40, {1, 2, 4, 8, 16, 32, 64}},
        {{.initial_objects = 4, .growth_factor = 1.5}, 20, {4, 6, 9, 13, 19, 28}},
        {{.growth = 8, .growth_factor = 2}, 40, {8, 16, 32, 64}},
        {{.max_objects = 20, .growth_factor = 3}, 20, {1, 3, 9, 20}},
        {{.max_objects = 5, .growth_factor = 1e300}, 5, {1, 5}},
        {{.growth = k_most, .max_objects = 7}, 7, {7}},
    };
    for (auto const& [options, count, capacities] : cases) {
        typename TestFixture::pool_type pool(options);
        EXPECT_EQ(TestFixture::steps(pool, count), capacities);
        if (options.max_objects != 0) {
            EXPECT_EQ(this->take_all(pool).size(), capacities.back());
        }
    }
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

// An object pool on memory of the user's: another pool, or any std::pmr::memory_resource.

template <class Kind>
class upstream : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(upstream, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(upstream, of_an_object_pool_gives_the_memory_of_all_its_objects) {
    test::counting_upstream books;
    {
        typename TestFixture::pool_type pool({.upstream = &books});
        std::vector<std::shared_ptr<test::counted<>>> held;
        for (int i = 0; i < 5000; ++i) {
            held.push_back(pool.acquire());
            ASSERT_TRUE(books.contains(held.back().get()));
        }
        auto const unique = pool.acquire_unique();
        auto const counted = pool.acquire_rc();
        EXPECT_TRUE(books.contains(unique.get()) && books.contains(counted.get()));
        EXPECT_EQ(pool.stats().upstream_bytes, books.bytes());
        EXPECT_EQ(pool.stats().upstream_calls, books.allocations());
    }
    EXPECT_EQ(books.bytes(), 0U);
    EXPECT_EQ(books.errors(), 0U);
}

TYPED_TEST(upstream, that_fails_the_constructor_by_any_exception_leaves_no_pool_behind) {
    test::counting_upstream books;
    test::hooked_upstream failing(books, [](std::size_t) { throw 42; });
    auto const free_id = [] {
        pooled::pool const one;
        return pooled::detail::pool_access::core(one).id();
    };
    auto const before = free_id();
    EXPECT_THROW(typename TestFixture::pool_type({.upstream = &failing}), int);
    EXPECT_EQ(free_id(), before);
}

TYPED_TEST(upstream, whose_refusal_of_a_reservation_is_passed_on) {
    struct large {
        std::array<std::byte, 300'000> bytes;
    };
    test::counting_upstream books;
    test::failing_upstream failing(books);
    typename TypeParam::template pool<large> pool({.upstream = &failing});
    failing.fail_always(true);
    EXPECT_THROW(pool.reserve(3), test::injected_failure);
    EXPECT_EQ(pool.capacity(), 0U);
}

TYPED_TEST(upstream, pool_serves_several_object_pools_under_its_bound) {
    pooled::pool shared({.max_bytes = std::size_t{4} << 20});
    struct large {
        std::array<std::byte, 8000> bytes;
    };
    typename TypeParam::template pool<large> a({.upstream = shared.resource()});
    typename TypeParam::template pool<large> b({.upstream = shared.resource()});
    std::size_t const alone = this->take_all(a).size();
    EXPECT_GT(alone, 100U);
    static_cast<void>(this->take_all(b));
    EXPECT_LE(shared.stats().upstream_bytes, std::size_t{4} << 20);
    a.trim();
    b.trim();
    EXPECT_EQ(this->take_all(b).size(), alone) << "what one gave back serves the other";
    EXPECT_TRUE(test::is_valid(shared));
}

TYPED_TEST(upstream, pool_may_be_destroyed_before_the_objects) {
    std::optional<pooled::pool> below(std::in_place);
    std::optional<typename TestFixture::pool_type> pool(
        std::in_place, pooled::object_pool_options{.initial_objects = 3, .upstream = below->resource()});
    auto a = pool->acquire();
    auto b = pool->acquire_unique();
    auto c = pool->acquire_rc();
    pool.reset();
    below.reset();
    EXPECT_EQ(this->log.alive(), 3);
    EXPECT_EQ(test::pools_alive(), this->pools_before + 2);
    a.reset();
    b.reset();
    c.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(test::pools_alive(), this->pools_before) << "the last object takes both pools with it";
}

TYPED_TEST(upstream, pool_may_be_destroyed_before_an_object_pool_that_builds_no_more) {
    std::optional<pooled::pool> below(std::in_place);
    {
        typename TestFixture::pool_type pool(
            {.initial_objects = 3, .growth = 0, .upstream = below->resource()});
        below.reset();
        for (int i = 0; i < 100; ++i) {
            auto const a = pool.acquire();
            auto const b = pool.acquire_unique();
            auto const c = pool.acquire_rc();
            EXPECT_FALSE(pool.try_acquire());
        }
        EXPECT_EQ(this->log.constructed(), 3);
    }
}

TEST(shared_upstream, pool_is_used_by_many_threads_at_once) {
    pooled::pool below;
    pooled::object_pool<std::array<int, 100>> a({.growth_factor = 2, .upstream = below.resource()});
    pooled::object_pool<std::array<int, 300>> b({.growth = 16, .upstream = below.resource()});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int round = 0; round < 50; ++round) {
                std::vector<std::shared_ptr<void>> held;
                for (int i = 0; i < 50; ++i) {
                    auto p = a.acquire();
                    p->fill(t);
                    auto q = b.acquire();
                    q->fill(t);
                    held.push_back(std::move(p));
                    held.push_back(std::move(q));
                }
                if (round % 16 == t) a.trim();
            }
        });
    for (std::thread& one : threads)
        one.join();
    EXPECT_TRUE(test::is_valid(a) && test::is_valid(b) && test::is_valid(below));
    EXPECT_EQ(a.in_use() + b.in_use(), 0U);
}

// After an exception of a lifecycle the pool is as before, and no object is lost.

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
class exception : public test::object_pool_test<Kind> {
protected:
    using pool_type = typename Kind::template pool<test::counted<>, may_throw>;

    may_throw lifecycle() { return {&this->log, &refuses_acquire, &refuses_release}; }

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

TYPED_TEST(exception, from_any_initial_object_leaves_nothing) {
    for (int n = 1; n <= 8; ++n) {
        this->log.throw_at(n);
        EXPECT_THROW(typename TestFixture::pool_type({.initial_objects = 8}, this->lifecycle()),
                     test::constructor_failed);
        EXPECT_EQ(this->log.alive(), 0);
    }
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

// Lifecycle::validate: an object that cannot be used any more is replaced when it is acquired.

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

// The statistics of an object pool.

static_assert(std::is_aggregate_v<pooled::object_pool_stats>);

template <class Kind>
class object_pool_stats : public testing::Test {};
TYPED_TEST_SUITE(object_pool_stats, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(object_pool_stats, agree_with_the_observers) {
    typename TypeParam::template pool<int> pool({.name = "numbers", .initial_objects = 3, .max_objects = 9});
    auto const a = pool.acquire();
    auto b = pool.acquire_unique();
    b.reset();
    pooled::object_pool_stats const s = pool.stats();
    EXPECT_EQ(s.name, "numbers");
    EXPECT_EQ(s.capacity, 3U);
    EXPECT_EQ(s.in_use, 1U);
    EXPECT_EQ(s.idle, 2U);
    EXPECT_EQ(s.high_water, 2U);
    EXPECT_EQ(s.waiting, 0U);
    EXPECT_EQ(s.max_objects, 9U);
    EXPECT_EQ(s.built, 3U);
    EXPECT_GE(s.slot_bytes, sizeof(int));
    EXPECT_GE(s.upstream_bytes, 3 * s.slot_bytes);
    EXPECT_GE(s.upstream_calls, 1U);
}

TYPED_TEST(object_pool_stats, count_objects_ever_built) {
    typename TypeParam::template pool<int> pool({.initial_objects = 3});
    pool.trim();
    EXPECT_EQ(pool.stats().built, 3U);
    EXPECT_EQ(pool.stats().capacity, 0U);
    static_cast<void>(pool.acquire());
    pool.reserve(4);
    EXPECT_EQ(pool.stats().built, 7U);
    EXPECT_EQ(pool.stats().capacity, 4U);
}

TYPED_TEST(object_pool_stats, say_zero_for_no_bound) {
    typename TypeParam::template pool<int> pool;
    EXPECT_EQ(pool.stats().max_objects, 0U);
    typename TypeParam::template pool<int> fixed({.initial_objects = 4, .growth = 0});
    EXPECT_EQ(fixed.stats().max_objects, 4U);
}

TEST(object_pool_stats_text, is_one_json_object) {
    pooled::object_pool_stats const s{.name = "a \"b\"\n",
                                      .capacity = 1,
                                      .in_use = 2,
                                      .idle = 3,
                                      .high_water = 4,
                                      .waiting = 5,
                                      .max_objects = 6,
                                      .built = 7,
                                      .slot_bytes = 8,
                                      .upstream_bytes = 9,
                                      .upstream_calls = 10};
    EXPECT_EQ(s.to_json(),
              R"({"name":"a \"b\"\u000a","capacity":1,"in_use":2,"idle":3,"high_water":4,"waiting":5,)"
              R"("max_objects":6,"built":7,"slot_bytes":8,"upstream_bytes":9,"upstream_calls":10})");
}

TEST(object_pool_stats_text, is_a_line_for_people) {
    std::ostringstream out;
    out << pooled::object_pool_stats{.name = "x", .in_use = 2, .idle = 3, .max_objects = 6, .built = 5};
    EXPECT_NE(out.str().find("object_pool 'x': 2 objects in use, 3 idle of at most 6"), std::string::npos)
        << out.str();
    EXPECT_EQ(out.str().find('\n'), std::string::npos);
    std::ostringstream unbounded;
    unbounded << pooled::object_pool_stats{};
    EXPECT_EQ(unbounded.str().find("at most"), std::string::npos);
}

// The options: growing, bounded and fixed pools, and their counts.

static_assert(std::is_aggregate_v<pooled::object_pool_options>);
[[maybe_unused]] constexpr pooled::object_pool_options k_in_order{"name", 1, 2, 3, 4, nullptr};
static_assert(k_in_order.initial_objects == 1 && k_in_order.growth == 2 && k_in_order.max_objects == 3 &&
              k_in_order.growth_factor == 4 && k_in_order.upstream == nullptr);

template <class Kind>
class object_pool_of : public test::object_pool_test<Kind> {};
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
    EXPECT_EQ(pool.trim(), 3U);
    pool.reserve(3);
    EXPECT_EQ(this->log.alive(), 3);
    EXPECT_THROW(pool.reserve(4), std::length_error);
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
    auto kept = pool.acquire();
    EXPECT_EQ(pool.trim(), 9U);
    EXPECT_EQ(this->log.alive(), 1);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_EQ(pool.in_use(), 1U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_TRUE(pool.acquire());
    EXPECT_EQ(this->log.alive(), 2);
    kept.reset();
    EXPECT_EQ(pool.idle(), 2U) << "what was in use is recycled";
    EXPECT_TRUE(test::is_valid(pool));
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
