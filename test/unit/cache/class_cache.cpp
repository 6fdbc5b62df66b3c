// SPDX-License-Identifier: BSL-1.0
// What a thread's cache did not need lately, which decides how much an exchange takes from it. The rest: central.cpp and
// cache_set.cpp.

#include "pooled/detail/class_cache.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

using pooled::detail::class_cache;

class class_cache_test : public testing::Test {
protected:
    ~class_cache_test() override {
        static_cast<void>(cache.drop_oldest(static_cast<std::uint32_t>(cache.oldest(256).size())));
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

TEST_F(class_cache_test, knows_the_fewest_blocks_it_held_in_an_interval) {
    ASSERT_TRUE(cache.reserve(8));
    push(0, 7);  // six in the array, one in front
    cache.begin_interval();
    EXPECT_EQ(cache.least_held(), 6U);
    for (int i = 0; i < 4; ++i)
        static_cast<void>(cache.pop());
    push(0, 2);
    EXPECT_EQ(cache.least_held(), 3U);
    cache.begin_interval();
    EXPECT_EQ(cache.least_held(), 4U);
    while (cache.pop() != nullptr) {}
    EXPECT_EQ(cache.least_held(), 0U);
}

}  // namespace
