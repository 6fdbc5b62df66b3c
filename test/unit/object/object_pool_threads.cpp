// SPDX-License-Identifier: BSL-1.0
// Objects and threads: idle objects in other threads' caches are found, a thread that ends returns all it cached, and an
// object may be released by another thread than acquired it.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace {

template <class Pool>
std::vector<std::shared_ptr<typename Pool::value_type>> take_all(Pool& pool) {
    std::vector<std::shared_ptr<typename Pool::value_type>> all;
    while (auto p = pool.try_acquire())
        all.push_back(std::move(p));
    return all;
}

TEST(idle_objects, in_other_threads_caches_are_found_before_exhausted_is_reported) {
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

TEST(idle_objects, in_other_threads_caches_are_found_before_another_is_built) {
    test::life_log log;
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

TEST(idle_objects, of_a_thread_that_ended_are_available_to_all) {
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

TEST(idle_objects, in_other_threads_caches_are_trimmed) {
    test::life_log log;
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

TEST(idle_objects, in_other_threads_caches_are_cleared) {
    test::life_log log;
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

TEST(objects, acquired_by_one_thread_are_released_by_another) {
    pooled::object_pool<int> pool({.max_objects = 300});
    for (int round = 0; round < 5; ++round) {
        test::settle(pool);
        auto all = take_all(pool);
        ASSERT_EQ(all.size(), 300U);
        std::thread([&] { all.clear(); }).join();
    }
    EXPECT_EQ(pool.capacity(), 300U);
    EXPECT_EQ(pool.idle(), 300U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(objects, are_released_by_destructors_of_thread_local_variables) {
    pooled::object_pool<int> pool({.max_objects = 2});
    std::thread([&] {
        // Destroyed before the thread's caches. A destructor of a pthread key may run after them: see
        // behaviour/object_pool_exit.cpp.
        static thread_local std::shared_ptr<int> held;
        test::settle(pool);
        held = pool.acquire();
    }).join();
    EXPECT_EQ(pool.idle(), 1U);
}

TEST(objects, acquired_by_waiting_threads_are_counted_exactly) {
    pooled::object_pool<int> pool({.max_objects = 2});
    std::atomic<int> served{0};
    {
        std::vector<std::thread> threads;
        for (int i = 0; i < 6; ++i)
            threads.emplace_back([&] {
                for (int n = 0; n < 200; ++n)
                    if (pool.acquire_for(std::chrono::hours(1))) ++served;
            });
        for (auto& t : threads)
            t.join();
    }
    EXPECT_EQ(served, 1200);
    EXPECT_EQ(pool.in_use(), 0U);
    EXPECT_LE(pool.high_water(), 2U);
    test::settle(pool);
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_EQ(take_all(pool).size(), 2U);
}

}  // namespace
