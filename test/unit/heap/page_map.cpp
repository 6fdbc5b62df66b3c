// SPDX-License-Identifier: BSL-1.0
// The map from an address to its pool and size class. It never reads what an address points to, so the addresses here
// are made up.

#include "pooled/heap/page_map.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

using namespace pooled::detail;

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT: never read

TEST(map_entry, keeps_pool_class_and_kind_apart) {
    for (std::uint32_t const id : {0U, 1U, 31U, 32U, 255U, 256U, k_max_pools - 1})
        for (bool const is_local : {false, true})
            for (class_index c = 0; c <= k_class_count; ++c) {
                class_index const wanted = c == k_class_count ? k_large : c;
                map_entry const entry(id, wanted, is_local);
                ASSERT_EQ(entry.pool_id(), id);
                ASSERT_EQ(entry.size_class(), wanted);
                ASSERT_EQ(entry.is_local(), is_local);
                ASSERT_FALSE(entry.empty());
                ASSERT_EQ(map_entry(entry.bits()).size_class(), wanted);
            }
}

TEST(address_map, knows_no_address_at_first) {
    static address_map map;
    for (std::uintptr_t const address :
         {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{1} << 47, (std::uintptr_t{1} << 48) - 1,
          std::uintptr_t{1} << 48, ~std::uintptr_t{0}})
        EXPECT_TRUE(map.find(at(address)).empty()) << address;
}

TEST(address_map, finds_every_byte_of_a_range_and_none_beside_it) {
    static address_map map;
    std::uintptr_t const base = 0x7f12'3456'4000;
    ASSERT_TRUE(map.prepare(at(base), 3 * k_granule_bytes));
    map.assign(at(base), 3 * k_granule_bytes, map_entry(7, 3, false));
    EXPECT_EQ(map.find(at(base)).pool_id(), 7U);
    EXPECT_EQ(map.find(at(base + 3 * k_granule_bytes - 1)).size_class(), 3U);
    EXPECT_TRUE(map.find(at(base - 1)).empty());
    EXPECT_TRUE(map.find(at(base + 3 * k_granule_bytes)).empty());
}

TEST(address_map, holds_a_range_across_4_gib) {
    static address_map map;
    std::uintptr_t const base = (std::uintptr_t{0x123} << 32) - k_granule_bytes;
    ASSERT_TRUE(map.prepare(at(base), 2 * k_granule_bytes));
    map.assign(at(base), 2 * k_granule_bytes, map_entry(9, 1, true));
    for (std::uintptr_t const offset : {std::uintptr_t{0}, k_granule_bytes, 2 * k_granule_bytes - 1}) {
        EXPECT_EQ(map.find(at(base + offset)).pool_id(), 9U);
        EXPECT_EQ(map.find_owned(at(base + offset)).pool_id(), 9U);
    }
}

TEST(address_map, forgets_a_range_that_is_given_back) {
    static address_map map;
    std::uintptr_t const base = 0x5555'0000'0000;
    ASSERT_TRUE(map.prepare(at(base), k_granule_bytes));
    map.assign(at(base), k_granule_bytes, map_entry(1, 1, false));
    map.assign(at(base), k_granule_bytes, {});
    EXPECT_TRUE(map.find(at(base)).empty());
}

TEST(address_map, holds_the_highest_address_and_refuses_what_lies_beyond) {
    static address_map map;
    std::uintptr_t const end = std::uintptr_t{1} << 48;
    EXPECT_TRUE(map.prepare(at(end - k_granule_bytes), k_granule_bytes));
    map.assign(at(end - k_granule_bytes), k_granule_bytes, map_entry(2, 2, false));
    EXPECT_EQ(map.find(at(end - 1)).pool_id(), 2U);
    EXPECT_FALSE(map.prepare(at(end - k_granule_bytes), k_granule_bytes + 1));
}

}  // namespace
