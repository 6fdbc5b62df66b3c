// SPDX-License-Identifier: BSL-1.0

#include "pooled/base/duration.hpp"

#include <gtest/gtest.h>

namespace {

// Without <chrono>, which this file must not include either.
TEST(the_durations_of_mutex, convert_and_compare_and_its_clocks_tell_the_time) {
    static_assert(pooled::detail::nanoseconds(pooled::detail::milliseconds(2)).count() == 2'000'000);
    static_assert(std::chrono::hours(1) > pooled::detail::milliseconds(1));
    static_assert(std::chrono::ceil<pooled::detail::milliseconds>(pooled::detail::nanoseconds(1)).count() ==
                  1);
    auto const before = pooled::detail::steady_clock::now();
    EXPECT_LE(before, pooled::detail::steady_clock::now());
}

}  // namespace
