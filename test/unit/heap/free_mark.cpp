// SPDX-License-Identifier: BSL-1.0
#include "pooled/heap/free_mark.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace {

namespace free_mark = pooled::detail::free_mark;

TEST(free_mark, is_on_a_block_from_put_on_to_take_off) {
    free_mark::choose();
    alignas(16) unsigned char block[16] = {};
    EXPECT_FALSE(free_mark::is_on(block));
    free_mark::put_on(block);
    EXPECT_TRUE(free_mark::is_on(block));
    free_mark::take_off(block);
    EXPECT_FALSE(free_mark::is_on(block));
}

TEST(free_mark, of_one_block_is_none_of_another) {
    free_mark::choose();
    alignas(16) unsigned char a[16] = {};
    alignas(16) unsigned char b[16] = {};
    free_mark::put_on(a);
    std::memcpy(b, a, sizeof(a));
    EXPECT_FALSE(free_mark::is_on(b));
}

}  // namespace
