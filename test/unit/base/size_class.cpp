// SPDX-License-Identifier: BSL-1.0
// Which class serves a request, for every size there is and every alignment; and the geometry of each class.

#include "pooled/base/size_class.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace {

using namespace pooled::detail;

constexpr std::span<class_geometry const, k_class_count> k_classes(k_geometry.data(), k_class_count);

static_assert([] {
    class_geometry before{};
    for (class_geometry const g : k_classes) {
        bool const is_right = g.block_bytes % 8 == 0 && g.block_bytes >= k_min_block_bytes &&
                              g.cache_blocks % 2 == 0 && g.block_bytes % g.align == 0;
        bool const ascends = g.block_bytes > before.block_bytes ||
                             (g.block_bytes == before.block_bytes && g.align > before.align);
        if (!is_right || !ascends) return false;
        before = g;
    }
    return true;
}());
static_assert(k_guard_bytes != 0 || (k_geometry[class_for(0, 1)].block_bytes == 16 &&
                                     k_geometry[class_for(24, 16)].block_bytes == 32 &&
                                     k_geometry[class_for(100, 4096)].block_bytes == 4096));

// Tries all classes: what class_for's tables are compared with.
class_index smallest_that_fits(std::size_t bytes, std::size_t align) {
    for (class_index c = 0; c < k_class_count; ++c)
        if (k_geometry[c].block_bytes >= bytes && k_geometry[c].align >= align) return c;
    return k_large;
}

std::string first_difference(std::size_t align) {
    for (std::size_t bytes = 0; bytes <= k_max_inlined_bytes + 64;
         bytes += bytes < k_max_block_bytes + 64 ? 1 : 61) {
        class_index const c = smallest_that_fits(bytes, align);
        if (class_for(bytes, align) != (c < k_inlined_classes ? c : k_large))
            return std::to_string(bytes) + " bytes";
    }
    return "none";
}

TEST(size_class, is_the_smallest_that_holds_the_request_at_its_alignment) {
    for (std::size_t align = 1; align <= k_max_class_align; align *= 2)
        EXPECT_EQ(first_difference(align), "none") << "at alignment " << align;
}

// The smallest of all classes, as any_class_for() finds it without a table; k_exact where there is none.
TEST(size_class, of_a_large_request_is_the_smallest_that_holds_it_at_its_alignment) {
    for (std::size_t bytes = k_max_block_bytes - 3; bytes <= k_max_large_block_bytes + 3;
         bytes += bytes < 600'000 ? 1 : bytes / 997)
        for (std::size_t const align : {std::size_t{1}, k_max_class_align}) {
            class_index const c = smallest_that_fits(bytes, align);
            ASSERT_EQ(any_class_for(bytes, align), c != k_large ? c : k_exact) << bytes << " at " << align;
        }
    for (class_index c = k_first_large; c < k_class_count; ++c) {
        EXPECT_EQ(class_for(k_geometry[c].block_bytes, 1), c < k_inlined_classes ? c : k_large);
        EXPECT_EQ(any_class_for(k_geometry[c].block_bytes, 1), c);
        EXPECT_EQ(any_class_for(k_geometry[c].block_bytes + 1, 1), c + 1 < k_class_count ? c + 1 : k_exact);
        EXPECT_EQ(k_geometry[c].slab_granules * k_granule_bytes, k_geometry[c].block_bytes)
            << "a slab for each";
    }
    EXPECT_EQ(any_class_for(1, 2 * k_max_class_align), k_exact);
    EXPECT_EQ(any_class_for(k_size_max, 1), k_exact);
}

TEST(size_class, wastes_a_granule_or_a_quarter_of_a_large_request_at_most) {
    for (std::size_t bytes = k_max_block_bytes + 1; bytes <= k_max_large_block_bytes; bytes += 4093) {
        std::size_t const wasted = k_geometry[large_class_for(bytes, 1)].block_bytes - bytes;
        ASSERT_TRUE(wasted < k_granule_bytes || wasted * (bytes <= 512 * 1024 ? 8 : 4) <= bytes) << bytes;
    }
}

TEST(size_class, sends_what_no_class_aligns_upstream) {
    for (std::size_t align = 2 * k_max_class_align; align != 0; align *= 2)
        EXPECT_EQ(class_for(0, align), k_large);
    EXPECT_EQ(class_for(48, 0), k_large) << "no alignment at all";
}

TEST(size_class, wastes_an_eighth_at_most_up_to_4_kib) {
    for (std::size_t bytes = 129; bytes <= 4096; ++bytes)
        ASSERT_LE(k_geometry[class_for(bytes, 1)].block_bytes, bytes + bytes / 8 + 1) << bytes;
}

TEST(size_class, wastes_half_of_the_request_at_most_for_alignments_over_a_cache_line) {
    for (std::size_t align = 128; align <= 1024; align *= 2)
        for (std::size_t bytes = std::max<std::size_t>(256, align); bytes <= 4096; bytes += align)
            ASSERT_LE(k_geometry[class_for(bytes, align)].block_bytes, bytes + bytes / 2)
                << bytes << " at " << align;
}

TEST(size_class, gives_up_one_block_of_a_full_slab_at_most) {
    for (class_geometry const g : k_classes) {
        std::size_t const bytes = g.slab_granules * k_granule_bytes;
        EXPECT_GE(g.blocks_in(bytes) + 1, bytes / g.block_bytes) << g.block_bytes;
        EXPECT_GE(g.blocks_in(bytes) * 16, bytes / g.block_bytes * 15) << g.block_bytes;
        for (std::size_t const less : {k_granule_bytes, std::size_t{g.block_bytes}})
            EXPECT_TRUE(less >= k_slab_bytes || g.blocks_in(less) == less / g.block_bytes)
                << g.block_bytes << ": in a slab of a small pool";
    }
}

TEST(size_class, leaves_at_most_a_sixteenth_of_its_slab_over) {
    for (class_geometry const g : k_classes) {
        std::size_t const bytes = g.slab_granules * k_granule_bytes;
        EXPECT_LE((bytes - std::size_t{g.blocks_in(bytes)} * g.block_bytes) * 16, bytes) << g.block_bytes;
        EXPECT_TRUE(g.uses(bytes));
        EXPECT_TRUE(g.block_bytes > k_max_block_bytes ||
                    (bytes >= k_slab_bytes && g.slab_granules <= k_max_slab_granules));
    }
}

TEST(size_class, keeps_every_block_of_every_colour_in_its_slab_and_aligned) {
    for (class_geometry const g : k_classes)
        for (std::size_t bytes = g.least_granules() * k_granule_bytes;
             bytes <= g.slab_granules * k_granule_bytes; bytes += k_granule_bytes)
            for (std::uintptr_t slab = 0; slab < 128 * bytes; slab += k_granule_bytes) {
                std::size_t const colour = g.colour_of(slab, bytes);
                ASSERT_EQ(colour % g.align, 0U) << g.block_bytes;
                ASSERT_LE(colour + std::size_t{g.blocks_in(bytes)} * g.block_bytes, bytes) << g.block_bytes;
                ASSERT_LT(colour, k_granule_bytes) << g.block_bytes;
            }
}

TEST(size_class, finds_the_index_of_every_block_from_its_offset) {
    for (class_geometry const g : k_classes)
        for (std::uint32_t offset = 0; offset < k_max_slab_granules * k_granule_bytes; offset += 8)
            ASSERT_EQ(g.index_of(offset), offset / g.block_bytes)
                << offset << " in blocks of " << g.block_bytes;
}

TEST(size_class, lets_a_thread_cache_2_to_512_blocks_and_at_most_512_kib) {
    for (class_geometry const g : k_classes) {
        EXPECT_GE(g.cache_blocks, 2U) << g.block_bytes;
        EXPECT_LE(g.cache_blocks, k_max_cached_blocks) << g.block_bytes;
        EXPECT_TRUE(g.cache_blocks == 2 || g.cache_blocks * std::size_t{g.block_bytes} <= k_cached_bytes)
            << g.block_bytes;
    }
}

}  // namespace
