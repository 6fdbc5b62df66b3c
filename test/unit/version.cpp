// SPDX-License-Identifier: BSL-1.0
// The macros, the constants and the text of the version agree.

#include "pooled/version.hpp"

#include <gtest/gtest.h>

#include <string>

TEST(version, is_the_same_in_each_form) {
    EXPECT_EQ(POOLED_VERSION,
              pooled::version_major * 10000 + pooled::version_minor * 100 + pooled::version_patch);
    EXPECT_EQ(pooled::version_string, std::to_string(pooled::version_major) + "." +
                                          std::to_string(pooled::version_minor) + "." +
                                          std::to_string(pooled::version_patch));
}
