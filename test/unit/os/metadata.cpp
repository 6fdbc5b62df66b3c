// SPDX-License-Identifier: BSL-1.0
// The arena of the library's own structures.

#include "pooled/os/metadata.hpp"

#include "support/blocks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using pooled::detail::metadata_arena;

struct piece {
    void* p;
    std::size_t bytes;
};

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

TEST(metadata, uses_a_piece_again) {
    static metadata_arena arena;
    void* const first = arena.allocate(1000);
    arena.deallocate(first, 1000);
    EXPECT_EQ(arena.allocate(1000), first);
}

TEST(metadata, does_not_lose_the_rest_of_an_arena) {
    static metadata_arena arena;
    // 3 of 64 KiB and one of 32 KiB leave 32 KiB, too little for the next 64 KiB: it must be found by smaller pieces.
    std::vector<test::raw_block> pieces;
    for (std::size_t const bytes : {65536U, 65536U, 65536U, 32768U})
        pieces.push_back({arena.allocate(bytes), bytes, 64});
    auto* const last = static_cast<std::byte*>(pieces.back().p);
    static_cast<void>(arena.allocate(65536));
    auto* const next = static_cast<std::byte*>(arena.allocate(32768));
    EXPECT_TRUE(next == last - 32768 || next == last + 32768) << "it was cut from either end";
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
