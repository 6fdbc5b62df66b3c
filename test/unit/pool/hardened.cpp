// SPDX-License-Identifier: BSL-1.0
#include "pooled/pool/hardened.hpp"

#include <gtest/gtest.h>

namespace {

namespace hardened = pooled::detail::hardened;

// What it does in its own build: test/hardened.
TEST(hardened_checks, expect_nothing_and_claim_everything_in_other_builds) {
    if (hardened::k_is_on) GTEST_SKIP() << "this is the hardened build";
    int block = 7;
    hardened::expect_in_use(&block);
    EXPECT_EQ(hardened::claimed(&block), &block);
    EXPECT_EQ(block, 7);
}

TEST(hardened_checks, claim_nothing_as_nothing) { EXPECT_EQ(hardened::claimed(nullptr), nullptr); }

}  // namespace
