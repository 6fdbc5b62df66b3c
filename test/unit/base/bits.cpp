// SPDX-License-Identifier: BSL-1.0
// Rounding and arithmetic at the edges of std::size_t.

#include "pooled/detail/bits.hpp"

#include <gtest/gtest.h>

#include <cstddef>

namespace {

using namespace pooled::detail;

TEST(bits, round_up_to_the_unit_and_leave_multiples_alone) {
    EXPECT_EQ(round_up(0, 64), 0U);
    EXPECT_EQ(round_up(1, 64), 64U);
    EXPECT_EQ(round_up(64, 64), 64U);
    EXPECT_EQ(round_up(65, 64), 128U);
    EXPECT_EQ(round_up(7, 1), 7U);
}

TEST(bits, round_down_to_the_unit) {
    EXPECT_EQ(round_down(63, 64), 0U);
    EXPECT_EQ(round_down(64, 64), 64U);
    EXPECT_EQ(round_down(k_size_max, 2), k_size_max - 1);
}

TEST(bits, add_without_wrapping_round) {
    EXPECT_EQ(saturating_add(2, 3), 5U);
    EXPECT_EQ(saturating_add(k_size_max - 1, 1), k_size_max);
    EXPECT_EQ(saturating_add(k_size_max, 1), k_size_max);
    EXPECT_EQ(saturating_add(k_size_max, k_size_max), k_size_max);
}

TEST(bits, multiply_without_wrapping_round) {
    EXPECT_EQ(saturating_multiply(6, 7), 42U);
    EXPECT_EQ(saturating_multiply(k_size_max, 0), 0U);
    EXPECT_EQ(saturating_multiply(0, k_size_max), 0U);
    EXPECT_EQ(saturating_multiply(k_size_max / 2 + 1, 2), k_size_max);
    EXPECT_EQ(saturating_multiply(k_size_max / 8, 8), k_size_max - 7);
}

}  // namespace
