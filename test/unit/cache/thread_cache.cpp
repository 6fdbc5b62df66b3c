// SPDX-License-Identifier: BSL-1.0
// How a thread finds its cache of a pool.

#include "pooled/detail/thread_cache.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>

namespace {

using namespace pooled::detail;

TEST(thread_cache, keeps_one_block_of_each_large_class_and_16_mib_of_those_that_are_not_inlined) {
    auto const cache = std::make_unique<thread_cache>();
    std::array<std::byte, 5> blocks{};  // made up: never read
    constexpr class_index k_300k = large_class_for(300'000, 16);
    constexpr class_index k_12m = large_class_for(12 << 20, 16);
    constexpr class_index k_4m = large_class_for(4 << 20, 16);
    EXPECT_EQ(cache->pop(k_300k), nullptr);
    EXPECT_TRUE(cache->push(k_12m, &blocks[0]));
    EXPECT_TRUE(cache->push(k_300k, &blocks[1]));
    EXPECT_FALSE(cache->push(k_300k, &blocks[2])) << "there is one";
    EXPECT_FALSE(cache->push(k_4m, &blocks[3])) << "more than 16 MiB";
    EXPECT_EQ(cache->pop(k_300k), &blocks[1]);
    EXPECT_TRUE(cache->push(k_4m, &blocks[3]));
    EXPECT_TRUE(cache->push(k_inlined_classes - 1, &blocks[4])) << "it does not count";
    EXPECT_EQ(cache->pop(k_12m), &blocks[0]);
    EXPECT_EQ(cache->pop(k_4m), &blocks[3]);
    EXPECT_EQ(cache->large_bytes, 0U);
}

TEST(thread_state, remembers_the_cache_it_found_last_until_that_goes) {
    thread_state state;
    std::array<thread_cache, 2> caches;
    state.near_caches[3] = &caches[0];
    state.near_caches[4] = &caches[1];
    EXPECT_EQ(state.find_recent(3), &caches[0]);
    EXPECT_EQ(state.find_recent(3), &caches[0]);
    EXPECT_EQ(state.find_recent(4), &caches[1]);
    state.near_caches[4] = nullptr;
    state.forget(&caches[0]);
    EXPECT_EQ(state.find_recent(4), &caches[1]) << "another one went";
    state.forget(&caches[1]);
    EXPECT_EQ(state.find_recent(4), nullptr);
    EXPECT_EQ(state.find_recent(3), &caches[0]);
}

}  // namespace
