// SPDX-License-Identifier: BSL-1.0
// A thread that is preempted while the system takes free pages back, or makes pages that were reserved: others go on, and what it was
// returning is not lost.

#include <gtest/gtest.h>

#if defined(__linux__) && !defined(POOLED_TEST_SANITIZER_ADDRESS) && !defined(POOLED_TEST_SANITIZER_THREAD)

#include "pooled/make_shared.hpp"
#include "pooled/pool.hpp"

#include "support/in_child.hpp"
#include "support/internals.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace std::chrono_literals;

namespace {

constexpr int k_populate = 23;  // MADV_POPULATE_WRITE, which older headers have not

thread_local bool t_is_preempted = false;
std::atomic<bool> g_is_inside{false};
std::atomic<bool> g_may_leave{false};

template <class Condition>
bool within_20_s(Condition&& is_met) {
    auto const end = std::chrono::steady_clock::now() + 20s;
    while (!is_met()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(100us);
    }
    return true;
}

}  // namespace

// The C library's, for a thread that is not preempted.
extern "C" int madvise(void* at, std::size_t bytes, int advice) noexcept {
    if (t_is_preempted && (advice == MADV_DONTNEED || advice == k_populate)) {
        g_is_inside = true;
        within_20_s([] { return g_may_leave.load(); });
    }
    return static_cast<int>(::syscall(SYS_madvise, at, bytes, advice));
}

namespace {

constexpr std::size_t k_bytes = (std::size_t{64} << 10) - pooled::detail::k_guard_bytes;

// A pool of whose blocks every fourth is free, and a thread that returns their memory and does not come back.
struct preempted_release : testing::Test {
    void SetUp() override {
        while (void* const p = blocks.size() < 64 ? pool.try_allocate(k_bytes) : nullptr)
            blocks.push_back(p);
        std::vector<void*> kept;
        for (std::size_t i = 0; i < blocks.size(); ++i)
            if (i % 4 == 0)
                pool.deallocate(blocks[i], k_bytes), ++freed;
            else
                kept.push_back(blocks[i]);
        blocks = kept;
        returning = std::thread([this] {
            t_is_preempted = true;
            static_cast<void>(pool.trim());
        });
        if (!within_20_s([] { return g_is_inside.load(); }))
            GTEST_SKIP() << "this build returns no pages of free spans";
    }
    void TearDown() override {
        g_may_leave = true;
        returning.join();
        for (void* const p : blocks)
            pool.deallocate(p, k_bytes);
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
        g_is_inside = g_may_leave = false;
    }

    pooled::pool pool{{.max_bytes = std::size_t{4} << 20}};
    std::vector<void*> blocks;
    std::size_t freed = 0;
    std::thread returning;
};

TEST_F(preempted_release, stops_nobody) {
    auto const begin = std::chrono::steady_clock::now();
    for (std::size_t const bytes : {16U, 1'000U, 30'000U}) {
        std::thread([&] { pool.deallocate(pool.allocate(bytes), bytes); }).join();
        pool.deallocate(pool.allocate(bytes), bytes);
    }
    blocks.push_back(pool.allocate(k_bytes));
    pool.deallocate(blocks.back(), k_bytes);
    blocks.pop_back();
    EXPECT_GT(pool.stats().in_use, 0U);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "something waited for it";
}

TEST_F(preempted_release, makes_no_bounded_pool_say_that_it_is_exhausted) {
    std::atomic<bool> has_all{false};
    std::thread greedy([&] {
        for (std::size_t i = 0; i < freed; ++i) {
            blocks.push_back(pool.try_allocate(k_bytes));
            EXPECT_NE(blocks.back(), nullptr) << i << " of " << freed;
        }
        has_all = true;
    });
    std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(has_all);
    g_may_leave = true;
    greedy.join();
    EXPECT_EQ(pool.try_allocate(k_bytes), nullptr);
}

TEST_F(preempted_release, makes_no_reservation_fail) {
    std::atomic<bool> is_reserved{false};
    std::thread reserving([&] {
        pool.reserve_bytes(freed, k_bytes);
        is_reserved = true;
    });
    std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(is_reserved);
    g_may_leave = true;
    reserving.join();
}

// As synchronized_pool_resource::release() of compat/pmr.
TEST_F(preempted_release, keeps_who_discards_all_blocks_and_not_who_forks_meanwhile) {
    std::atomic<bool> is_over{false};
    std::thread discarding([&] {
        test::core_of(pool).discard();
        is_over = true;
    });
    for (int i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(2ms);  // it probably waits
        EXPECT_EQ(test::in_child([&] {
                      return pooled::detail::g_forks_lost == 0 && pool.try_allocate(16) != nullptr &&
                             test::is_valid(pool);
                  }),
                  0)
            << "the fork waited for a lock";
        std::thread([] { static_cast<void>(pooled::make_shared<int>()); }).join();
    }
    EXPECT_FALSE(is_over);
    g_may_leave = true;
    discarding.join();
    blocks.clear();
}

TEST_F(preempted_release, loses_nothing_in_a_forked_child) {
    EXPECT_EQ(test::in_child([&] {
                  for (std::size_t i = 0; i < freed; ++i)
                      if (pool.try_allocate(k_bytes) == nullptr) return false;
                  return test::is_valid(pool);
              }),
              0);
}

// As one whose page faults wait for another machine's memory.
TEST(a_thread_preempted_while_it_makes_pages, stops_nobody_and_loses_nothing) {
    pooled::pool pool{{.touch_reserved = true}};
    std::thread reserving([&] {
        t_is_preempted = true;
        pool.reserve_bytes(1000, 1000);
    });
    if (!within_20_s([] { return g_is_inside.load(); })) {
        reserving.join();
        GTEST_SKIP() << "this build or system does not make pages in advance";
    }
    auto const begin = std::chrono::steady_clock::now();
    std::vector<void*> out;
    for (int i = 0; i < 3000; ++i)
        out.push_back(pool.allocate(i % 2 == 0 ? 1000 : 64));
    for (std::size_t i = 0; i < out.size(); ++i)
        pool.deallocate(out[i], i % 2 == 0 ? 1000 : 64);
    std::thread([&] { pool.deallocate(pool.allocate(k_bytes), k_bytes); }).join();
    static_cast<void>(pool.trim());
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_EQ(test::in_child([&] { return test::is_valid(pool) && pool.try_allocate(1000) != nullptr; }), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "something waited for it";
    g_may_leave = true;
    reserving.join();
    EXPECT_TRUE(test::is_valid(pool));
    static_cast<void>(pool.trim());
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    g_is_inside = g_may_leave = false;
}

// Of POOLED_BACKGROUND=1, in a pool that nobody calls.
TEST(preempted_background_thread, stops_only_who_destroys_the_pool_that_it_works_on) {
    std::optional<pooled::pool> pool(
        std::in_place, pooled::pool_options{.release_unused_after = std::chrono::milliseconds(1)});
    pooled::pool other;
    std::vector<void*> out;
    for (int i = 0; i < 64; ++i)
        out.push_back(std::memset(pool->allocate(k_bytes), 1, k_bytes));
    for (std::size_t i = 0; i < out.size(); i += 2)
        pool->deallocate(out[i], k_bytes);
    std::atomic<bool> is_over{false};
    std::thread background([&] {
        t_is_preempted = true;
        while (!is_over && !g_is_inside)
            pooled::detail::g_registry.work_in_background();
    });
    if (!within_20_s([] { return g_is_inside.load(); })) {
        is_over = true;
        background.join();
        GTEST_SKIP() << "this build returns no pages of free spans";
    }
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 5; ++i) {
        pooled::pool made_meanwhile;
        std::thread([&] { other.deallocate(other.allocate(64), 64); }).join();
        std::thread([&] { pool->deallocate(pool->allocate(k_bytes), k_bytes); }).join();
    }
    EXPECT_EQ(test::in_child([&] {
                  std::thread([&] { pool->deallocate(pool->allocate(64), 64); }).join();
                  for (std::size_t i = 1; i < out.size(); i += 2)
                      pool->deallocate(out[i], k_bytes);
                  pool.reset();
                  return true;
              }),
              0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "something waited for it";
    for (std::size_t i = 1; i < out.size(); i += 2)
        pool->deallocate(out[i], k_bytes);
    std::atomic<bool> is_destroyed{false};
    std::thread destroyer([&] {
        pool.reset();
        is_destroyed = true;
    });
    std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(is_destroyed);
    g_may_leave = true;
    destroyer.join();
    background.join();
    g_is_inside = g_may_leave = false;
}

}  // namespace

#endif
