// SPDX-License-Identifier: BSL-1.0
// Object pools while a process ends, and around fork. Each test forks as a death test and checks the exit code.

#include "pooled/pooled.hpp"

#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/sleeper.hpp"
#include "unit/object/kinds.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <pthread.h>

using namespace std::chrono_literals;

namespace {

[[noreturn]] void give_up(char const* what) {
    std::fputs(what, stderr);
    std::_Exit(13);
}

int g_alive = 0;
struct buffer {
    buffer() { ++g_alive; }
    buffer(buffer const&) = delete;
    ~buffer() { --g_alive; }
};

// Destroyed in this order: the late handle, the pool, the early handle.
std::shared_ptr<buffer> g_early;
std::optional<pooled::object_pool<buffer>> g_pool;
struct late_handle {
    std::shared_ptr<buffer> shared;
    ~late_handle() {
        shared.reset();
        if (g_pool.has_value() && g_pool->idle() == 0) give_up("not recycled in a static destructor");
    }
} g_late;

class object_pool_at_exit : public testing::Test {
protected:
    object_pool_at_exit() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(object_pool_at_exit, recycles_in_static_destructors_before_and_after_its_own) {
    EXPECT_EXIT(
        {
            g_pool.emplace();
            test::settle(*g_pool);
            g_early = g_pool->acquire();
            g_late.shared = g_pool->acquire();
            std::atexit([] {
                if (g_alive != 2) give_up("before");
            });
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

// A destructor that runs when the thread's pthread keys are: after all thread_local objects, and perhaps after the caches.
pthread_key_t g_key;
TEST(object_pool_at_thread_exit, recycles_after_the_threads_cache_is_gone) {
    pooled::object_pool<buffer> pool;
    ASSERT_EQ(pthread_key_create(&g_key,
                                 [](void* p) {
                                     auto* const held = static_cast<std::shared_ptr<buffer>*>(p);
                                     static thread_local int rounds = 0;
                                     if (++rounds < 3)
                                         pthread_setspecific(g_key, p);  // once more, after the others
                                     else
                                         delete held;
                                 }),
              0);
    std::thread([&] {
        test::settle(pool);
        pthread_setspecific(g_key, new std::shared_ptr<buffer>(pool.acquire()));
    }).join();
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
    pthread_key_delete(g_key);
}

TEST(object_pool_after_fork, works_in_the_child_with_objects_that_other_threads_had_cached) {
    pooled::object_pool<int> pool({.max_objects = 10});
    test::sleeper other;
    other.run([&] {
        test::settle(pool);
        auto const a = pool.acquire();
        auto const b = pool.acquire();
    });
    EXPECT_EQ(test::in_child([&] {
                  std::vector<std::shared_ptr<int>> all;
                  while (auto p = pool.try_acquire())
                      all.push_back(std::move(p));
                  return all.size() == 10 && test::is_valid(pool);
              }),
              0);
    other.run([&] { test::settle(pool); });
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(object_pool_after_fork, has_no_waiter_in_the_child) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    std::thread other([&] { EXPECT_TRUE(pool.acquire_for(1h)); });
    while (pool.waiting() != 1)
        std::this_thread::yield();
    EXPECT_EQ(test::in_child([&] {
                  if (pool.waiting() != 0) return false;
                  held.reset();
                  for (int i = 0; i < test::k_settling; ++i)
                      if (!pool.try_acquire()) return false;
                  return test::is_valid(pool);
              }),
              0);
    EXPECT_EQ(pool.waiting(), 1U);
    held.reset();
    other.join();
}

}  // namespace
