// SPDX-License-Identifier: BSL-1.0
// Acquire and release call no malloc, control blocks included, and no system call once the pool has settled. Replaces malloc
// in its own program.

#include "pooled/pooled.hpp"

#include "support/malloc_counter.hpp"
#include "support/syscall_counter.hpp"
#include "unit/object/kinds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

using namespace std::chrono_literals;

namespace {

struct buffer : std::enable_shared_from_this<buffer> {
    char bytes[200];
};

constexpr std::size_t k_count = 500;

// Static: a container of the test's own must not call malloc either.
std::array<std::shared_ptr<buffer>, k_count> g_shared;

template <class Pool>
void churn(Pool& pool) {
    static std::array<pooled::unique_ptr<buffer>, k_count> unique;
    static std::array<typename Pool::rc_pointer, k_count> counted;
    for (int round = 0; round < 20; ++round) {
        for (auto& p : g_shared)
            p = pool.acquire();
        for (auto& p : unique)
            p = pool.try_acquire_unique();
        for (auto& p : g_shared)
            p.reset();
        for (auto& p : counted)
            p = pool.acquire_rc();
        for (auto& p : counted)
            p.reset();
        for (auto& p : g_shared)
            p = pool.acquire_for(1s);
        for (auto& p : g_shared) {
            std::weak_ptr<buffer> const watcher = p;
            p.reset();
        }
        for (auto& p : unique)
            p.reset();
    }
}

template <class Kind>
class acquire_and_release : public testing::Test {};
TYPED_TEST_SUITE(acquire_and_release, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(acquire_and_release, call_no_malloc_not_even_the_first_time) {
    typename TypeParam::template pool<buffer> pool;
    test::expect_no_malloc([&] { churn(pool); });
}

TEST(acquire_and_wait, call_no_malloc) {
    if (!test::k_counts_malloc) GTEST_SKIP() << "this build cannot count mallocs";
    pooled::object_pool<buffer> pool({.max_objects = 1});
    auto const held = pool.acquire();
#if POOLED_HAS_STOP_TOKEN
    std::stop_source source;
    std::atomic<bool> is_started{false};
    std::atomic<bool> is_counted{false};
    std::jthread other([&] {
        is_started = true;
        while (pool.waiting() == 0)
            std::this_thread::yield();
        source.request_stop();
        while (!is_counted)  // a thread that ends frees what its start allocated
            std::this_thread::yield();
    });
    while (!is_started)
        std::this_thread::yield();
#endif
    auto const before = test::malloc_calls_so_far();
    EXPECT_FALSE(pool.acquire_for(0s));
#if POOLED_HAS_STOP_TOKEN
    EXPECT_FALSE(pool.acquire(source.get_token()));
#endif
    EXPECT_FALSE(pool.acquire_until(std::chrono::steady_clock::now() + 1ms));
    EXPECT_EQ(test::malloc_calls_so_far() - before, 0U);
#if POOLED_HAS_STOP_TOKEN
    is_counted = true;
#endif
}

TYPED_TEST(acquire_and_release, call_no_system_once_the_pool_has_settled) {
    std::unique_ptr<typename TypeParam::template pool<buffer>> pool;
    test::expect_no_syscalls(
        [&] {
            pool = std::make_unique<typename TypeParam::template pool<buffer>>(
                pooled::object_pool_options{.initial_objects = 2 * k_count});
            test::settle(*pool);
            churn(*pool);
        },
        [&] { churn(*pool); });
}

}  // namespace
