// SPDX-License-Identifier: BSL-1.0
// How much memory a pool holds: phases of different sizes share it, free slabs serve any size, idle threads' blocks are used,
// and unused memory returns to upstream and to the system.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/resident_pages.hpp"
#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <list>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t k_kib = std::size_t{1} << 10;
constexpr std::size_t k_mib = std::size_t{1} << 20;

using test::resident_bytes;

// Sizes of sixteen classes, far apart.
std::vector<std::size_t> phase_sizes() {
    return {16, 24, 40, 64, 96, 128, 192, 256, 512, 768, 1024, 1536, 2048, 4096, 8192, 32'768};
}

class phases : public testing::TestWithParam<bool> {};

TEST_P(phases, of_sixteen_sizes_and_32_mib_each_hold_at_most_48_mib) {
    bool const is_shuffled = GetParam();
    pooled::pool pool;
    std::mt19937 random(1);
    for (std::size_t const bytes : phase_sizes()) {
        test::held_blocks blocks(pool, bytes, 8);
        blocks.take(32 * k_mib / bytes);
        EXPECT_LE(pool.stats().upstream_bytes, 48 * k_mib) << bytes;
        if (is_shuffled) std::ranges::shuffle(blocks, random);
    }
    EXPECT_LE(pool.stats().upstream_bytes, 48 * k_mib);
    EXPECT_TRUE(test::is_valid(pool));
}
INSTANTIATE_TEST_SUITE_P(freed, phases, testing::Bool(), [](auto const& one) {
    return std::string(one.param ? "in_random_order" : "in_order");
});

// Blocks of over 32 KiB: what they leave free returns when it is more than what is in use, and than 64 MiB.
constexpr std::size_t k_left = 136 * k_mib;

TEST(large_blocks, of_which_some_were_taken_again_leave_no_more_at_their_end) {
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    constexpr std::size_t k_bytes = 64 * k_kib;
    std::vector<void*> blocks;
    auto const take = [&](std::size_t count) {
        while (count-- != 0)
            blocks.push_back(pool.allocate(k_bytes));
    };
    auto const free = [&](std::size_t count) {
        while (count-- != 0) {
            pool.deallocate(blocks.back(), k_bytes);
            blocks.pop_back();
        }
    };
    take(16'384);
    free(8'192);
    take(2'048);
    free(blocks.size());
    EXPECT_LE(pool.stats().upstream_bytes, k_left);
}

TEST(large_blocks, of_all_sizes_that_are_freed_in_random_order_leave_no_more) {
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    std::mt19937 random(5);
    std::vector<test::raw_block> blocks;
    for (std::size_t total = 0; total < 800 * k_mib; total += blocks.back().bytes) {
        std::size_t const bytes = 33'000 + random() % 229'000;
        blocks.push_back({pool.allocate(bytes), bytes, 16});
    }
    std::ranges::shuffle(blocks, random);
    for (test::raw_block const& one : blocks)
        pool.deallocate(one.p, one.bytes, one.align);
    EXPECT_LE(pool.stats().upstream_bytes, k_left) << "recent addresses keep chunks";
}

TEST(large_blocks, of_one_size_after_the_other_leave_no_more) {
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    for (std::size_t granules = 3; granules <= 1024; granules += 1 + granules / 6)
        test::held_blocks(pool, granules * 16 * k_kib, 8).take(256 * k_mib / (granules * 16 * k_kib));
    EXPECT_LE(pool.stats().upstream_bytes, k_left) << "what came for one size, another left free";
}

TEST(empty_slab, serves_another_class_at_once_in_a_bounded_pool) {
    test::counting_upstream upstream;
    pooled::pool pool{{.max_bytes = 64 * k_kib, .upstream = &upstream}};  // four slabs
    test::held_blocks blocks(pool, 1024, 8);
    ASSERT_EQ(blocks.take_all(), 64U);
    ASSERT_EQ(pool.try_allocate(48, 8), nullptr);
    // The sixteen blocks of one slab.
    auto const slab_of = [](void* p) {
        return reinterpret_cast<std::uintptr_t>(p) / pooled::detail::k_granule_bytes;
    };
    auto const slab = slab_of(blocks[0]);
    std::size_t freed = 0;
    for (void*& p : blocks)
        if (slab_of(p) == slab) {
            pool.deallocate(p, 1024, 8);
            p = nullptr;
            ++freed;
        }
    ASSERT_EQ(freed, 16U);
    void* const other = pool.try_allocate(48, 8);
    EXPECT_NE(other, nullptr);
    EXPECT_EQ(slab_of(other), slab);
    pool.deallocate(other, 48, 8);
}

TEST(exhausted_pool, with_half_of_its_blocks_free_refuses_another_size_and_changes_nothing) {
    std::size_t const max = (test::k_sanitized ? 16 : 256) * k_mib;
    pooled::pool pool{{.max_bytes = max}};
    test::held_blocks blocks(pool, 48, 8);
    blocks.take_all();
    for (std::size_t i = 0; i < blocks.size(); i += 2)
        pool.deallocate(blocks[i], 48, 8);
    EXPECT_EQ(pool.try_allocate(1500), nullptr);
    auto const before = pool.stats();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i)
        ASSERT_EQ(pool.try_allocate(1500), nullptr);
    auto const took = std::chrono::steady_clock::now() - begin;
    auto const after = pool.stats();
    EXPECT_EQ(after.in_use, before.in_use);
    EXPECT_EQ(after.free, before.free) << "no block moved";
    EXPECT_EQ(after.upstream_calls, before.upstream_calls);
    EXPECT_LT(took, std::chrono::seconds(1)) << "version 0.1 took 134 ms each";
    EXPECT_TRUE(test::is_valid(pool));
    for (std::size_t i = 0; i < blocks.size(); i += 2)
        ASSERT_NE(blocks[i] = pool.try_allocate(48, 8), nullptr);
    EXPECT_EQ(pool.try_allocate(48, 8), nullptr);
}

TEST(pools, of_which_ten_thousand_came_and_went_leave_at_most_4_mib) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    auto const once = [] {
        pooled::pool pool;
        auto const a = pool.make_shared<int>(1);
        auto const b = pool.make_unique<int[]>(1000);
    };
    once();
    std::size_t const before = resident_bytes();
    for (int i = 0; i < 10'000; ++i)
        once();
    EXPECT_LE(resident_bytes(), before + 4 * k_mib);
}

TEST(pools, alive_at_once_and_then_gone_leave_at_most_4_mib) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    std::size_t const before = resident_bytes();
    {
        std::vector<std::unique_ptr<pooled::pool>> pools;
        for (int i = 0; i < 2'000; ++i) {
            pools.push_back(std::make_unique<pooled::pool>());
            pools.back()->deallocate(pools.back()->allocate(48), 48);
        }
    }
    // The checked build keeps the addresses of pools that are gone.
    EXPECT_LE(resident_bytes(), before + (POOLED_CHECKED != 0 ? 16 : 4) * k_mib);
}

TEST(trimmed_pool, gives_back_the_free_pages_of_slabs_in_use) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    std::mt19937 random(3);
    pooled::pool pool;
    std::size_t const base = resident_bytes();
    std::vector<test::raw_block> blocks;
    std::size_t total = 0;
    while (total < 200 * k_mib) {
        std::size_t const bytes = std::size_t{16} << random() % 12;  // 16 B to 32 KiB
        blocks.push_back({pool.allocate(bytes), bytes, 16});
        std::memset(blocks.back().p, 1, bytes);
        total += bytes;
    }
    std::ranges::shuffle(blocks, random);
    std::size_t const kept = blocks.size() / 20;
    std::size_t live = 0;
    for (std::size_t i = 0; i < kept; ++i)
        live += blocks[i].bytes;
    for (std::size_t i = kept; i < blocks.size(); ++i)
        pool.deallocate(blocks[i].p, blocks[i].bytes);
    EXPECT_GT(pool.trim(), 100 * k_mib);
    std::size_t const index = blocks.capacity() * sizeof(test::raw_block);
    EXPECT_LE(resident_bytes() - base, live * 5 / 2 + index + 4 * k_mib) << "live: " << live;
    EXPECT_TRUE(test::is_valid(pool));
    for (std::size_t i = 0; i < kept; ++i) {
        auto const* const bytes = static_cast<unsigned char const*>(blocks[i].p);
        ASSERT_EQ(std::count(bytes, bytes + blocks[i].bytes, 1),
                  static_cast<std::ptrdiff_t>(blocks[i].bytes));
        pool.deallocate(blocks[i].p, blocks[i].bytes);
    }
}

// Slow calls, with pauses, until `done` or the deadline.
template <class Done>
bool within_deadline(pooled::pool& pool, Done done) {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        test::held_blocks(pool, 32'768).take(40);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

TEST(unused_memory, goes_back_by_itself) {
    test::counting_upstream upstream;
    pooled::pool pool{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(20)}};
    test::sleeper idle;
    idle.run([&] {
        test::held_blocks blocks(pool, 512);
        blocks.take(32 * k_mib / 512);
        test::held_blocks(pool, 100 * k_kib).take(40);
        pool.deallocate(pool.allocate(5 * k_mib), 5 * k_mib);
    });
    ASSERT_GE(upstream.most_bytes(), 32 * k_mib);
    // Slabs and large blocks go back at different moments.
    EXPECT_TRUE(within_deadline(
        pool, [&] { return upstream.bytes() <= 8 * k_mib && pool.stats().large_cached_bytes == 0; }))
        << upstream.bytes() << ", large blocks " << pool.stats().large_cached_bytes;
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(unused_memory, stays_when_the_option_says_never_and_when_it_is_reserved) {
    test::counting_upstream upstream;
    pooled::pool never{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(0)}};
    pooled::pool reserved{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(1)}};
    never.deallocate(never.allocate(5 * k_mib), 5 * k_mib);
    reserved.reserve_bytes(1000, 512);
    reserved.deallocate(reserved.allocate(5 * k_mib), 5 * k_mib);
    std::size_t const before = never.stats().upstream_bytes;
    std::size_t const reserved_before = reserved.stats().upstream_bytes;
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    EXPECT_TRUE(within_deadline(never, [&] { return std::chrono::steady_clock::now() > until; }));
    EXPECT_TRUE(within_deadline(
        reserved, [&] { return std::chrono::steady_clock::now() > until + std::chrono::milliseconds(100); }));
    EXPECT_GE(never.stats().upstream_bytes, before);
    EXPECT_GE(never.stats().large_cached_bytes, 5 * k_mib);
    EXPECT_GE(reserved.stats().upstream_bytes, reserved_before);
    EXPECT_GE(reserved.stats().large_cached_bytes, 5 * k_mib) << "a pool with a reservation keeps all it has";
}

TEST(threads, of_which_a_thousand_came_and_went_return_all_they_cached) {
    pooled::pool pool;
    int const rounds = test::k_sanitized ? 100 : 1000;
    for (int i = 0; i < rounds; ++i)
        std::thread([&] {
            std::list<test::held_blocks<pooled::pool>> blocks;
            for (std::size_t bytes = 16; bytes < 40'000; bytes += bytes / 2)
                blocks.emplace_back(pool, bytes).take(10);
        }).join();
    auto const s = pool.stats();
    EXPECT_EQ(s.threads, 0U);
    EXPECT_EQ(s.cached, 0U);
    EXPECT_EQ(s.in_use, 0U);
    EXPECT_EQ(s.remote_frees, 0U);
    EXPECT_LE(s.upstream_bytes, 4 * k_mib);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(closed_pool, whose_id_another_one_gets_keeps_no_block_of_that_in_a_threads_cache) {
    test::sleeper other;
    auto closed = std::make_unique<pooled::pool>();
    auto const id = test::core_of(*closed).id();
    other.run([&] { closed->deallocate(closed->allocate(48), 48); });
    closed.reset();
    pooled::pool pool;
    ASSERT_EQ(test::core_of(pool).id(), id);
    for (std::size_t const bytes : {std::size_t{48}, 100 * k_kib, 300 * k_kib, 20 * k_mib}) {
        void* const p = pool.allocate(bytes);
        other.run([&] { pool.deallocate(p, bytes); });
        EXPECT_EQ(pool.stats().in_use, 0U) << bytes;
    }
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST(closed_pool, loses_a_threads_cache_of_it_at_the_threads_next_slow_call) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    test::sleeper other;
    pooled::pool lasting;
    std::size_t before = 0;
    for (int i = 0; i < 3'000; ++i) {
        if (i == 100) before = resident_bytes();
        auto pool = std::make_unique<pooled::pool>();
        other.run([&] { pool->deallocate(pool->allocate(48), 48); });
        pool.reset();
        // Another pool's slow call.
        other.run([&] {
            lasting.deallocate(lasting.allocate(100'000), 100'000);
            test::held_blocks(lasting, 32'768).take(10);
        });
    }
    EXPECT_LE(resident_bytes(), before + 4 * k_mib) << "3,000 caches of 3 KiB would be 9 MiB";
}

}  // namespace
