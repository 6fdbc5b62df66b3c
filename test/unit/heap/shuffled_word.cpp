// SPDX-License-Identifier: BSL-1.0
#include "pooled/heap/shuffled_word.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace {

using pooled::detail::shuffled_word;
constexpr std::size_t k_block_bytes = 48;

struct word_of_blocks : testing::Test {
    [[nodiscard]] shuffled_word word(std::uint64_t free) {
        return {this, memory.data(), k_block_bytes, free};
    }
    // The places in the word, in the order in which they are taken. Each must be one.
    [[nodiscard]] std::vector<std::size_t> take(shuffled_word& from, std::uint32_t wanted) {
        std::vector<std::size_t> places;
        std::uint32_t const left = from.take(wanted, [&](std::byte* block) {
            auto const offset = static_cast<std::size_t>(block - memory.data());
            EXPECT_EQ(offset % k_block_bytes, 0U);
            places.push_back(offset / k_block_bytes);
        });
        EXPECT_EQ(left + places.size(), wanted);
        return places;
    }
    std::vector<std::byte> memory = std::vector<std::byte>(64 * k_block_bytes);
};

TEST_F(word_of_blocks, gives_each_free_block_once) {
    std::mt19937_64 random(3);
    std::set<std::vector<std::size_t>> orders;
    for (int i = 0; i < 300; ++i) {
        pooled::detail::free_mark::g_order = random();
        std::uint64_t const free = i % 3 == 0 ? ~std::uint64_t{0} : random();
        auto const wanted = static_cast<std::uint32_t>(1 + random() % 80);
        shuffled_word one = word(free);
        std::vector<std::size_t> const places = take(one, wanted);
        EXPECT_EQ(places.size(),
                  std::min<std::size_t>(wanted, static_cast<std::size_t>(std::popcount(free))));
        std::uint64_t taken = 0;
        for (std::size_t const place : places) {
            ASSERT_LT(place, 64U);
            EXPECT_EQ(taken >> place & 1, 0U);
            taken |= std::uint64_t{1} << place;
        }
        EXPECT_EQ(taken & ~free, 0U);
        EXPECT_EQ(one.free(), free & ~taken);
        orders.insert(places);
    }
    EXPECT_GT(orders.size(), 200U);
}

TEST_F(word_of_blocks, gives_each_eight_in_its_own_order_whether_all_or_some_of_them_are_free) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        pooled::detail::free_mark::g_order = seed;
        std::uint64_t const free = seed % 2 == 0 ? ~std::uint64_t{0} : ~(std::uint64_t{1} << (seed % 64));
        shuffled_word one = word(free);
        std::vector<std::size_t> expected;
        for (unsigned group = 0; group < 64; group += 8) {
            EXPECT_LT(one.flip(group), 8U);
            for (std::size_t n = 0; n < 8; ++n) {
                std::size_t const place = group + (n ^ one.flip(group));
                if ((free >> place & 1) != 0) expected.push_back(place);
            }
        }
        EXPECT_EQ(take(one, 64 - seed % 2), expected) << seed;
        EXPECT_EQ(one.free(), 0U);
    }
}

TEST(order_in_a_word, is_another_one_for_each_word_and_stays_within_eight_blocks) {
    std::set<std::vector<std::size_t>> orders;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        pooled::detail::free_mark::g_order = seed;
        shuffled_word const word(nullptr, nullptr, k_block_bytes, ~std::uint64_t{0});
        std::vector<std::size_t> flips;
        for (unsigned group = 0; group < 64; group += 8) {
            flips.push_back(word.flip(group));
            EXPECT_LT(flips.back(), 8U);
        }
        orders.insert(flips);
    }
    EXPECT_EQ(orders.size(), 200U);
}

}  // namespace
