// SPDX-License-Identifier: BSL-1.0
// The message for a deallocation that the heap rejects.

#include "pooled/heap/misuse.hpp"

#include <gtest/gtest.h>

namespace {

using misuse_death_test = testing::Test;

TEST(misuse_death_test, names_the_address_the_pool_what_is_wrong_and_what_to_do) {
    EXPECT_DEATH(
        pooled::detail::fail_deallocation("packets", reinterpret_cast<void*>(0xabc0), "double free"),
        "bad deallocation of 0xabc0 into pool 'packets': double free; build with -DPOOLED_CHECKED=1");
}

TEST(misuse_death_test, is_cut_when_the_name_is_long) {
    static char name[400];
    for (char& c : name)
        c = 'x';
    name[399] = '\0';
    EXPECT_DEATH(pooled::detail::fail_deallocation(name, nullptr, "double free"), "into pool 'xxx");
}

}  // namespace
