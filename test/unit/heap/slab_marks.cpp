// SPDX-License-Identifier: BSL-1.0
#include "pooled/heap/slab_marks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

namespace free_mark = pooled::detail::free_mark;
using all_marks = pooled::detail::basic_slab_marks<true>;
using pooled::detail::k_slab_bytes;
constexpr pooled::detail::class_index k_class = pooled::detail::class_for(48, 8);
constexpr std::size_t k_block = pooled::detail::k_geometry[k_class].block_bytes;

// As much of a slab as the marks use: four granules with real memory.
struct record {
    std::byte* blocks = nullptr;
    std::uint32_t granules = 0;
    std::uint32_t total = 0;
    std::uint8_t size_class = 0;
    std::uint8_t purged = 0;
    all_marks marks;
    [[nodiscard]] std::size_t colour() const {
        return pooled::detail::address_of(blocks) % pooled::detail::k_granule_bytes;
    }
};

struct slab_of_marks : testing::Test {
    slab_of_marks() { free_mark::choose(); }
    void assign(pooled::detail::class_index c, std::size_t colour = 0) {
        of.blocks = &memory[colour];
        of.granules = 4;
        of.size_class = static_cast<std::uint8_t>(c);
        of.total = pooled::detail::k_geometry[c].blocks_in(k_slab_bytes - colour);
        of.marks.assign(of, c);
    }
    void mark_all() {
        for (std::size_t word = 0; word * 64 < of.total; ++word)
            of.marks.on_take(of, word);
    }
    [[nodiscard]] bool may_be_in_use(std::size_t offset) const {
        return all_marks::may_be_in_use(of, offset);
    }

    alignas(pooled::detail::k_granule_bytes) std::array<std::byte, k_slab_bytes> memory{};
    std::array<record, 4> records;
    record& of = records[0];
};

TEST_F(slab_of_marks, puts_marks_on_all_blocks_of_the_pages_that_a_word_touches) {
    assign(k_class);
    EXPECT_NE(of.marks.whole_class(), k_class);
    EXPECT_FALSE(may_be_in_use(0));
    of.purged = 0x0f;
    of.marks.on_take(of, 0);
    std::size_t const pages = (64 * k_block + 4095) / 4096;
    for (std::size_t at = 0; at < pages * 4096; at += k_block)
        EXPECT_TRUE(free_mark::is_on(&memory[at])) << at;
    EXPECT_TRUE(may_be_in_use(0));
    EXPECT_FALSE(may_be_in_use(pages * 4096));
    EXPECT_EQ(of.purged, 0x0f & ~((1U << pages) - 1));
}

TEST_F(slab_of_marks, knows_when_every_block_is_marked) {
    assign(k_class);
    mark_all();
    EXPECT_EQ(of.marks.whole_class(), k_class);
    for (std::size_t i = 0; i < of.total; ++i)
        EXPECT_TRUE(free_mark::is_on(of.blocks + i * k_block)) << i;
    of.marks.unassign();
    EXPECT_NE(of.marks.whole_class(), k_class);
    assign(k_class + 1);
    EXPECT_FALSE(may_be_in_use(0));
}

// Blocks of 1536 bytes, the first of them on the slab's second page.
TEST_F(slab_of_marks, puts_marks_on_the_blocks_of_a_coloured_slab) {
    constexpr pooled::detail::class_index k_packets = pooled::detail::class_for(1500, 8);
    constexpr std::size_t k_packet = pooled::detail::k_geometry[k_packets].block_bytes;
    assign(k_packets, 5120);
    of.marks.on_take(of, 0);
    for (std::uint32_t i = 0; i < of.total; ++i)
        EXPECT_TRUE(free_mark::is_on(of.blocks + i * k_packet)) << i;
    EXPECT_FALSE(may_be_in_use(0)) << "no block starts on the first page";
    EXPECT_TRUE(may_be_in_use(5120));
    EXPECT_FALSE(free_mark::is_on(of.blocks + of.total * k_packet)) << "behind the last block";
}

TEST_F(slab_of_marks, forgets_those_of_purged_pages) {
    assign(k_class);
    mark_all();
    of.marks.forget(of, 1, 0b0010);
    EXPECT_NE(of.marks.whole_class(), k_class);
    EXPECT_TRUE(may_be_in_use(0));
    EXPECT_TRUE(may_be_in_use(4096));
    EXPECT_FALSE(may_be_in_use(pooled::detail::k_granule_bytes + 4096));
}

}  // namespace
