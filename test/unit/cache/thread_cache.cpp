// SPDX-License-Identifier: BSL-1.0
// How a thread finds its cache of a pool.

#include "pooled/cache/thread_cache.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace {

using namespace pooled::detail;

TEST(thread_state, has_no_cache_at_first) {
    thread_state state;
    for (std::uint32_t const id : {0U, 1U, k_far_slot, k_max_pools - 1}) {
        EXPECT_EQ(state.find(id), nullptr);
        EXPECT_EQ(state.find_recent(id), nullptr);
    }
}

TEST(thread_state, finds_near_and_far_caches_by_the_pools_id) {
    thread_state state;
    std::array<thread_cache, 3> caches;
    std::array<thread_cache*, 2> far{&caches[1], &caches[2]};
    state.near[7] = &caches[0];
    state.far = far.data();
    state.far_count = 2;
    EXPECT_EQ(state.find(7), &caches[0]);
    EXPECT_EQ(state.find(k_far_slot), &caches[1]);
    EXPECT_EQ(state.find(k_far_slot + 1), &caches[2]);
    EXPECT_EQ(state.find(k_far_slot + 2), nullptr);
    EXPECT_EQ(state.near[near_slot(k_far_slot + 1)], nullptr)
        << "the slot that all far pools share stays empty";
}

TEST(thread_state, remembers_the_cache_it_found_last_until_that_goes) {
    thread_state state;
    std::array<thread_cache, 2> caches;
    state.near[3] = &caches[0];
    state.near[4] = &caches[1];
    EXPECT_EQ(state.find_recent(3), &caches[0]);
    EXPECT_EQ(state.find_recent(3), &caches[0]);
    EXPECT_EQ(state.find_recent(4), &caches[1]);
    state.near[4] = nullptr;
    state.forget(&caches[0]);
    EXPECT_EQ(state.find_recent(4), &caches[1]) << "another one went";
    state.forget(&caches[1]);
    EXPECT_EQ(state.find_recent(4), nullptr);
    EXPECT_EQ(state.find_recent(3), &caches[0]);
}

}  // namespace
