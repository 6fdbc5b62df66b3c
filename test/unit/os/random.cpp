// SPDX-License-Identifier: BSL-1.0
#include "pooled/os/random.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace {

using pooled::detail::platform::random_bits;
using pooled::detail::platform::scatter;

TEST(random_bits, differ_from_call_to_call) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 100; ++i)
        seen.insert(random_bits());
    EXPECT_EQ(seen.size(), 100U);
}

TEST(scatter, changes_about_half_of_the_bits_when_one_changes) {
    for (unsigned bit = 0; bit < 64; ++bit) {
        int const changed = __builtin_popcountll(scatter(12345) ^ scatter(12345 ^ (std::uint64_t{1} << bit)));
        EXPECT_GE(changed, 12);
        EXPECT_LE(changed, 52);
    }
}

}  // namespace
