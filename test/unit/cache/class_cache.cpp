// SPDX-License-Identifier: BSL-1.0
// One thread's cache: last in, first out, and nothing is lost when the array is full, missing or replaced.

#include "pooled/cache/class_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using pooled::detail::class_cache;

class class_cache_test : public testing::Test {
protected:
    ~class_cache_test() override {
        std::vector<void*> rest(cache.capacity() + std::size_t{1});
        static_cast<void>(cache.take_all(rest.data()));
        cache.release();
    }
    [[nodiscard]] void* block(std::size_t i) { return &blocks[i]; }
    void push(std::size_t first, std::size_t end) {
        for (std::size_t i = first; i < end; ++i)
            ASSERT_TRUE(cache.push(block(i)));
    }

    std::array<std::uint64_t, 16> blocks{};
    class_cache cache;
};

TEST_F(class_cache_test, without_an_array_holds_one_block) {
    EXPECT_EQ(cache.pop(), nullptr);
    EXPECT_TRUE(cache.push(block(0)));
    EXPECT_FALSE(cache.push(block(1))) << "it is still the caller's";
    EXPECT_EQ(cache.held(), 1U);
    EXPECT_EQ(cache.capacity(), 0U);
    EXPECT_EQ(cache.pop(), block(0));
    EXPECT_EQ(cache.held(), 0U);
}

TEST_F(class_cache_test, gives_out_the_block_pushed_last) {
    ASSERT_TRUE(cache.reserve(4));
    push(0, 5);
    EXPECT_EQ(cache.held(), 5U);
    EXPECT_FALSE(cache.push(block(5))) << "the array is full";
    for (std::size_t i = 5; i-- != 0;)
        EXPECT_EQ(cache.pop(), block(i));
    EXPECT_EQ(cache.pop(), nullptr);
}

TEST_F(class_cache_test, has_one_hot_block_in_front_of_the_array) {
    ASSERT_TRUE(cache.reserve(4));
    EXPECT_TRUE(cache.push_hot(block(0)));
    EXPECT_FALSE(cache.push_hot(block(1)));
    EXPECT_TRUE(cache.push_cold(block(1)));
    EXPECT_EQ(cache.pop_hot(), block(1));
    EXPECT_EQ(cache.pop_hot(), nullptr);
    EXPECT_EQ(cache.pop_cold(), block(0));
    EXPECT_EQ(cache.pop_cold(), nullptr);
}

TEST_F(class_cache_test, gives_up_the_oldest_of_the_array_first) {
    ASSERT_TRUE(cache.reserve(6));
    push(0, 7);
    std::array<void*, 7> out{};
    EXPECT_EQ(cache.take_oldest(out.data(), 3), 3U);
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(out[i], block(i));
    EXPECT_EQ(cache.held(), 4U);
    EXPECT_EQ(cache.take_oldest(out.data(), 10), 3U) << "all of the array, and not the hot block";
    EXPECT_EQ(out[2], block(5));
    EXPECT_EQ(cache.pop(), block(6));
}

TEST_F(class_cache_test, gives_up_everything_in_the_order_of_age) {
    ASSERT_TRUE(cache.reserve(6));
    push(0, 5);
    std::array<void*, 7> out{};
    EXPECT_EQ(cache.take_all(out.data()), 5U);
    for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(out[i], block(i));
    EXPECT_EQ(cache.held(), 0U);
    EXPECT_EQ(cache.take_all(out.data()), 0U);
}

TEST_F(class_cache_test, keeps_its_blocks_when_the_array_grows) {
    ASSERT_TRUE(cache.reserve(2));
    push(0, 3);
    ASSERT_TRUE(cache.reserve(8));
    EXPECT_EQ(cache.capacity(), 8U);
    push(3, 9);
    for (std::size_t i = 9; i-- != 0;)
        EXPECT_EQ(cache.pop(), block(i));
}

TEST_F(class_cache_test, can_be_used_again_after_its_array_was_released) {
    ASSERT_TRUE(cache.reserve(2));
    cache.release();
    EXPECT_EQ(cache.capacity(), 0U);
    ASSERT_TRUE(cache.reserve(2));
    push(0, 3);
}

}  // namespace
