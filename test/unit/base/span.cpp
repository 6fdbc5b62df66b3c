// SPDX-License-Identifier: BSL-1.0

#include "pooled/detail/span.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <type_traits>

namespace {

using pooled::detail::span;

static_assert(std::is_convertible_v<std::array<int, 3>&, span<int>>);
static_assert(std::is_convertible_v<std::array<int, 3> const&, span<int const>>);
static_assert(!std::is_convertible_v<std::array<int, 3> const&, span<int>>, "const elements stay const");
static_assert(!std::is_convertible_v<int, span<int>>);

TEST(a_span, shows_the_elements_of_another) {
    std::array numbers{1, 2, 3};
    span<int> const all = numbers;
    EXPECT_EQ(all.data(), numbers.data());
    EXPECT_EQ(all.size(), 3U);
    EXPECT_EQ(all.end(), numbers.data() + numbers.size());
    all.front() = 4;
    all[2] = 5;
    EXPECT_EQ(numbers, (std::array{4, 2, 5}));
}

TEST(a_span, can_leave_out_its_front_up_to_all_of_it) {
    std::array numbers{1, 2, 3};
    span<int> const all = numbers;
    EXPECT_EQ(all.subspan(2).front(), 3);
    EXPECT_TRUE(all.subspan(3).empty());
    EXPECT_TRUE(span<int>().empty());
}

}  // namespace
