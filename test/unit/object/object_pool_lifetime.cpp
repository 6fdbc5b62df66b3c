// SPDX-License-Identifier: BSL-1.0

// How long objects live: beyond their pool (those in use stay valid, and are destroyed, not recycled, when they are released), as
// long as weak pointers observe them, and on other threads.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace {

template <class Kind>
class destroyed : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(destroyed, test::object_pool_kinds, test::object_pool_kind_names);

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
    std::shared_ptr<test::counted<>> out;
    for (int i = 0; i < 200; ++i) {
        typename TypeParam::template pool<test::counted<>> short_lived({.initial_objects = 2});
        out = short_lived.acquire();
    }
    EXPECT_EQ(test::pools_alive(), this->pools_before + 1) << "that of the object which is out";
    EXPECT_EQ(this->log.alive(), 1);
    out.reset();
    EXPECT_EQ(this->log.alive(), 0);
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

// weak_ptrs and enable_shared_from_this: an object is idle only when nothing refers to it or its control block.

template <class Kind>
class watched : public test::object_pool_test<Kind> {};
TYPED_TEST_SUITE(watched, test::object_pool_kinds, test::object_pool_kind_names);

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
    shares_itself* const where = pool.acquire().get();
    EXPECT_TRUE(where->weak_from_this().expired());
    auto const unique = pool.acquire_unique();
    EXPECT_EQ(unique.get(), where);
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

// Objects and threads: idle objects in other threads' caches are found, a thread that ends returns all it cached, and an
// object may be released by another thread than acquired it.

using idle_objects = test::object_pool_test<test::shared_kind>;

TEST_F(idle_objects, in_other_threads_caches_are_found_before_exhausted_is_reported) {
    constexpr std::size_t k_objects = 100;
    pooled::object_pool<int> pool({.max_objects = k_objects});
    std::vector<std::unique_ptr<test::sleeper>> sleepers;
    for (int i = 0; i < 4; ++i) {
        sleepers.push_back(std::make_unique<test::sleeper>());
        sleepers.back()->run([&] {
            test::settle(pool);
            static_cast<void>(take_all(pool));
            test::settle(pool);
            auto const some = std::vector{pool.acquire(), pool.acquire(), pool.acquire()};
        });
    }
    EXPECT_EQ(pool.idle(), k_objects);
    EXPECT_EQ(take_all(pool).size(), k_objects);
    EXPECT_EQ(pool.capacity(), k_objects);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST_F(idle_objects, in_other_threads_caches_are_found_before_another_is_built) {
    pooled::object_pool<test::counted<>> pool({}, [&] { return test::counted<>(log); });
    for (int i = 0; i < 4; ++i) {
        test::sleeper other;
        other.run([&] { test::settle(pool); });
        static_cast<void>(pool.acquire());
        other.run([&] { test::settle(pool); });
        static_cast<void>(pool.acquire());
    }
    EXPECT_EQ(log.constructed(), 1);
    EXPECT_EQ(pool.high_water(), 1U);
}

TEST_F(idle_objects, of_a_thread_that_ended_are_available_to_all) {
    pooled::object_pool<int> pool({.max_objects = 200});
    std::thread([&] {
        test::settle(pool);
        static_cast<void>(take_all(pool));
        test::settle(pool);
    }).join();
    EXPECT_EQ(pool.idle(), 200U);
    EXPECT_EQ(take_all(pool).size(), 200U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST_F(idle_objects, in_other_threads_caches_are_trimmed) {
    pooled::object_pool<test::counted<>> pool({}, [&] { return test::counted<>(log); });
    test::sleeper other;
    std::shared_ptr<test::counted<>> kept;
    other.run([&] {
        test::settle(pool);
        std::vector<std::shared_ptr<test::counted<>>> some;
        for (int i = 0; i < 50; ++i)
            some.push_back(pool.acquire());
        kept = some.back();
    });
    EXPECT_EQ(pool.trim(), 49U);
    EXPECT_EQ(log.alive(), 1);
    other.run([&] { EXPECT_TRUE(pool.acquire()); });
    EXPECT_EQ(log.alive(), 2);
}

TEST_F(idle_objects, in_other_threads_caches_are_cleared) {
    pooled::object_pool<test::counted<>> pool({}, [&] { return test::counted<>(log); });
    test::sleeper other;
    std::shared_ptr<test::counted<>> kept;
    other.run([&] {
        test::settle(pool);
        kept = pool.acquire();
    });
    auto mine = pool.acquire();
    mine.reset();
    EXPECT_EQ(pool.clear(), 1U);
    other.run([&] {
        test::settle(pool);
        kept.reset();
    });
    EXPECT_EQ(log.alive(), 1) << "the one in use when the pool was cleared is not recycled";
    EXPECT_EQ(pool.capacity(), 1U);
}

}  // namespace
