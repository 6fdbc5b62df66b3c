// SPDX-License-Identifier: BSL-1.0
#include "pooled/heap/free_mark.hpp"

#include <gtest/gtest.h>

#include <cstdint>
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

TEST(free_mark, is_an_address_of_nothing) {
    for (int i = 0; i < 100; ++i) {
        free_mark::choose();
        for (std::uintptr_t const block : {std::uintptr_t{16}, (std::uintptr_t{1} << 47) - 16}) {
            std::uintptr_t const mark =
                free_mark::mark_of(reinterpret_cast<void*>(block));  // NOLINT: never read
            EXPECT_NE(mark >> 62 & 1, mark >> 63);
        }
    }
}

TEST(free_mark, is_put_on_a_block_once) {
    free_mark::choose();
    alignas(16) unsigned char block[16] = {};
    EXPECT_TRUE(free_mark::put_on_if_off(block));
    EXPECT_TRUE(free_mark::is_on(block));
    EXPECT_FALSE(free_mark::put_on_if_off(block));
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
