// SPDX-License-Identifier: BSL-1.0

// Plan: blocks of every kind are passed between long-lived threads, and between threads that start and end, while others steal,
// trim and count. Each block is filled with its own mark, which is verified when it is freed.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/counting_upstream.hpp"
#include "support/death_tests.hpp"
#include "support/internals.hpp"
#include "support/resident_pages.hpp"
#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <pthread.h>

namespace {

using namespace stress;

class threads_stress : public testing::Test {
protected:
    ~threads_stress() override {
        EXPECT_EQ(g_damaged.exchange(0), 0U) << "blocks overlapped, or were handed out twice";
    }

    void swap_blocks(std::size_t count, std::uint64_t seed) {
        dice r(seed);
        for (std::size_t i = 0; i < count; ++i)
            deallocate(pool, blocks.swap(allocate(pool, random_bytes(r)), r.below(64)));
    }

    void expect_nothing_lost() {
        blocks.drain([&](block b) { deallocate(pool, b); });
        pooled::pool_stats const s = pool.stats();
        EXPECT_EQ(s.in_use, 0U);
        EXPECT_EQ(s.bytes_in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
        pool.trim();
        EXPECT_EQ(upstream.bytes(), 0U) << "a block was lost: its chunk is not wholly free";
    }

    test::counting_upstream upstream;
    pooled::pool pool{{.name = "stress", .chunk_bytes = 256U << 10, .upstream = &upstream}};
    exchange<> blocks;
};

TEST(background_work, goes_on_beside_pools_that_come_and_go) {
    std::atomic<bool> is_over{false};
    std::thread background([&] {
        while (!is_over)
            pooled::detail::g_registry.work_in_background();
    });
    pooled::pool shared{{.release_unused_after = std::chrono::milliseconds(1)}};
    on_threads(4, [&](std::size_t seed) {
        dice r(seed);
        for (std::size_t round = 0; round < scaled(300, 40); ++round) {
            pooled::pool own{{.release_unused_after = std::chrono::milliseconds(1)}};
            for (std::size_t i = 0; i < 100; ++i) {
                pooled::pool& from = i % 2 != 0 ? own : shared;
                deallocate(from, allocate(from, random_bytes(r)));
                from.deallocate(from.allocate(100'000), 100'000);
            }
        }
    });
    is_over = true;
    background.join();
    EXPECT_EQ(shared.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(shared));
}

TEST_F(threads_stress, thousands_of_threads_are_born_and_end_and_no_block_is_lost_or_shared) {
    std::size_t const rounds = scaled(1'000, 120);
    for (std::size_t round = 0; round < rounds; ++round)
        on_threads(4, [&](std::size_t i) { swap_blocks(100, round * 4 + i); });
    EXPECT_EQ(pool.stats().threads, 0U) << "threads that ended left their caches behind";
    EXPECT_EQ(pool.stats().cached, 0U);
    expect_nothing_lost();
}

TEST_F(threads_stress, random_replacement_with_frees_on_other_threads_loses_and_shares_no_block) {
    std::size_t const count = scaled(1'500'000, 60'000);
    on_threads(4, [&](std::size_t index) {
        dice r(index);
        std::vector<block> mine(512);
        for (std::size_t i = 0; i < count; ++i) {
            block& b = mine[r.below(mine.size())];
            if (i % 4 == 0) b = blocks.swap(b, r.below(64));
            deallocate(pool, b);
            b = allocate(pool, random_bytes(r));
        }
        for (block const& b : mine)
            deallocate(pool, b);
    });
    if (!POOLED_STRESS_SANITIZED) {
        EXPECT_GT(pool.stats().refills, 0U);
    }
    expect_nothing_lost();
}

TEST_F(threads_stress, trim_stats_reserve_and_is_valid_run_beside_traffic) {
    {
        std::size_t turn = 0;
        repeatedly const maintenance([&] {
            ++turn;
            if (turn % 2 == 0) pool.trim();
            if (turn % 4 == 0) pool.reserve_bytes(1000, 64);
            if (turn % 8 == 0) {
                EXPECT_TRUE(test::is_valid(pool));
            }
            pooled::pool_stats const s = pool.stats();
            EXPECT_LE(s.in_use, 100'000U);  // never far off: a wrapped count would be astronomic
            EXPECT_LE(s.cached, 1'000'000U);
            EXPECT_LE(s.threads, 4U);
        });
        on_threads(3, [&](std::size_t i) { swap_blocks(scaled(500'000, 20'000), i); });
    }
    expect_nothing_lost();
}

TEST_F(threads_stress, threads_end_while_another_steals) {
    {
        repeatedly const thief([&] { pool.trim(); });
        std::size_t const rounds = scaled(300, 60);
        for (std::size_t round = 0; round < rounds; ++round)
            on_threads(3, [&](std::size_t i) { swap_blocks(20, round * 3 + i); });
    }
    EXPECT_EQ(pool.stats().threads, 0U);
    expect_nothing_lost();
}

TEST_F(threads_stress, default_pool_serves_threads_that_come_and_go) {
    auto const before = pooled::default_pool().stats().in_use;
    exchange<std::shared_ptr<std::vector<int>>> shared;
    std::size_t const rounds = scaled(400, 50);
    for (std::size_t round = 0; round < rounds; ++round)
        on_threads(4, [&](std::size_t i) {
            dice r(round * 4 + i);
            for (int k = 0; k < 200; ++k)
                static_cast<void>(shared.swap(pooled::make_shared<std::vector<int>>(3, k), r.below(64)));
        });
    shared.drain([](auto const& p) { EXPECT_TRUE(p == nullptr || p->size() == 3); });
    EXPECT_EQ(pooled::default_pool().stats().in_use, before);
    EXPECT_TRUE(test::is_valid(pooled::default_pool()));
}

// Plan: how a thread uses pools while it ends, before and after its caches are gone: in destructors of thread_local
// objects and of pthread keys, which run in rounds, so that some run after the library's own.

class thread_exit_stress : public testing::Test {
protected:
    ~thread_exit_stress() override { EXPECT_EQ(g_damaged.exchange(0), 0U); }

    void expect_nothing_lost() {
        pooled::pool_stats const s = pool.stats();
        EXPECT_EQ(s.in_use, 0U);
        EXPECT_EQ(s.cached, 0U) << "a thread that ended kept free blocks to itself";
        EXPECT_EQ(s.threads, 0U);
        EXPECT_TRUE(test::is_valid(pool));
        pool.trim();
        EXPECT_EQ(upstream.bytes(), 0U);
    }

    test::counting_upstream upstream;
    pooled::pool pool{{.name = "thread exit", .chunk_bytes = 64U << 10, .upstream = &upstream}};
};

// Frees a block that the thread had, allocates and frees another.
struct last_use {
    pooled::pool* pool = nullptr;
    block kept;
    std::shared_ptr<std::vector<int>> object;

    void prepare(pooled::pool& from) {
        pool = &from;
        kept = allocate(from, 64);
        object = from.make_shared<std::vector<int>>(3, 7);
    }
    void run() {
        if (pool == nullptr) return;
        deallocate(*pool, kept);
        kept = {};
        object.reset();
        for (int i = 0; i < 3; ++i)
            deallocate(*pool, allocate(*pool, 64 + 8 * static_cast<std::size_t>(i)));
    }
    ~last_use() { run(); }
};

TEST_F(thread_exit_stress, thread_local_destructors_allocate_and_free) {
    std::size_t const rounds = scaled(500, 150);
    for (std::size_t round = 0; round < rounds; ++round)
        on_threads(3, [&](std::size_t) {
            static thread_local last_use first;  // destroyed last
            first.prepare(pool);
            static thread_local last_use second;
            second.prepare(pool);
        });
    expect_nothing_lost();
}

// A key whose destructor runs in every round that POSIX allows: in the later ones the caches are gone.
std::atomic<int> g_latest_round{0};
pthread_key_t g_key;

struct at_key_exit {
    int round = 0;
    last_use use;
    pooled::pool* pool = nullptr;
};

void on_key_exit(void* argument) {
    auto* const state = static_cast<at_key_exit*>(argument);
    int seen = g_latest_round;
    while (seen < state->round && !g_latest_round.compare_exchange_weak(seen, state->round)) {}
    state->use.run();
    state->use.prepare(*state->pool);
    if (++state->round < 3)
        pthread_setspecific(g_key, state);
    else
        delete state;
}

TEST_F(thread_exit_stress, pthread_key_destructors_allocate_and_free_after_the_cache_is_gone) {
    ASSERT_EQ(pthread_key_create(&g_key, on_key_exit), 0);
    std::size_t const rounds = scaled(500, 150);
    for (std::size_t round = 0; round < rounds; ++round)
        on_threads(3, [&](std::size_t) {
            auto* const state = new at_key_exit;
            state->pool = &pool;
            state->use.prepare(pool);
            pthread_setspecific(g_key, state);
        });
    EXPECT_EQ(g_latest_round, 2);
    pthread_key_delete(g_key);
    expect_nothing_lost();
}

// A drop remembers the cache it went to. That cache is gone when the key's destructor drops the second object.
TEST_F(thread_exit_stress, objects_dropped_after_the_cache_is_gone_return_to_pool) {
    using object = std::shared_ptr<std::array<char, 48>>;
    ASSERT_EQ(pthread_key_create(&g_key, [](void* argument) { delete static_cast<object*>(argument); }), 0);
    for (int round = 0; round < 20; ++round)
        on_threads(2, [&](std::size_t) {
            auto* const kept = new object(pool.make_shared<std::array<char, 48>>());
            pool.make_shared<std::array<char, 48>>().reset();
            pthread_setspecific(g_key, kept);
        });
    pthread_key_delete(g_key);
    expect_nothing_lost();
}

TEST_F(thread_exit_stress, a_thread_that_first_uses_a_pool_in_its_last_destructors_leaves_nothing) {
    // GCC's first thread_local of a process makes a key, for which MinGW's winpthreads waits for ever in a key's destructor.
    static_cast<void>(next_mark());
    ASSERT_EQ(pthread_key_create(&g_key,
                                 [](void* argument) {
                                     auto& from = *static_cast<pooled::pool*>(argument);
                                     deallocate(from, allocate(from, 128));
                                 }),
              0);
    for (std::size_t round = 0; round < 100; ++round)
        on_threads(2, [&](std::size_t) { pthread_setspecific(g_key, &pool); });
    pthread_key_delete(g_key);
    expect_nothing_lost();
}

TEST_F(thread_exit_stress, thread_local_destructors_drop_objects_of_a_pool_that_is_gone) {
    std::size_t const rounds = scaled(500, 150);
    for (std::size_t round = 0; round < rounds; ++round) {
        std::optional<pooled::pool> brief;
        brief.emplace(pooled::pool_options{.chunk_bytes = 64U << 10, .upstream = &upstream});
        test::starting_line made(3);
        test::starting_line gone(3);
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; ++t)
            threads.emplace_back([&] {
                static thread_local std::shared_ptr<std::vector<int>> kept;
                kept = brief->make_shared<std::vector<int>>(3, 7);
                made.arrive_and_wait();
                if (round % 2 == 0) gone.arrive_and_wait();  // or end at the same time
            });
        made.arrive_and_wait();
        brief.reset();
        if (round % 2 == 0) gone.arrive_and_wait();
        for (std::thread& t : threads)
            t.join();
        EXPECT_EQ(upstream.bytes(), 0U);
    }
}

// Not joined and not stopped: it runs into the end of the process.
TEST(process_end_stress, threads_may_still_be_at_work) {
    test::expect_good_end([] {
        static std::atomic<bool> is_running{false};
        std::thread([] {
            dice r(1);
            for (;;) {
                deallocate(pooled::default_pool(), allocate(pooled::default_pool(), 16 + 8 * r.below(60)));
                is_running = true;
            }
        }).detach();
        while (!is_running)
            std::this_thread::yield();
    });
}

// Plan: one thread makes objects and another drops them, the case in which a cache that returns nothing would grow without limit.

struct payload {
    std::array<std::uint64_t, 6> words;
};

constexpr std::size_t k_alive = 100'000;

// One producer, one consumer, k_alive objects on the way.
class ring {
public:
    ring() : m_slots(k_alive) {}
    void push(std::shared_ptr<payload> p) {
        std::size_t const tail = m_tail.load(std::memory_order_relaxed);
        while (tail - m_head.load(std::memory_order_acquire) == k_alive)
            std::this_thread::yield();
        m_slots[tail % k_alive] = std::move(p);
        m_tail.store(tail + 1, std::memory_order_release);
    }
    std::shared_ptr<payload> pop() {
        std::size_t const head = m_head.load(std::memory_order_relaxed);
        while (head == m_tail.load(std::memory_order_acquire))
            std::this_thread::yield();
        std::shared_ptr<payload> p = std::move(m_slots[head % k_alive]);
        m_head.store(head + 1, std::memory_order_release);
        return p;
    }

private:
    std::vector<std::shared_ptr<payload>> m_slots;
    alignas(64) std::atomic<std::size_t> m_head{0};
    alignas(64) std::atomic<std::size_t> m_tail{0};
};

template <class Make>
void hand_off(std::size_t count, Make const& make) {
    ring r;
    std::thread consumer([&] {
        for (std::size_t i = 0; i < count; ++i) {
            auto const p = r.pop();
            if (p->words[0] != i) ++g_damaged;
        }
    });
    for (std::size_t i = 0; i < count; ++i) {
        auto p = make();
        p->words.fill(i);
        r.push(std::move(p));
    }
    consumer.join();
    EXPECT_EQ(g_damaged.exchange(0), 0U);
}

TEST(hand_off_stress, memory_does_not_grow_with_what_passes_from_thread_to_thread) {
    pooled::pool pool{{.name = "hand-off"}};
    std::size_t const before = test::resident_bytes();
    hand_off(scaled(20'000'000, 600'000), [&] { return pool.make_shared<payload>(); });
    std::size_t const after = test::resident_bytes();
    if (!POOLED_STRESS_SANITIZED) {
        EXPECT_LT(after - std::min(after, before), std::size_t{24} << 20);
    }
    pooled::pool_stats const s = pool.stats();
    EXPECT_EQ(s.in_use, 0U);
    EXPECT_LT(s.upstream_bytes, std::size_t{24} << 20) << "more than the objects alive and a few caches";
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
