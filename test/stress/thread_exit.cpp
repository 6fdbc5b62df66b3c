// SPDX-License-Identifier: BSL-1.0

// Plan: how a thread uses pools while it ends, before and after its caches are gone: in destructors of thread_local
// objects and of pthread keys, which run in rounds, so that some run after the library's own.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <pthread.h>

namespace {

using namespace stress;

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
        std::latch made(3);
        std::latch gone(1);
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; ++t)
            threads.emplace_back([&] {
                static thread_local std::shared_ptr<std::vector<int>> kept;
                kept = brief->make_shared<std::vector<int>>(3, 7);
                made.arrive_and_wait();
                if (round % 2 == 0) gone.wait();  // or end at the same time
            });
        made.arrive_and_wait();
        brief.reset();
        gone.count_down();
        for (std::thread& t : threads)
            t.join();
        EXPECT_EQ(upstream.bytes(), 0U);
    }
}

}  // namespace
