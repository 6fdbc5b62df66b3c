// SPDX-License-Identifier: BSL-1.0
// Where a payload lies within its region, and which sizes freed regions are sorted by.

#include "pooled/heap/large_block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

using pooled::detail::k_granule_bytes;
using pooled::detail::k_size_max;
using pooled::detail::large_block;
using pooled::detail::large_buckets;

large_block region_of(std::size_t bytes, std::uint16_t offset) {
    large_block b;
    b.base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30);  // never read
    b.total = bytes;
    b.offset = offset;
    return b;
}

TEST(large_block, places_the_payload_at_its_offset) {
    large_block const b = region_of(4 * k_granule_bytes, 640);
    EXPECT_EQ(b.place(1000, 16), b.base + 640);
    EXPECT_EQ(b.place(1000, 1024), b.base + 1024);
}

TEST(large_block, gives_up_the_offset_when_the_payload_fits_only_without_it) {
    large_block const b = region_of(4 * k_granule_bytes, 640);
    EXPECT_EQ(b.place(4 * k_granule_bytes, 16), b.base);
}

TEST(large_block, has_no_place_for_more_than_the_region) {
    large_block const b = region_of(4 * k_granule_bytes, 0);
    EXPECT_EQ(b.place(4 * k_granule_bytes + 1, 1), nullptr);
    EXPECT_EQ(b.place(k_size_max, 1), nullptr);
}

TEST(large_block, of_no_bytes_has_an_address_within_the_region) {
    large_block const b = region_of(k_granule_bytes, 0);
    EXPECT_EQ(b.place(0, 1), b.base);
}

TEST(large_block, is_found_among_the_first_four_of_a_list_and_no_further) {
    constexpr std::size_t k_blocks = 6;
    std::array<large_block, k_blocks> blocks;
    for (std::size_t fitting = 0; fitting < k_blocks; ++fitting) {
        for (std::size_t i = 0; i < k_blocks; ++i) {
            blocks[i] = large_block{};
            blocks[i].base = reinterpret_cast<std::byte*>(std::uintptr_t{0x10'0000});  // NOLINT: never read
            blocks[i].total = i == fitting ? 65'536 : 32'768;
            blocks[i].next = i + 1 < k_blocks ? &blocks[i + 1] : nullptr;
        }
        large_block* list = blocks.data();
        EXPECT_EQ(take_fitting(list, 50'000, 16), fitting < 4 ? &blocks[fitting] : nullptr);
        std::size_t left = 0;
        for (large_block const* b = list; b != nullptr; b = b->next, ++left)
            EXPECT_NE(b, fitting < 4 ? &blocks[fitting] : nullptr);
        EXPECT_EQ(left, fitting < 4 ? k_blocks - 1 : k_blocks);
    }
    large_block* none = nullptr;
    EXPECT_EQ(take_fitting(none, 1, 1), nullptr);
}

TEST(large_buckets, ascend_in_eight_steps_to_the_doubling) {
    for (std::size_t i = 0; i + 1 < large_buckets::k_count; ++i) {
        EXPECT_LT(large_buckets::bytes(i), large_buckets::bytes(i + 1));
        EXPECT_LE(large_buckets::bytes(i + 1) * 8, large_buckets::bytes(i) * 9);
    }
    EXPECT_EQ(large_buckets::bytes(0), k_granule_bytes);
}

TEST(large_buckets, enclose_every_size) {
    for (std::size_t size = k_granule_bytes; size < large_buckets::k_largest; size += size / 13) {
        EXPECT_LE(large_buckets::bytes(large_buckets::at_most(size)), size);
        EXPECT_GE(large_buckets::bytes(large_buckets::at_least(size)), size);
        EXPECT_LE(large_buckets::at_least(size), large_buckets::at_most(size) + 1);
    }
}

TEST(large_buckets, end_at_their_largest_size) {
    EXPECT_EQ(large_buckets::at_most(k_size_max), large_buckets::k_count - 1);
    EXPECT_EQ(large_buckets::at_least(large_buckets::k_largest), large_buckets::k_count - 1);
    EXPECT_EQ(large_buckets::at_least(large_buckets::k_largest + 1), large_buckets::k_count);
}

}  // namespace
