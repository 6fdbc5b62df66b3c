// SPDX-License-Identifier: BSL-1.0

#include "pooled/detail/algorithm.hpp"

#include <gtest/gtest.h>

#include <array>

namespace {

namespace detail = pooled::detail;

TEST(the_small_algorithms, return_the_first_of_equal_values_as_the_standard_does) {
    int const a = 1;
    int const b = 1;
    EXPECT_EQ(&detail::smaller(a, b), &a);
    EXPECT_EQ(&detail::larger(a, b), &a);
    EXPECT_EQ(&detail::clamp(a, b, b), &a);
}

TEST(the_small_algorithms, find_the_least_the_greatest_and_the_nearest_within_limits) {
    static_assert(detail::smaller(2, 1) == 1 && detail::smaller(1, 2) == 1);
    static_assert(detail::larger(2, 1) == 2 && detail::larger(1, 2) == 2);
    static_assert(detail::clamp(0, 2, 4) == 2 && detail::clamp(3, 2, 4) == 3 && detail::clamp(5, 2, 4) == 4);
    static_assert(detail::any_of(std::array{1, 2}, [](int i) { return i == 2; }));
    static_assert(!detail::any_of(std::array{1, 2}, [](int i) { return i == 3; }));
}

TEST(the_small_algorithms, copy_ranges_that_overlap) {
    std::array numbers{1, 2, 3, 4};
    detail::copy_n(numbers.data() + 1, 3, numbers.data());
    EXPECT_EQ(numbers, (std::array{2, 3, 4, 4}));
    detail::copy_n<int>(nullptr, 0, nullptr);
}

TEST(the_small_algorithms, fill_a_range_and_nothing_behind_it) {
    std::array numbers{1, 2, 3};
    detail::fill_n(numbers.data(), 2, 7);
    EXPECT_EQ(numbers, (std::array{7, 7, 3}));
}

}  // namespace
