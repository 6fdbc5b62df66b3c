// SPDX-License-Identifier: BSL-1.0
// The statistics of an object pool.

#include "pooled/stats.hpp"

#include "pooled/pooled.hpp"

#include "kinds.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>

namespace {

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

TEST(object_pool_stats_of_threads, count_those_that_wait) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    std::thread waiting([&] { EXPECT_TRUE(pool.acquire_for(std::chrono::hours(1))); });
    while (pool.stats().waiting == 0)
        std::this_thread::yield();
    EXPECT_EQ(pool.stats().waiting, 1U);
    held.reset();
    waiting.join();
    EXPECT_EQ(pool.stats().waiting, 0U);
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

}  // namespace
