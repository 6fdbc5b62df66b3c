// SPDX-License-Identifier: BSL-1.0
// memorypool::boost_intrusive_pool used by many threads at once: no item is given to two, none is lost, a bound is hard and
// strands nothing, and clear(), the pool's end, ends of threads and fork may come at any moment.

#include "pooled/compat/boost_intrusive_pool.hpp"
#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/in_child.hpp"
#include "support/sanitizer.hpp"

#include <boost/intrusive_ptr.hpp>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace {

std::atomic<std::int64_t> g_alive{0};
std::atomic<std::size_t> g_shared{0};  // items that two had at once, to be expected 0

class item : public memorypool::boost_intrusive_pool_item {
public:
    item() noexcept { ++g_alive; }
    ~item() override { --g_alive; }
    item(item const&) = delete;
    item& operator=(item const&) = delete;

    void init(std::uint64_t mark) noexcept {
        if (m_is_used.exchange(true)) ++g_shared;
        m_mark = mark;
    }
    void destroy() override {
        if (!m_is_used.exchange(false)) ++g_shared;
    }
    [[nodiscard]] std::uint64_t mark() const noexcept { return m_mark; }

private:
    std::atomic<bool> m_is_used{false};
    std::uint64_t m_mark = 0;
    [[maybe_unused]] std::array<std::uint64_t, 4> m_payload{};
};

using pool_type = memorypool::boost_intrusive_pool<item>;
using handle = boost::intrusive_ptr<item>;

class intrusive_pool : public testing::Test {
protected:
    intrusive_pool() : m_blocks(pooled::default_pool().stats().in_use) {}
    ~intrusive_pool() override {
        EXPECT_EQ(g_shared, 0U);
        EXPECT_EQ(g_alive, 0);
        EXPECT_EQ(pooled::default_pool().stats().in_use, m_blocks) << "memory was left behind";
    }

private:
    std::uint64_t m_blocks;
};

[[nodiscard]] pool_type make(std::size_t initial, std::size_t step, std::size_t max = 0) {
    return pool_type(initial, step, max, memorypool::RECYCLE_METHOD_DESTROY_FUNCTION);
}

// Replaces random handles of its own, and swaps some with other threads.
void churn(pool_type& pool, stress::exchange<handle>& others, std::size_t seed, std::size_t rounds,
           std::size_t held) {
    stress::dice dice(seed);
    std::vector<handle> mine(held);
    for (std::size_t i = 0; i < rounds; ++i) {
        std::size_t const at = dice.below(held);
        if (handle fresh = pool.allocate_through_init(stress::next_mark())) mine[at] = std::move(fresh);
        if (i % 8 == 0) mine[at] = others.swap(std::move(mine[at]), dice.below(64));
        if (i % 16 == 0) mine[dice.below(held)].reset();
    }
}

TEST_F(intrusive_pool, gives_no_item_to_two_threads_and_loses_none) {
    for (std::size_t const held : {3U, 100U, 1000U}) {
        pool_type pool = make(64, 64);
        stress::exchange<handle> others;
        stress::on_threads(
            4, [&](std::size_t i) { churn(pool, others, i, stress::scaled(600'000, 20'000), held); });
        others.drain([](handle) {});
        EXPECT_EQ(pool.inuse_count(), 0U);
        EXPECT_EQ(pool.unused_count(), pool.capacity());
        EXPECT_EQ(static_cast<std::size_t>(g_alive), pool.capacity());
        EXPECT_LE(pool.capacity(), 4 * held + 64 + 2 * 64 + 4 * 64) << "grows for want of items only";
        pool.check();
    }
}

// One thread makes steps without a lock until the others come, and again when it is the only one that is left.
TEST_F(intrusive_pool, grows_for_want_of_items_only_while_threads_come_and_go) {
    constexpr std::size_t k_threads = 3;
    constexpr std::size_t k_held = 12;
    for (std::size_t round = 0; round < stress::scaled(3'000, 300); ++round) {
        std::size_t const step = 1 + round % 3;
        pool_type pool = make(1, step);
        stress::on_threads(k_threads, [&](std::size_t i) {
            std::array<handle, k_held> mine;
            for (std::size_t turn = 0; turn <= i; ++turn)
                for (handle& each : mine) {
                    std::uint64_t const mark = stress::next_mark();
                    each = pool.allocate_through_init(mark);
                    EXPECT_EQ(each->mark(), mark);
                }
            if (i == 1) pool.check();
        });
        EXPECT_EQ(pool.inuse_count(), 0U);
        EXPECT_EQ(pool.unused_count(), pool.capacity());
        EXPECT_LE(pool.capacity(), k_threads * (k_held + 1) + step)
            << "a thread drops an item after it took one";
        EXPECT_EQ(static_cast<std::size_t>(g_alive), pool.capacity());
        EXPECT_EQ(pool.capacity(), 1 + (pool.enlarge_steps_done() - 1) * step);
    }
}

// All items are needed, so the caches must hide none.
TEST_F(intrusive_pool, bound_is_hard_and_strands_nothing) {
    for (std::size_t const items : {1U, 5U, 16U, 200U}) {
        pool_type pool = make(items, 0);
        stress::exchange<handle> others;
        stress::on_threads(8,
                           [&](std::size_t i) { churn(pool, others, i, stress::scaled(60'000, 4'000), 40); });
        others.drain([](handle) {});
        EXPECT_EQ(pool.capacity(), items);
        std::vector<handle> all;
        while (handle one = pool.allocate_through_init(0U))
            all.push_back(std::move(one));
        EXPECT_EQ(all.size(), items);
        pool.check();
    }
}

TEST_F(intrusive_pool, items_handed_from_thread_to_thread_come_back_to_the_first) {
    pool_type pool = make(64, 64);
    stress::exchange<handle> slots;
    std::atomic<bool> done{false};
    std::thread consumer([&] {
        for (std::size_t i = 0; !done; ++i)
            static_cast<void>(slots.swap(nullptr, i));
    });
    for (std::size_t i = 0; i < stress::scaled(2'000'000, 50'000); ++i)
        static_cast<void>(slots.swap(pool.allocate_through_init(i), i));
    done = true;
    consumer.join();
    slots.drain([](handle) {});
    EXPECT_LT(pool.capacity(), 2000U) << "what the consumer freed is found, the pool need not grow";
    EXPECT_EQ(pool.inuse_count(), 0U);
    pool.check();
}

TEST_F(intrusive_pool, handles_copied_and_dropped_by_many_threads_count_right) {
    pool_type pool = make(16, 0);
    for (std::size_t round = 0; round < stress::scaled(150, 30); ++round) {
        handle shared = pool.allocate_through_init(round);
        ASSERT_NE(shared, nullptr);
        std::atomic<bool> go{false};
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&go, round, mine = shared]() mutable {
                while (!go)
                    std::this_thread::yield();
                for (int i = 0; i < 50; ++i) {
                    handle const copy = mine;
                    EXPECT_EQ(copy->mark(), round);
                }
                mine.reset();
            });
        shared.reset();
        go = true;
        for (std::thread& thread : threads)
            thread.join();
        ASSERT_EQ(pool.unused_count(), 16U);
    }
}

TEST_F(intrusive_pool, is_cleared_while_threads_use_it) {
    pool_type pool = make(64, 32);
    stress::exchange<handle> others;
    {
        stress::repeatedly const clearing([&pool] {
            pool.clear();
            std::this_thread::yield();
        });
        stress::on_threads(
            3, [&](std::size_t i) { churn(pool, others, i, stress::scaled(1'000'000, 20'000), 50); });
    }
    others.drain([](handle) {});
    EXPECT_EQ(pool.inuse_count(), 0U);
    pool.check();
    pool.clear();
    EXPECT_EQ(g_alive, 0);
}

TEST_F(intrusive_pool, is_observed_and_checked_while_threads_use_it) {
    pool_type pool = make(64, 32);
    stress::exchange<handle> others;
    {
        stress::repeatedly const observing([&pool] {
            EXPECT_LE(pool.unused_count(), pool.capacity());
            EXPECT_FALSE(pool.is_memory_exhausted() && pool.unused_count() > 0);
            static_cast<void>(pool.inuse_count());
            pool.check();
        });
        stress::on_threads(
            3, [&](std::size_t i) { churn(pool, others, i, stress::scaled(1'000'000, 20'000), 50); });
    }
    others.drain([](handle) {});
}

// A pool is destroyed while other threads have its items, and caches of it; the next one may get its address.
TEST_F(intrusive_pool, is_destroyed_while_threads_drop_its_items) {
    std::atomic<bool> done{false};
    stress::exchange<handle> slots;
    std::vector<std::thread> droppers;
    for (std::size_t t = 0; t < 2; ++t)
        droppers.emplace_back([&, t] {
            stress::dice dice(t);
            while (!done)
                static_cast<void>(slots.swap(nullptr, dice.below(64)));
        });
    for (std::size_t round = 0; round < stress::scaled(10'000, 300); ++round) {
        pool_type pool = make(8, 8);
        for (std::size_t i = 0; i < 64; ++i)
            static_cast<void>(slots.swap(pool.allocate_through_init(i), i));
    }
    done = true;
    for (std::thread& thread : droppers)
        thread.join();
    slots.drain([](handle) {});
}

// Three threads ask one that is constructing a step to share it.
TEST_F(intrusive_pool, threads_wait_for_the_one_that_grows) {
    struct slow_item : memorypool::boost_intrusive_pool_item {
        slow_item() { std::this_thread::yield(); }
    };
    for (std::size_t round = 0; round < stress::scaled(200, 30); ++round) {
        memorypool::boost_intrusive_pool<slow_item> pool(0, 12);
        std::array<boost::intrusive_ptr<slow_item>, 4> got;
        stress::on_threads(got.size(), [&](std::size_t i) { got[i] = pool.allocate(); });
        EXPECT_EQ(pool.capacity(), 12U) << "one step was enough for all";
        for (auto const& one : got)
            EXPECT_NE(one, nullptr);
    }
}

TEST_F(intrusive_pool, forked_child_goes_on) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not support fork while other threads run";
    pool_type pool = make(64, 16);
    stress::exchange<handle> others;
    auto const use = [&pool, &others] { churn(pool, others, 1, 200, 30); };
    {
        stress::repeatedly const first(use);
        stress::repeatedly const second(use);
        for (int i = 0; i < 100; ++i) {
            auto const use_in_child = [&] {
                {
                    std::vector<handle> many;
                    for (int n = 0; n < 1000; ++n)
                        many.push_back(pool.allocate_through_init(0U));
                    many.clear();
                    pool.check();
                    pool.clear();
                    many.push_back(pool.allocate_through_init(0U));
                    pool_type another = make(10, 10);
                    many.push_back(another.allocate_through_init(0U));
                    std::thread([&pool] { static_cast<void>(pool.allocate_through_init(0U)); }).join();
                }
                return g_shared == 0;
            };
            ASSERT_EQ(test::in_child(use_in_child), 0) << "in fork " << i;
        }
    }
    others.drain([](handle) {});
}

}  // namespace
