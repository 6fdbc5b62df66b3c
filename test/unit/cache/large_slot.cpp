// SPDX-License-Identifier: BSL-1.0
// The large block that a thread keeps: one, of the requested size, and none that others may need.

#include "pooled/cache/large_slot.hpp"

#include "pooled/heap/large_block.hpp"

#include <gtest/gtest.h>

#include <cstddef>

namespace {

using pooled::detail::large_block;
using pooled::detail::large_reservation;
using pooled::detail::large_slot;

alignas(4096) std::byte g_memory[8192];

large_block block_of(std::size_t bytes) {
    large_block b;
    b.payload = g_memory + 4096 + 64;
    b.total = 2 * bytes;
    b.bytes = bytes;
    return b;
}

TEST(large_slot, gives_the_block_to_a_request_for_as_many_bytes) {
    large_slot slot;
    large_block b = block_of(100'000);
    ASSERT_TRUE(slot.put(b));
    EXPECT_FALSE(slot.empty());
    EXPECT_EQ(slot.bytes(), 100'000U);
    EXPECT_EQ(slot.total(), 200'000U);
    EXPECT_EQ(slot.take(99'999, 16), nullptr);
    EXPECT_EQ(slot.take(100'000, 16), &b);
    EXPECT_EQ(slot.payload(), g_memory + 4096 + 64);
    EXPECT_TRUE(slot.empty());
    EXPECT_EQ(slot.take(100'000, 16), nullptr);
}

TEST(large_slot, gives_no_block_whose_payload_is_not_aligned_as_is_wanted) {
    large_slot slot;
    large_block b = block_of(100'000);
    ASSERT_TRUE(slot.put(b));
    EXPECT_EQ(slot.take(100'000, 128), nullptr);
    EXPECT_EQ(slot.take(100'000, 64), &b);
}

TEST(large_slot, keeps_one_block) {
    large_slot slot;
    large_block first = block_of(100'000);
    large_block second = block_of(100'000);
    EXPECT_TRUE(slot.put(first));
    EXPECT_FALSE(slot.put(second));
    EXPECT_EQ(slot.remove(), &first);
    EXPECT_EQ(slot.remove(), nullptr);
    EXPECT_TRUE(slot.put(second));
}

TEST(large_slot, keeps_no_block_that_is_reserved_or_very_large) {
    large_slot slot;
    large_reservation reservation{.bytes = 100'000, .align = 16};
    large_block reserved = block_of(100'000);
    reserved.reserved_for = &reservation;
    large_block huge = block_of(large_slot::k_most_bytes);
    EXPECT_FALSE(slot.put(reserved));
    EXPECT_FALSE(slot.put(huge));
    EXPECT_TRUE(slot.empty());
}

}  // namespace
