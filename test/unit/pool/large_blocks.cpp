// SPDX-License-Identifier: BSL-1.0
// Blocks beyond the largest size class: an address of their own at any alignment, also when they come from a reservation
// that was made for another.

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

TEST(large_blocks, of_zero_bytes_have_an_address_of_their_own_at_any_alignment) {
    pooled::pool pool;
    for (std::size_t align = 1; align <= (std::size_t{1} << 20); align *= 2) {
        void* const p = pool.allocate(0, align);
        EXPECT_TRUE(pool.owns(p)) << align;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
        pool.deallocate(p, 0, align);
    }
    EXPECT_TRUE(pool.is_valid());
}

TEST(large_blocks, from_a_reservation_at_another_alignment_are_not_too_short) {
    pooled::pool pool;
    pool.reserve_bytes(1, 80'000, 16384);
    auto* const p = static_cast<std::byte*>(pool.allocate(98'000, 16));
    EXPECT_TRUE(pool.owns(p + 97'999)) << "the block reaches beyond its region";
    pool.deallocate(p, 98'000, 16);
}

TEST(large_blocks, from_a_reservation_at_another_alignment_are_aligned) {
    pooled::pool pool;
    pool.reserve_bytes(1, 98'000, 16);
    void* const p = pool.allocate(80'000, 16384);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 16384, 0U);
    pool.deallocate(p, 80'000, 16384);
}

TEST(large_blocks, that_were_reserved_stay_reserved_when_they_come_back) {
    pooled::pool pool;
    pool.reserve_bytes(2, 100'000);
    auto const calls = pool.stats().upstream_calls;
    for (int i = 0; i < 3; ++i) {
        void* const a = pool.allocate(100'000);
        void* const b = pool.allocate(100'000);
        pool.deallocate(a, 100'000);
        pool.deallocate(b, 100'000);
    }
    EXPECT_EQ(pool.stats().upstream_calls, calls);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST(large_blocks, arrays_that_cannot_be_had_give_an_empty_unique_ptr) {
    pooled::pool pool{{.max_bytes = 1 << 20}};
    EXPECT_EQ(pool.try_make_unique<int[]>(1'000'000), nullptr);
    EXPECT_EQ(pool.try_make_unique<int[]>(~std::size_t{0}), nullptr);
    auto const p = pool.try_make_unique<int[]>(100);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(p[99], 0);
}

}  // namespace
