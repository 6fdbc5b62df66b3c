// SPDX-License-Identifier: BSL-1.0
// The depot, for classes of every shape.

#include "pooled/cache/depot.hpp"

#include "support/blocks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace {

using namespace pooled::detail;

class depot_of : public testing::TestWithParam<class_index> {
protected:
    class_geometry g = k_geometry[GetParam()];
    std::size_t magazine_size = g.magazine_blocks();
    test::block_array blocks{3 * magazine_size + magazine_size / 2 + 1, g.block_bytes};

    void put_all_blocks(depot& d) const {
        for (std::size_t i = 0; i < blocks.size(); ++i)
            d.put(blocks[i], g);
    }
};

TEST_P(depot_of, single_blocks_keeps_count_of_them) {
    depot d;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        ASSERT_EQ(d.size(g), i);
        d.put(blocks[i], g);
        ASSERT_TRUE(d.is_valid(g)) << i;
    }
    EXPECT_FALSE(d.empty());
}

TEST_P(depot_of, single_blocks_gives_each_back_once) {
    depot d;
    put_all_blocks(d);
    std::set<void*> out;
    while (void* const block = d.take(g)) {
        ASSERT_TRUE(out.insert(block).second);
        ASSERT_TRUE(d.is_valid(g));
    }
    EXPECT_EQ(out.size(), blocks.size());
    EXPECT_TRUE(d.empty());
    EXPECT_EQ(d.size(g), 0U);
}

TEST_P(depot_of, blocks_refills_with_full_magazines_and_then_the_loose_rest) {
    depot d;
    put_all_blocks(d);
    std::size_t taken = 0;
    for (int i = 0; i < 3; ++i) {
        magazine m;
        ASSERT_TRUE(d.refill(m, g));
        EXPECT_TRUE(m.is_full(g));
        taken += m.size(g);
    }
    magazine rest;
    ASSERT_TRUE(d.refill(rest, g));
    EXPECT_EQ(taken + rest.size(g), blocks.size());
    EXPECT_TRUE(rest.is_valid(g));
    magazine none;
    EXPECT_FALSE(d.refill(none, g));
    EXPECT_TRUE(none.empty());
    EXPECT_TRUE(d.empty());
}

TEST_P(depot_of, magazines_takes_a_part_of_one_block_by_block) {
    depot d;
    magazine m;
    for (std::size_t i = 0; i + 1 < magazine_size; ++i)
        m.push(blocks[i], g);
    d.put_all(m, g);
    EXPECT_TRUE(m.empty());
    EXPECT_EQ(d.size(g), magazine_size - 1);
    EXPECT_TRUE(d.is_valid(g));
    EXPECT_EQ(d.take_full(g), nullptr);
}

TEST_P(depot_of, magazines_takes_a_full_one_whole) {
    depot d;
    magazine m;
    for (std::size_t i = 0; i < magazine_size; ++i)
        m.push(blocks[i], g);
    d.put_all(m, g);
    EXPECT_TRUE(m.empty());
    EXPECT_NE(d.take_full(g), nullptr);
    EXPECT_TRUE(d.empty());
}

TEST_P(depot_of, blocks_shows_each_one_once_and_does_not_change) {
    depot d;
    put_all_blocks(d);
    std::map<void*, int> seen;
    d.for_each(g, [&](void* block) { ++seen[block]; });
    EXPECT_EQ(seen.size(), blocks.size());
    for (auto const& [block, times] : seen)
        ASSERT_EQ(times, 1) << block;
    EXPECT_EQ(d.size(g), blocks.size());
    EXPECT_TRUE(d.is_valid(g));
}

INSTANTIATE_TEST_SUITE_P(size, depot_of, testing::Values(0U, 1U, 2U, 6U, 30U, 55U, k_class_count - 1),
                         [](auto const& one) { return std::to_string(k_geometry[one.param].block_bytes); });

TEST(depot, is_empty_when_made) {
    depot d;
    EXPECT_TRUE(d.empty());
    EXPECT_EQ(d.take(k_geometry[0]), nullptr);
    EXPECT_EQ(d.take_full(k_geometry[0]), nullptr);
    EXPECT_TRUE(d.is_valid(k_geometry[0]));
}

}  // namespace
