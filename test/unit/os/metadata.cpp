// SPDX-License-Identifier: BSL-1.0
// The arena of the library's own structures.

#include "pooled/impl/os/metadata.hpp"

#include "support/blocks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace {

using namespace pooled::detail;

TEST(metadata, gives_pieces_of_any_size_that_do_not_overlap) {
    static metadata_arena arena;
    std::vector<test::raw_block> pieces;
    for (int round = 0; round < 3; ++round)
        for (std::size_t bytes = 1; bytes <= 300'000; bytes = bytes * 2 + bytes / 3 + 1) {
            void* const p = arena.allocate(bytes);
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0U) << bytes;
            std::memset(p, 0xab, bytes);
            pieces.push_back({p, bytes, 64});
        }
    EXPECT_FALSE(test::overlap(pieces));
    for (auto const& [p, bytes, align] : pieces)
        arena.deallocate(p, bytes);
}

TEST(metadata, gives_back_the_region_that_has_no_piece_in_use) {
    static metadata_arena arena;
    constexpr std::size_t k_piece = 1000;
    std::vector<void*> pieces;
    for (int i = 0; i < 1000; ++i)  // far more than one region holds
        pieces.push_back(arena.allocate(k_piece));
    for (void* const p : pieces)
        arena.deallocate(p, k_piece);
    std::size_t mapped = 0;
    for (void* const p : pieces) {
        auto const page =
            reinterpret_cast<std::uintptr_t>(p) / platform::k_page_bytes * platform::k_page_bytes;
        unsigned char state = 0;
        mapped += ::mincore(reinterpret_cast<void*>(page), 1, &state) == 0 ? 1 : 0;  // NOLINT: an address
    }
    EXPECT_LE(mapped, (std::size_t{128} << 10) / k_piece) << "one region is kept";
    EXPECT_GT(mapped, 0U);
}

TEST(metadata, is_what_a_list_of_its_pieces_says_whatever_is_done_to_it) {
    static metadata_arena arena;
    std::mt19937 random(3);
    std::vector<test::raw_block> pieces;
    for (int step = 0; step < 20'000; ++step) {
        if (pieces.empty() || random() % 9 < 5) {
            std::size_t const bytes = std::size_t{1} << random() % 16;
            pieces.push_back({arena.allocate(bytes), bytes, 2 * k_cache_line});
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pieces.back().p) % (2 * k_cache_line), 0U);
            test::fill_pattern(pieces.back().p, bytes, bytes);
        } else {
            std::swap(pieces[random() % pieces.size()], pieces.back());
            ASSERT_TRUE(test::has_pattern(pieces.back().p, pieces.back().bytes, pieces.back().bytes));
            arena.deallocate(pieces.back().p, pieces.back().bytes);
            pieces.pop_back();
        }
    }
    EXPECT_FALSE(test::overlap(pieces));
    for (auto const& [p, bytes, align] : pieces)
        arena.deallocate(p, bytes);
}

TEST(metadata, has_set_aside_what_was_reserved) {
    static metadata_arena arena;
    arena.reserve(8192, 8);
    std::vector<test::raw_block> pieces;
    for (int i = 0; i < 8; ++i)
        pieces.push_back({arena.allocate(8192), 8192, 64});
    EXPECT_FALSE(test::overlap(pieces));
}

}  // namespace
