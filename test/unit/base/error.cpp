// SPDX-License-Identifier: BSL-1.0
// The message of `exhausted`; the version.

#include "pooled/error.hpp"

#include "pooled/version.hpp"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <type_traits>

namespace {

TEST(exhausted, keeps_the_advice_with_the_longest_name) {
    pooled::exhausted const error(std::string(47, 'n').c_str(), ~std::size_t{0}, ~std::size_t{0},
                                  ~std::size_t{0});
    EXPECT_NE(std::string(error.what()).find("try_ form"), std::string::npos) << error.what();
}

TEST(exhausted, is_a_bad_alloc_that_copies_without_throwing) {
    static_assert(std::is_base_of_v<std::bad_alloc, pooled::exhausted>);
    static_assert(std::is_nothrow_copy_constructible_v<pooled::exhausted>);
    pooled::exhausted const error("p", 1, 2, 3);
    pooled::exhausted const copy = error;
    EXPECT_STREQ(error.what(), copy.what());
}

// The macros, the constants and the text of the version agree.

TEST(version, is_the_same_in_each_form) {
    EXPECT_EQ(POOLED_VERSION,
              pooled::version_major * 10000 + pooled::version_minor * 100 + pooled::version_patch);
    EXPECT_EQ(pooled::version_string, std::to_string(pooled::version_major) + "." +
                                          std::to_string(pooled::version_minor) + "." +
                                          std::to_string(pooled::version_patch));
}

}  // namespace
