// SPDX-License-Identifier: BSL-1.0
// The pools of the process by id, and the caches of a thread.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace {

using namespace pooled::detail;

TEST(registry, finds_a_pool_by_its_id_until_its_last_block_is_returned) {
    auto pool = std::make_unique<pooled::pool>();
    std::uint32_t const id = test::core_of(*pool).id();
    EXPECT_NE(id, k_default_pool_id);
    EXPECT_EQ(g_registry.find(id), &test::core_of(*pool));
    auto block = pool->make_shared<int>(1);
    pool.reset();
    ASSERT_NE(g_registry.find(id), nullptr);
    EXPECT_TRUE(g_registry.find(id)->is_closed());
    pooled::pool const other;
    EXPECT_NE(test::core_of(other).id(), id);
    block.reset();
    EXPECT_EQ(g_registry.find(id), nullptr);
}

TEST(registry, gives_the_lowest_free_id_again) {
    std::vector<std::unique_ptr<pooled::pool>> pools;
    for (int i = 0; i < 100; ++i)
        pools.push_back(std::make_unique<pooled::pool>());
    std::uint32_t const id = test::core_of(*pools[40]).id();
    pools[40].reset();
    pooled::pool const next;
    EXPECT_EQ(test::core_of(next).id(), id);
}

TEST(registry, gives_an_incremental_pool_a_far_id) {
    pooled::pool const pool{{.teardown = pooled::teardown::incremental}};
    EXPECT_GE(test::core_of(pool).id(), k_far_slot);
    pooled::pool const next;
    EXPECT_LT(test::core_of(next).id(), test::core_of(pool).id());
}

TEST(registry, makes_one_cache_for_a_thread_and_a_pool) {
    pooled::pool pool;
    thread_cache* const cache = g_registry.attach(test::core_of(pool));
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(g_registry.attach(test::core_of(pool)), cache);
    EXPECT_EQ(t_state.find(test::core_of(pool).id()), cache);
    test::sleeper other;
    other.run([&] { EXPECT_NE(g_registry.attach(test::core_of(pool)), cache); });
    EXPECT_EQ(pool.stats().threads, 2U);
}

TEST(registry, frees_the_callers_cache_of_a_pool_that_it_closes) {
    auto pool = std::make_unique<pooled::pool>();
    std::uint32_t const id = test::core_of(*pool).id();
    pool->deallocate(pool->allocate(48), 48);
    ASSERT_NE(t_state.find(id), nullptr);
    pool.reset();
    EXPECT_EQ(t_state.find(id), nullptr);
    EXPECT_EQ(t_state.closed.load(), nullptr);
}

TEST(registry, frees_another_threads_cache_of_a_closed_pool_at_its_next_slow_call) {
    pooled::pool lasting;
    for (bool const is_far : {false, true}) {
        auto pool = std::make_unique<pooled::pool>(pooled::pool_options{
            .teardown = is_far ? pooled::teardown::incremental : pooled::teardown::immediate});
        std::uint32_t const id = test::core_of(*pool).id();
        test::sleeper other;
        other.run([&] {
            pool->deallocate(pool->allocate(48), 48);
            EXPECT_NE(t_state.find(id), nullptr);
        });
        pool.reset();
        other.run([&] {
            EXPECT_NE(t_state.find(id), nullptr);
            EXPECT_TRUE(t_state.find(id)->gate.is_closed());
            static_cast<void>(g_registry.attach(test::core_of(lasting)));
            EXPECT_EQ(t_state.find(id), nullptr);
        });
    }
}

// The closing thread adds to the list while the owner empties it.
TEST(registry, frees_each_closed_cache_once_while_others_are_closed) {
    pooled::pool lasting;
    std::atomic<bool> done{false};
    constexpr std::size_t k_pools = 20;
    std::vector<std::unique_ptr<pooled::pool>> pools(k_pools);
    std::atomic<std::size_t> ready{0};
    std::atomic<std::size_t> wanted{0};
    std::thread owner([&] {
        std::size_t seen = 0;
        while (!done) {
            static_cast<void>(g_registry.attach(test::core_of(lasting)));
            if (wanted == seen) continue;
            for (auto const& pool : pools)
                pool->deallocate(pool->allocate(48), 48);
            ready = ++seen;
        }
        std::size_t count = 0;
        static_cast<void>(g_registry.attach(test::core_of(lasting)));
        for (thread_cache const* c = t_state.owned; c != nullptr; c = c->next_owned)
            ++count;
        EXPECT_EQ(count, 1U) << "only the lasting pool's is left";
    });
    for (std::size_t round = 1; round <= 150; ++round) {
        for (auto& pool : pools)
            pool = std::make_unique<pooled::pool>();
        wanted = round;
        while (ready != round)
            std::this_thread::yield();
        for (auto& pool : pools)
            pool.reset();
    }
    done = true;
    owner.join();
    EXPECT_EQ(lasting.stats().in_use, 0U);
}

}  // namespace
