// SPDX-License-Identifier: BSL-1.0
// The map from an address to its pool and the descriptor of the memory there. It never reads what an address points to, so the addresses here
// are made up.

#include "pooled/detail/page_map.hpp"

#include "pooled/impl/heap/slab.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

using namespace pooled::detail;

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT: never read

map_entry entry(std::uint32_t pool_id) {
    static slab const descriptor;
    return {pool_id, &descriptor, map_entry::none};
}

TEST(map_entry, keeps_pool_descriptor_and_flags_apart) {
    static slab const descriptors[4];
    for (std::uint32_t const id : {0U, 1U, 31U, 32U, 255U, 256U, k_max_pools - 1})
        for (auto const what : {map_entry::none, map_entry::local})
            for (std::size_t i = 0; i < 4; ++i) {
                map_entry const entry(map_entry(id, &descriptors[i], what).bits());
                ASSERT_EQ(entry.pool_id(), id);
                ASSERT_EQ(entry.is_local(), (what & map_entry::local) != 0);
                ASSERT_EQ(entry.slab_at(), &descriptors[i]);
                ASSERT_FALSE(entry.empty());
            }
}

TEST(page_map, holds_a_range_across_4_gib) {
    static page_map map;
    std::uintptr_t const base = (std::uintptr_t{0x123} << 32) - k_granule_bytes;
    ASSERT_TRUE(map.prepare(at(base), 2 * k_granule_bytes));
    map.assign(at(base), 2 * k_granule_bytes, entry(9));
    for (std::uintptr_t const offset : {std::uintptr_t{0}, k_granule_bytes, 2 * k_granule_bytes - 1}) {
        EXPECT_EQ(map.find(at(base + offset)).pool_id(), 9U);
        EXPECT_EQ(map.find_owned(at(base + offset)).pool_id(), 9U);
    }
}

TEST(page_map, holds_the_highest_address_and_refuses_what_lies_beyond) {
    static page_map map;
    std::uintptr_t const end = std::uintptr_t{1} << 48;
    EXPECT_TRUE(map.prepare(at(end - k_granule_bytes), k_granule_bytes));
    map.assign(at(end - k_granule_bytes), k_granule_bytes, entry(2));
    EXPECT_EQ(map.find(at(end - 1)).pool_id(), 2U);
    EXPECT_FALSE(map.prepare(at(end - k_granule_bytes), k_granule_bytes + 1));
}

TEST(page_map, spans_all_memory_that_it_was_prepared_for) {
    static page_map map;
    EXPECT_FALSE(map.span().contains(0x5555'0000'0000));
    ASSERT_TRUE(map.prepare(at(0x5555'0000'0000), k_granule_bytes));
    ASSERT_TRUE(map.prepare(at(0x7f12'0000'0000), k_granule_bytes));
    EXPECT_TRUE(map.span().contains(0x5555'0000'0000));
    EXPECT_TRUE(map.span().contains(0x7f12'0000'0000 + k_granule_bytes - 1));
    EXPECT_FALSE(map.span().contains(0x5555'0000'0000 - 1));
    EXPECT_FALSE(map.span().contains(0x7f12'0000'0000 + k_granule_bytes));
}

}  // namespace
