// SPDX-License-Identifier: BSL-1.0
// A pool may be destroyed before its objects: those in use stay valid, and are destroyed, not recycled, when they are
// released.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/lives.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

template <class Kind>
class destroyed : public testing::Test {
protected:
    using object = test::counted<>;
    test::life_log log;
    test::life_log::scope scope{log};
    std::optional<typename Kind::template pool<object>> pool{std::in_place};
};
TYPED_TEST_SUITE(destroyed, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(destroyed, pool_destroys_what_is_idle) {
    std::vector<std::shared_ptr<test::counted<>>> some;
    for (int i = 0; i < 300; ++i)
        some.push_back(this->pool->acquire());
    some.clear();
    EXPECT_EQ(this->log.alive(), 300);
    this->pool.reset();
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(destroyed, pool_leaves_objects_with_their_owners) {
    test::settle(*this->pool);
    auto shared = this->pool->acquire();
    auto unique = this->pool->acquire_unique();
    static_cast<void>(this->pool->acquire());
    this->pool.reset();
    EXPECT_EQ(this->log.alive(), 2);
    auto copy = shared;
    shared.reset();
    EXPECT_EQ(this->log.alive(), 2);
    copy.reset();
    EXPECT_EQ(this->log.alive(), 1);
    unique.reset();
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(destroyed, pool_leaves_control_blocks_to_weak_ptrs) {
    auto shared = this->pool->acquire();
    std::weak_ptr<test::counted<>> weak = shared;
    this->pool.reset();
    shared.reset();
    EXPECT_EQ(this->log.alive(), 0) << "weak_ptrs do not delay the destruction";
    EXPECT_EQ(weak.lock(), nullptr);
    weak.reset();
}

TYPED_TEST(destroyed, pool_destroys_an_object_that_only_weak_ptrs_watched) {
    auto shared = this->pool->acquire();
    std::weak_ptr<test::counted<>> weak = shared;
    shared.reset();
    this->pool.reset();
    EXPECT_EQ(weak.lock(), nullptr);
    weak.reset();
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(destroyed, pool_does_not_call_its_lifecycle_any_more) {
    int releases = 0;
    pooled::function_lifecycle<int> functions;
    functions.on_release = [&](int&) { ++releases; };
    std::optional<typename TypeParam::template pool<int, pooled::function_lifecycle<int>>> counted;
    counted.emplace(pooled::object_pool_options{}, functions);
    auto a = counted->acquire();
    auto b = counted->acquire();
    a.reset();
    EXPECT_EQ(releases, 1);
    counted.reset();
    b.reset();
    EXPECT_EQ(releases, 1);
}

TYPED_TEST(destroyed, pools_leave_nothing_behind) {
    std::size_t const before = test::pools_alive();
    std::shared_ptr<test::counted<>> out;
    for (int i = 0; i < 200; ++i) {
        typename TypeParam::template pool<test::counted<>> short_lived({.initial_objects = 2});
        out = short_lived.acquire();
    }
    EXPECT_EQ(test::pools_alive(), before + 1) << "that of the object which is out";
    EXPECT_EQ(this->log.alive(), 1);
    out.reset();
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(destroyed, pool_destroys_its_lifecycle) {
    auto const token = std::make_shared<int>(0);
    std::size_t const before = test::pools_alive();
    {
        pooled::function_lifecycle<int> functions;
        functions.on_acquire = [token](int&) {};
        typename TypeParam::template pool<int, pooled::function_lifecycle<int>> const idle({}, functions);
        EXPECT_EQ(test::pools_alive(), before + 1);
    }
    EXPECT_EQ(token.use_count(), 1);
    EXPECT_EQ(test::pools_alive(), before);
}

TEST(destroyed_object_pool, destroys_what_lies_idle_in_a_sleeping_threads_cache) {
    test::life_log log;
    std::optional<pooled::object_pool<test::counted<>>> pool;
    pool.emplace(pooled::object_pool_options{}, [&] { return test::counted<>(log); });
    test::sleeper other;
    other.run([&] {
        test::settle(*pool);
        auto const a = pool->acquire();
        auto const b = pool->acquire();
    });
    EXPECT_EQ(log.alive(), 2);
    pool.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST(destroyed_object_pool, objects_may_be_released_by_other_threads) {
    test::life_log log;
    std::optional<pooled::object_pool<test::counted<>>> pool;
    pool.emplace(pooled::object_pool_options{}, [&] { return test::counted<>(log); });
    std::vector<std::shared_ptr<test::counted<>>> mine;
    std::vector<std::shared_ptr<test::counted<>>> others;
    for (int i = 0; i < 100; ++i) {
        mine.push_back(pool->acquire());
        others.push_back(pool->acquire());
    }
    pool.reset();
    std::thread other([&] { others.clear(); });
    mine.clear();
    other.join();
    EXPECT_EQ(log.alive(), 0);
}

}  // namespace
