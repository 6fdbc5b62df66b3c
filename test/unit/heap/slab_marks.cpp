// SPDX-License-Identifier: BSL-1.0
#include "pooled/heap/slab_marks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

namespace free_mark = pooled::detail::free_mark;
using marks = pooled::detail::basic_slab_marks<true>;
using pooled::detail::k_slab_bytes;
constexpr pooled::detail::class_index k_class = pooled::detail::class_for(48, 8);
constexpr std::size_t k_block = pooled::detail::k_geometry[k_class].block_bytes;
constexpr std::uint32_t k_total = pooled::detail::k_geometry[k_class].blocks_in(k_slab_bytes);

struct slab_of_marks : testing::Test {
    slab_of_marks() { free_mark::choose(); }
    alignas(pooled::detail::k_granule_bytes) std::array<std::byte, k_slab_bytes> memory{};
    marks of;
    std::uint16_t purged = 0;
};

TEST_F(slab_of_marks, puts_marks_on_all_blocks_of_the_pages_that_a_word_touches) {
    of.assign(k_class, k_slab_bytes);
    EXPECT_NE(of.whole_class(), k_class);
    EXPECT_FALSE(of.may_be_in_use(0));
    purged = 0xffff;
    of.on_take(memory.data(), k_total, 0, purged);
    std::size_t const pages = (64 * k_block + 4095) / 4096;
    for (std::size_t at = 0; at < pages * 4096; at += k_block)
        EXPECT_TRUE(free_mark::is_on(&memory[at])) << at;
    EXPECT_TRUE(of.may_be_in_use(0));
    EXPECT_EQ(purged, 0xffff & ~((1U << pages) - 1));
}

TEST_F(slab_of_marks, knows_when_every_block_is_marked) {
    of.assign(k_class, k_slab_bytes);
    for (std::size_t word = 0; word * 64 * k_block < k_slab_bytes; ++word)
        of.on_take(memory.data(), k_total, word, purged);
    EXPECT_EQ(of.whole_class(), k_class);
    for (std::size_t at = 0; at + k_block <= k_slab_bytes; at += k_block)
        EXPECT_TRUE(free_mark::is_on(&memory[at])) << at;
    of.unassign();
    EXPECT_NE(of.whole_class(), k_class);
    of.assign(k_class, k_slab_bytes);  // the marks are where they were
    EXPECT_EQ(of.whole_class(), k_class);
    of.unassign();
    of.assign(k_class + 1, k_slab_bytes);
    EXPECT_FALSE(of.may_be_in_use(0));
}

// Blocks of 1536 bytes, the first of them on the slab's second page.
TEST_F(slab_of_marks, puts_marks_on_the_blocks_of_a_coloured_slab) {
    constexpr pooled::detail::class_index k_packets = pooled::detail::class_for(1500, 8);
    constexpr std::size_t k_packet = pooled::detail::k_geometry[k_packets].block_bytes;
    constexpr std::uint32_t k_packets_total = 30;
    std::byte* const blocks = &memory[5120];
    of.assign(k_packets, k_slab_bytes);
    of.on_take(blocks, k_packets_total, 0, purged);
    for (std::uint32_t i = 0; i < k_packets_total; ++i)
        EXPECT_TRUE(free_mark::is_on(blocks + i * k_packet)) << i;
    EXPECT_FALSE(of.may_be_in_use(0)) << "no block starts on the first page";
    EXPECT_TRUE(of.may_be_in_use(5120));
    EXPECT_FALSE(free_mark::is_on(blocks + k_packets_total * k_packet)) << "behind the last block";
}

TEST_F(slab_of_marks, forgets_those_of_purged_pages) {
    of.assign(k_class, k_slab_bytes);
    for (std::size_t word = 0; word * 64 * k_block < k_slab_bytes; ++word)
        of.on_take(memory.data(), k_total, word, purged);
    of.forget(0x0002);
    EXPECT_NE(of.whole_class(), k_class);
    EXPECT_TRUE(of.may_be_in_use(0));
    EXPECT_FALSE(of.may_be_in_use(4096));
}

}  // namespace
