// SPDX-License-Identifier: BSL-1.0
// The one path that all pools share: also for pools beyond the 31 that a thread finds by index, and for every class until
// its cache is full and empty.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace {

using namespace pooled::detail;

// Takes more blocks of each class than a cache holds, and frees them.
template <class Pool>
void fill_and_empty_every_cache(Pool& pool) {
    for (int round = 0; round < 2; ++round)
        for (class_geometry const g : k_geometry) {
            std::vector<void*> blocks;
            for (std::uint32_t i = 0; i < 2U * g.cache_blocks + 3; ++i)
                blocks.push_back(pool.allocate(g.block_bytes, 8));
            for (void* const p : blocks)
                pool.deallocate(p, g.block_bytes, 8);
        }
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(fast_path, serves_pools_of_any_id) {
    std::vector<std::unique_ptr<pooled::pool>> pools;
    for (std::uint32_t i = 0; i < 2 * k_near_slots; ++i)
        pools.push_back(std::make_unique<pooled::pool>());
    ASSERT_GT(test::core_of(*pools.back()).id(), k_near_slots);
    fill_and_empty_every_cache(*pools.front());
    fill_and_empty_every_cache(*pools[k_near_slots]);
    fill_and_empty_every_cache(*pools.back());
    EXPECT_GT(pools.back()->stats().cached, 0U) << "a pool of any id is cached";
}

TEST(fast_path, serves_local_pools_of_any_id) {
    std::vector<std::unique_ptr<pooled::local_pool>> pools;
    for (std::uint32_t i = 0; i < 2 * k_near_slots; ++i)
        pools.push_back(std::make_unique<pooled::local_pool>());
    fill_and_empty_every_cache(*pools.back());
}

TEST(fast_path, serves_an_incremental_pool) {
    pooled::pool pool{{.teardown = pooled::teardown::incremental}};
    fill_and_empty_every_cache(pool);
}

TEST(fast_path, finds_the_pool_and_the_class_of_a_block) {
    std::vector<std::unique_ptr<pooled::pool>> pools;
    for (std::uint32_t i = 0; i < 2 * k_near_slots; ++i)
        pools.push_back(std::make_unique<pooled::pool>());
    pooled::local_pool local;
    for (std::size_t const bytes :
         {std::size_t{1}, std::size_t{48}, std::size_t{32'768}, std::size_t{100'000}}) {
        for (auto const& pool : pools)
            deallocate_found(pool->allocate(bytes));
        deallocate_found(local.allocate(bytes));
        deallocate_found(pooled::default_pool().allocate(bytes));
    }
    for (auto const& pool : pools)
        EXPECT_EQ(pool->stats().in_use, 0U);
    EXPECT_EQ(local.stats().in_use, 0U);
}

}  // namespace
