// SPDX-License-Identifier: BSL-1.0
// The magazine, for every size class there is: 16-byte blocks have no slots and 24-byte blocks one.

#include "pooled/cache/magazine.hpp"

#include "support/blocks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace {

using namespace pooled::detail;

class every_class : public testing::TestWithParam<class_index> {
protected:
    class_geometry g = k_geometry[GetParam()];
};

TEST_P(every_class, magazine_is_full_with_as_many_blocks_as_it_says) {
    test::block_array const blocks(g.magazine_blocks(), g.block_bytes);
    magazine m;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        ASSERT_FALSE(m.is_full(g)) << i;
        ASSERT_EQ(m.size(g), i);
        m.push(blocks[i], g);
        ASSERT_TRUE(m.is_valid(g)) << i;
    }
    EXPECT_TRUE(m.is_full(g));
    EXPECT_EQ(m.size(g), g.magazine_blocks());
}

TEST_P(every_class, magazine_gives_each_block_back_once) {
    test::block_array const blocks(g.magazine_blocks(), g.block_bytes);
    magazine m;
    std::set<void*> in;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        m.push(blocks[i], g);
        in.insert(blocks[i]);
    }
    std::set<void*> out;
    for (std::size_t left = blocks.size(); void* const block = m.pop(g);) {
        ASSERT_TRUE(out.insert(block).second) << "a block came twice";
        ASSERT_EQ(m.size(g), --left);
        ASSERT_TRUE(m.is_valid(g));
    }
    EXPECT_EQ(in, out);
    EXPECT_TRUE(m.empty());
}

TEST_P(every_class, magazine_survives_going_up_and_down_around_each_carrier) {
    test::block_array const blocks(g.magazine_blocks(), g.block_bytes);
    magazine m;
    std::vector<void*> mine;
    for (std::size_t i = 0; i < blocks.size(); ++i)
        mine.push_back(blocks[i]);
    for (std::size_t goal = 1; goal <= blocks.size(); ++goal) {
        while (m.size(g) < goal) {
            m.push(mine.back(), g);
            mine.pop_back();
        }
        for (int i = 0; i < 2; ++i) {
            mine.push_back(m.pop(g));
            ASSERT_TRUE(m.is_valid(g));
        }
        if (mine.back() == nullptr) mine.pop_back();
        ASSERT_EQ(m.size(g) + mine.size(), blocks.size());
    }
}

TEST_P(every_class, magazine_that_was_taken_full_comes_back_whole) {
    test::block_array const blocks(g.magazine_blocks(), g.block_bytes);
    magazine m;
    for (std::size_t i = 0; i < blocks.size(); ++i)
        m.push(blocks[i], g);
    carrier* const top = m.take_full();
    EXPECT_TRUE(m.empty());
    EXPECT_EQ(m.size(g), 0U);

    magazine other;
    other.put_full(top, g);
    EXPECT_TRUE(other.is_full(g));
    EXPECT_TRUE(other.is_valid(g));
    std::set<void*> out;
    while (void* const block = other.pop(g))
        out.insert(block);
    EXPECT_EQ(out.size(), blocks.size());
}

TEST_P(every_class, magazine_leaves_blocks_that_are_no_carriers_untouched) {
    test::block_array const blocks(g.magazine_blocks(), g.block_bytes);
    for (std::size_t i = 0; i < blocks.size(); ++i)
        test::fill_pattern(blocks[i], g.block_bytes, i);
    magazine m;
    for (std::size_t i = 0; i < blocks.size(); ++i)
        m.push(blocks[i], g);
    while (m.pop(g) != nullptr) {}
    std::size_t touched = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i)
        touched += test::has_pattern(blocks[i], g.block_bytes, i) ? 0 : 1;
    EXPECT_EQ(touched, g.carriers);
}

TEST_P(every_class, magazine_takes_all_of_another) {
    test::block_array const blocks(g.magazine_blocks(), g.block_bytes);
    magazine from;
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i)
        from.push(blocks[i], g);
    magazine into;
    into.take_all(from);
    EXPECT_TRUE(from.empty());
    EXPECT_TRUE(from.is_valid(g));
    EXPECT_EQ(into.size(g), blocks.size() - 1);
    EXPECT_TRUE(into.is_valid(g));
}

INSTANTIATE_TEST_SUITE_P(size, every_class,
                         testing::Values(0U, 1U, 2U, 3U, 6U, 14U, 15U, 30U, 54U, 55U, k_class_count - 1),
                         [](auto const& one) { return std::to_string(k_geometry[one.param].block_bytes); });

TEST(magazine, is_empty_when_made) {
    magazine m;
    EXPECT_TRUE(m.empty());
    EXPECT_EQ(m.pop(k_geometry[0]), nullptr);
    EXPECT_EQ(m.size(k_geometry[0]), 0U);
    EXPECT_TRUE(m.is_valid(k_geometry[0]));
}

TEST(magazine, notices_a_chain_that_is_too_short) {
    class_geometry const g = k_geometry[0];
    test::block_array const blocks(3, g.block_bytes);
    magazine m;
    for (std::size_t i = 0; i < 3; ++i)
        m.push(blocks[i], g);
    static_cast<carrier*>(blocks[2])->next = nullptr;
    EXPECT_FALSE(m.is_valid(g));
}

}  // namespace
