// SPDX-License-Identifier: BSL-1.0
// The units of memory divide one another, and each pool has a slot in a thread's table.

#include "pooled/base/geometry.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using namespace pooled::detail;

static_assert(k_default_chunk_bytes % k_slab_bytes == 0 && k_default_chunk_bytes % k_huge_page_bytes == 0);
static_assert(k_max_pools - 1 == UINT16_MAX, "a pool's id takes 16 bits");

TEST(near_slot, is_the_pools_own_for_the_first_31_and_shared_by_all_others) {
    for (std::uint32_t id = 0; id < 31; ++id)
        EXPECT_EQ(near_slot(id), id);
    for (std::uint32_t const id : {31U, 32U, 1000U, k_max_pools - 1})
        EXPECT_EQ(near_slot(id), k_far_slot);
    EXPECT_LT(k_far_slot, k_near_slots);
}

}  // namespace
