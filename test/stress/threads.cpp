// SPDX-License-Identifier: BSL-1.0

// Plan: blocks of every kind are passed between long-lived threads, and between threads that start and end, while others steal,
// trim and count. Each block is filled with its own mark, which is verified when it is freed.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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

}  // namespace
