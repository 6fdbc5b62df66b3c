// SPDX-License-Identifier: BSL-1.0
// The checked build's bit for each block in use. The memory is never read or written, so the addresses are made up.

#define POOLED_CHECKED 1  // what this header includes does not depend on it

#include "pooled/heap/live_map.hpp"

#include "support/syscall_counter.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace {

using pooled::detail::live_map;

constexpr std::uintptr_t k_base = 0x7f12'ffff'0000;  // 64 KiB below a multiple of 4 GiB

void* at(std::size_t offset) { return reinterpret_cast<void*>(k_base + offset); }  // NOLINT: never read

class live_map_test : public testing::Test {
protected:
    std::unique_ptr<live_map> map = std::make_unique<live_map>();
};

TEST_F(live_map_test, knows_a_block_from_when_it_is_set_until_it_is_cleared) {
    ASSERT_TRUE(map->prepare(at(0), 4096));
    EXPECT_FALSE(map->set(at(64), false)) << "nothing is in use at first";
    EXPECT_FALSE(map->set(at(64), true));
    EXPECT_TRUE(map->set(at(64), true)) << "handed out twice";
    EXPECT_TRUE(map->set(at(64), false));
    EXPECT_FALSE(map->set(at(64), false)) << "freed twice";
}

TEST_F(live_map_test, keeps_blocks_of_16_bytes_apart_also_across_4_gib) {
    constexpr std::size_t k_bytes = 128 << 10;
    ASSERT_TRUE(map->prepare(at(0), k_bytes));
    for (std::size_t offset = 0; offset < k_bytes; offset += 32)
        ASSERT_FALSE(map->set(at(offset), true));
    for (std::size_t offset = 0; offset < k_bytes; offset += 16)
        ASSERT_EQ(map->set(at(offset), false), offset % 32 == 0) << offset;
}

// Without the leaf for what lies beyond 4 GiB, set() would have to make it: a system call, in each deallocation's path.
TEST_F(live_map_test, is_prepared_to_the_last_byte) {
    auto const seen = test::count_syscalls([&] { static_cast<void>(map->prepare(at(0), (64 << 10) + 1)); },
                                           [&] { static_cast<void>(map->set(at(64 << 10), true)); });
    if (!seen.is_supported) GTEST_SKIP() << "system calls cannot be counted here";
    EXPECT_TRUE(seen.has_finished);
    EXPECT_EQ(seen.count, 0);
}

TEST_F(live_map_test, forgets_nothing_when_it_is_prepared_again) {
    ASSERT_TRUE(map->prepare(at(0), 4096));
    EXPECT_FALSE(map->set(at(0), true));
    ASSERT_TRUE(map->prepare(at(0), 4096));
    EXPECT_TRUE(map->set(at(0), false));
}

}  // namespace
