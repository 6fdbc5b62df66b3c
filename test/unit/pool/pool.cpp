// SPDX-License-Identifier: BSL-1.0
// Raw blocks: any size, any alignment, no overlap; membership; trimming.

#include "pooled/pool.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <random>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using test::raw_block;

constexpr std::size_t k_mib = std::size_t{1} << 20;

bool is_aligned(void const* p, std::size_t align) { return reinterpret_cast<std::uintptr_t>(p) % align == 0; }

template <class Pool>
void deallocate_all(Pool& pool, std::vector<raw_block>& blocks) {
    for (raw_block const& b : blocks)
        pool.deallocate(b.p, b.bytes, b.align);
    blocks.clear();
}

template <class Pool>
class any_pool : public testing::Test {};
TYPED_TEST_SUITE(any_pool, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(any_pool, is_neither_copied_nor_moved) {
    static_assert(!std::is_copy_constructible_v<TypeParam> && !std::is_move_constructible_v<TypeParam>);
    static_assert(!std::is_copy_assignable_v<TypeParam> && !std::is_move_assignable_v<TypeParam>);
}

TYPED_TEST(any_pool, takes_no_memory_before_the_first_block) {
    test::counting_upstream upstream;
    TypeParam pool{{.upstream = &upstream}};
    EXPECT_EQ(upstream.allocations(), 0U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(any_pool, serves_every_size_at_every_alignment) {
    test::counting_upstream upstream;
    {
        TypeParam pool{{.upstream = &upstream}};
        std::vector<raw_block> blocks;
        for (std::size_t const bytes :
             {1UL, 7UL, 8UL, 16UL, 17UL, 100UL, 128UL, 129UL, 1024UL, 1500UL, 4096UL, 4097UL, 9000UL, 32768UL,
              32769UL, 65536UL, 300'000UL, 3 * k_mib + 5})
            for (std::size_t align = 1; align <= k_mib; align *= 2) {
                void* const p = pool.allocate(bytes, align);
                ASSERT_TRUE(is_aligned(p, align)) << bytes << " at " << align;
                if (bytes <= 65536) test::fill_pattern(p, bytes, blocks.size());
                blocks.push_back({p, bytes, align});
            }
        EXPECT_FALSE(test::overlap(blocks));
        for (std::size_t i = 0; i < blocks.size(); ++i)
            if (blocks[i].bytes <= 65536) {
                ASSERT_TRUE(test::has_pattern(blocks[i].p, blocks[i].bytes, i)) << i;
            }
        EXPECT_TRUE(test::is_valid(pool));
        deallocate_all(pool, blocks);
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(any_pool, serves_every_size_up_to_beyond_the_largest_class) {
    TypeParam pool;
    std::vector<raw_block> blocks;
    for (std::size_t bytes = 0; bytes < 34'000; bytes += bytes < 1100 ? 1 : 61) {
        void* const p = pool.allocate(bytes, 1);
        test::fill_pattern(p, bytes, bytes);
        blocks.push_back({p, bytes, 1});
    }
    EXPECT_FALSE(test::overlap(blocks));
    for (raw_block const& b : blocks)
        ASSERT_TRUE(test::has_pattern(b.p, b.bytes, b.bytes)) << b.bytes;
    deallocate_all(pool, blocks);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(any_pool, aligns_to_max_align_unless_told_otherwise) {
    TypeParam pool;
    for (std::size_t bytes = 0; bytes < 300; ++bytes) {
        void* const p = pool.allocate(bytes);
        ASSERT_TRUE(is_aligned(p, alignof(std::max_align_t))) << bytes;
        pool.deallocate(p, bytes);
    }
}

// Blocks of a power of two, or a small multiple of one, would otherwise begin in a few of the 64 sets of a processor's first cache.
TYPED_TEST(any_pool, spreads_the_first_lines_of_blocks_over_the_sets_of_a_cache) {
    if (test::k_sanitized) GTEST_SKIP() << "the blocks are malloc's";
    for (std::size_t const bytes : {512U, 1000U, 1024U, 1500U, 2048U, 3000U, 4000U}) {
        TypeParam pool;
        std::vector<raw_block> blocks;
        std::set<std::uintptr_t> sets;
        for (int i = 0; i < 4000; ++i) {
            blocks.push_back({pool.allocate(bytes), bytes, alignof(std::max_align_t)});
            sets.insert(reinterpret_cast<std::uintptr_t>(blocks.back().p) / 64 % 64);
        }
        EXPECT_EQ(sets.size(), 64U) << bytes;
        deallocate_all(pool, blocks);
    }
}

TYPED_TEST(any_pool, ignores_a_null_pointer) {
    TypeParam pool;
    pool.deallocate(nullptr, 64);
    pool.deallocate(nullptr, k_mib);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(any_pool, owns_its_blocks_to_their_last_byte) {
    TypeParam pool;
    for (std::size_t const bytes : {1UL, 48UL, 1500UL, 32768UL, 40'000UL, k_mib}) {
        auto* const p = static_cast<std::byte*>(pool.allocate(bytes));
        EXPECT_TRUE(pool.owns(p)) << bytes;
        EXPECT_TRUE(pool.owns(p + bytes - 1)) << bytes;
        pool.deallocate(p, bytes);
    }
}

TYPED_TEST(any_pool, does_not_own_what_is_foreign) {
    TypeParam pool;
    TypeParam other;
    void* const mine = pool.allocate(48);
    void* const theirs = other.allocate(48);
    void* const large = other.allocate(k_mib);
    auto const on_heap = std::make_unique<int>(1);
    int on_stack = 1;
    static int in_data = 1;
    void const* const addresses[] = {theirs,
                                     large,
                                     on_heap.get(),
                                     &on_stack,
                                     &in_data,
                                     nullptr,
                                     this,
                                     &pool,
                                     reinterpret_cast<void*>(~std::uintptr_t{0}),
                                     reinterpret_cast<void*>(std::uintptr_t{1} << 47),
                                     reinterpret_cast<void*>(std::uintptr_t{0xffff} << 48)};
    for (void const* const address : addresses)
        EXPECT_FALSE(pool.owns(address)) << address;
    pool.deallocate(mine, 48);
    other.deallocate(theirs, 48);
    other.deallocate(large, k_mib);
}

TYPED_TEST(any_pool, disowns_its_chunks_when_they_are_trimmed) {
    TypeParam pool;
    void* const large = pool.allocate(k_mib);
    pool.deallocate(large, k_mib);
    void* const small = pool.allocate(48);
    pool.deallocate(small, 48);
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_FALSE(pool.owns(small));
    EXPECT_FALSE(pool.owns(large));
}

TYPED_TEST(any_pool, gives_wholly_free_chunks_back_when_trimmed) {
    test::counting_upstream upstream;
    TypeParam pool{{.chunk_bytes = 1, .upstream = &upstream}};
    std::vector<raw_block> blocks;
    for (std::size_t i = 0; i < 20'000; ++i)
        blocks.push_back({pool.allocate(16 + i % 500, 8), 16 + i % 500, 8});
    std::size_t const most = upstream.bytes();
    EXPECT_EQ(pool.trim(), 0U) << "everything is in use";
    deallocate_all(pool, blocks);
    EXPECT_EQ(pool.trim(), most);
    EXPECT_EQ(upstream.bytes(), 0U);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(any_pool, keeps_the_chunks_that_a_block_is_in_when_trimmed) {
    test::counting_upstream upstream;
    TypeParam pool{{.chunk_bytes = 1, .upstream = &upstream}};
    std::vector<raw_block> blocks;
    for (std::size_t i = 0; i < 10'000; ++i)
        blocks.push_back({pool.allocate(64, 8), 64, 8});
    raw_block const kept = blocks[5000];
    blocks.erase(blocks.begin() + 5000);
    test::fill_pattern(kept.p, 64, 1);
    deallocate_all(pool, blocks);
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_EQ(upstream.blocks(), 1U);
    EXPECT_TRUE(test::has_pattern(kept.p, 64, 1));
    EXPECT_TRUE(pool.owns(kept.p));
    pool.deallocate(kept.p, 64, 8);
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(any_pool, counts_what_a_trim_gives_back_once) {
    TypeParam pool;
    std::vector<void*> blocks;
    for (int i = 0; i < 3000; ++i)
        blocks.push_back(pool.allocate(1500));
    for (std::size_t i = 1; i < blocks.size(); ++i)
        if (i % 100 != 0) pool.deallocate(blocks[i], 1500);
    EXPECT_GT(pool.trim(), 3000U * 1000);
    EXPECT_EQ(pool.trim(), 0U);
    pool.deallocate(pool.allocate(1500), 1500);
    EXPECT_LE(pool.trim(), (384U << 10) / 2) << "what a refill took since";
    for (std::size_t i = 0; i < blocks.size(); i += 100)
        pool.deallocate(blocks[i], 1500);
}

TYPED_TEST(any_pool, works_on_after_a_trim_at_any_moment) {
    TypeParam pool{{.chunk_bytes = 1}};
    std::vector<raw_block> blocks;
    std::mt19937_64 random(2);
    for (int i = 0; i < 30'000; ++i) {
        if (blocks.empty() || random() % 100 < (i / 3000 % 2 == 0 ? 70U : 20U)) {
            std::size_t const bytes = random() % 4 == 0 ? random() % 5000 : 16 + random() % 3 * 100;
            blocks.push_back({pool.allocate(bytes, 8), bytes, 8});
            test::fill_pattern(blocks.back().p, std::min<std::size_t>(bytes, 64), bytes);
        } else {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            raw_block const b = blocks.back();
            ASSERT_TRUE(test::has_pattern(b.p, std::min<std::size_t>(b.bytes, 64), b.bytes));
            pool.deallocate(b.p, b.bytes, b.align);
            blocks.pop_back();
        }
        if (i % 500 == 0) {
            pool.trim();
            ASSERT_TRUE(test::is_valid(pool));
        }
    }
    EXPECT_EQ(pool.stats().in_use, blocks.size());
    deallocate_all(pool, blocks);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TYPED_TEST(any_pool, refuses_sizes_that_overflow) {
    TypeParam pool;
    constexpr std::size_t max = ~std::size_t{0};
    for (std::size_t const bytes : {max, max - 1, max - 64, max / 2, max / 2 + 1})
        for (std::size_t const align :
             {std::size_t{1}, std::size_t{64}, std::size_t{1} << 40, std::size_t{1} << 63}) {
            EXPECT_THROW(static_cast<void>(pool.allocate(bytes, align)), std::bad_alloc)
                << bytes << " at " << align;
            EXPECT_EQ(pool.try_allocate(bytes, align), nullptr);
        }
    EXPECT_THROW(static_cast<void>(pool.allocate(1, std::size_t{1} << 63)), std::bad_alloc);
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TYPED_TEST(any_pool, uses_a_freed_block_again_without_asking_upstream) {
    test::counting_upstream upstream;
    TypeParam pool{{.upstream = &upstream}};
    for (int i = 0; i < 100'000; ++i)
        pool.deallocate(pool.allocate(48), 48);
    EXPECT_EQ(upstream.allocations(), 1U);
}

TYPED_TEST(any_pool, can_stand_on_another_pool) {
    test::counting_upstream upstream;
    {
        TypeParam below{{.name = "below", .upstream = &upstream}};
        TypeParam above{{.name = "above", .upstream = below.resource()}};
        std::vector<raw_block> blocks;
        for (std::size_t i = 0; i < 2000; ++i)
            blocks.push_back({above.allocate(i * 20, 8), i * 20, 8});
        EXPECT_FALSE(below.owns(blocks.back().p));
        EXPECT_FALSE(test::overlap(blocks));
        deallocate_all(above, blocks);
        above.trim();
        EXPECT_EQ(below.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(below));
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(any_pool, does_not_own_what_follows_its_memory) {
    // An upstream that returns one piece after the other: the bytes behind a piece belong to another owner.
    alignas(16384) static std::byte buffer[16 * 16384];
    std::pmr::monotonic_buffer_resource upstream(buffer, sizeof(buffer), std::pmr::null_memory_resource());
    TypeParam pool{{.max_bytes = 100'000, .upstream = &upstream}};
    std::vector<raw_block> blocks;
    while (void* const p = pool.try_allocate(48, 8))
        blocks.push_back({p, 48, 8});
    void* const behind_chunks = upstream.allocate(64, 8);
    EXPECT_FALSE(pool.owns(behind_chunks));
    deallocate_all(pool, blocks);
    pool.trim();
    void* const large = pool.allocate(40'000);
    void* const behind_large = upstream.allocate(64, 8);
    EXPECT_TRUE(pool.owns(large));
    EXPECT_FALSE(pool.owns(behind_large));
    pool.deallocate(large, 40'000);
}

}  // namespace
