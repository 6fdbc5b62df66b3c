// SPDX-License-Identifier: BSL-1.0
// The bitmap of a slab: which blocks are free, lowest first, and which addresses are not blocks in use. The memory that a
// slab describes is never read or written, so the addresses here are made up, except for the hardened build, which marks free blocks.
// And the map from an address to its slab.

#include "pooled/heap/slab.hpp"

#include "pooled/heap/page_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

std::byte* base_of_memory() {
    if constexpr (!k_hardened) return reinterpret_cast<std::byte*>(0x7f12'3456'0000);  // NOLINT: never read
    static void* const pages = platform::map_pages(k_max_large_block_bytes, std::size_t{2} << 20);
    return static_cast<std::byte*>(pages);
}

class slab_test : public testing::Test {
protected:
    static constexpr std::size_t k_most_granules = k_max_large_block_bytes / k_granule_bytes;

    struct chunk_of_records {
        chunk head;
        std::array<slab, k_most_granules> records;
    };

    slab_test() {
        head.base = base_of_memory();
        head.granules = k_most_granules;
    }
    void make(class_index c, std::size_t bytes = k_slab_bytes) {
        head.bytes = bytes;
        static_cast<void>(head.record(0));
        one.granules = head.granules =
            static_cast<std::uint32_t>((bytes + k_granule_bytes - 1) / k_granule_bytes);
        one.short_by = static_cast<std::uint16_t>(one.granules * k_granule_bytes - bytes);
        one.assign(c);
    }
    [[nodiscard]] std::vector<void*> take(std::uint32_t count) {
        std::vector<void*> blocks(count);
        std::uint32_t const taken = one.allocate(count, blocks.data() + count);
        return {blocks.rbegin(), blocks.rbegin() + taken};
    }
    // `offset`: behind the first block's start.
    [[nodiscard]] void* at(std::size_t offset) const {
        return reinterpret_cast<void*>(address_of(one.blocks) + offset);  // NOLINT: never read
    }
    // The number of leading blocks that were put.
    [[nodiscard]] std::size_t put(span<void* const> blocks) {
        void* const* const end = one.deallocate(blocks.begin(), blocks.end(), k_geometry[one.size_class]);
        return static_cast<std::size_t>(end - blocks.begin());
    }
    [[nodiscard]] std::size_t put(void* p) { return put({&p, 1}); }

    std::unique_ptr<chunk_of_records> memory = std::make_unique<chunk_of_records>();
    chunk& head = memory->head;
    slab& one = memory->records[0];
};

constexpr class_index k_48 = class_for(48, 8);

TEST_F(slab_test, of_any_class_and_length_begins_with_all_blocks_free) {
    for (class_index c = 0; c < k_class_count; ++c)
        for (std::size_t const bytes :
             {k_geometry[c].slab_granules * k_granule_bytes, k_geometry[c].least_granules() * k_granule_bytes,
              k_slab_bytes, std::size_t{1024}, std::size_t{16}}) {
            if (k_geometry[c].block_bytes > bytes) continue;
            make(c, bytes);
            ASSERT_EQ(one.total, k_geometry[c].blocks_in(bytes));
            ASSERT_EQ(one.free, one.total);
            ASSERT_TRUE(one.is_empty());
            ASSERT_TRUE(one.is_valid());
            auto const blocks = take(one.total + 1);
            ASSERT_EQ(blocks.size(), one.total);
            for (std::size_t i = 0; i < blocks.size(); ++i)
                ASSERT_EQ(blocks[i], at(i * k_geometry[c].block_bytes));
            ASSERT_TRUE(one.is_valid());
            ASSERT_EQ(put(blocks), one.total);
            ASSERT_TRUE(one.is_empty());
            one.unassign();
            ASSERT_TRUE(one.is_valid());
        }
}

TEST_F(slab_test, takes_back_a_batch_up_to_the_first_block_of_another_slab) {
    make(k_48);
    auto blocks = take(4);
    void* const foreign = at(k_slab_bytes);
    void* const below = at(std::size_t{0} - 48);
    std::array<void*, 4> batch{blocks[0], blocks[1], foreign, blocks[2]};
    EXPECT_EQ(put(batch), 2U);
    EXPECT_EQ(one.error_of(foreign), nullptr);
    EXPECT_EQ(put(below), 0U);
    EXPECT_EQ(one.error_of(below), nullptr);
    EXPECT_TRUE(one.is_valid());
}

TEST_F(slab_test, takes_back_neighbours_in_ascending_and_in_descending_order) {
    for (bool const is_descending : {false, true}) {
        make(k_48);
        auto blocks = take(one.total);
        if (is_descending) std::ranges::reverse(blocks);
        blocks.insert(blocks.begin() + 100, blocks[90]);  // the second time in the midst of a run
        EXPECT_EQ(put(blocks), 100U);
        EXPECT_EQ(one.error_of(blocks[100]), slab::k_already_free);
        EXPECT_TRUE(one.is_valid());
        EXPECT_EQ(put(span<void* const>(blocks.data() + 101, blocks.size() - 101)), blocks.size() - 101);
        EXPECT_TRUE(one.is_empty());
        EXPECT_TRUE(one.is_valid());
        one.unassign();
    }
}

TEST_F(slab_test, refuses_a_block_that_is_free) {
    make(k_48);
    EXPECT_EQ(put(at(48)), 0U);
    EXPECT_EQ(one.error_of(at(48)), slab::k_already_free);
    auto const blocks = take(3);
    std::array<void*, 3> const batch{blocks[0], blocks[1], blocks[0]};
    EXPECT_EQ(put(batch), 2U);
    EXPECT_EQ(one.error_of(batch[2]), slab::k_already_free);
    EXPECT_EQ(one.free, one.total - 1);
    EXPECT_TRUE(one.is_valid()) << "what was right about the batch is recorded";
}

TEST_F(slab_test, refuses_each_block_that_is_free_among_neighbours) {
    for (bool const is_descending : {false, true})
        for (std::size_t const free : {64U, 67U, 71U, 640U}) {
            make(k_48);
            auto blocks = take(one.total);
            if (is_descending) std::ranges::reverse(blocks);
            EXPECT_EQ(put(blocks[free]), 1U);
            EXPECT_EQ(put(blocks), free);
            EXPECT_EQ(one.error_of(blocks[free]), slab::k_already_free);
            EXPECT_EQ(one.free, free + 1);
            EXPECT_TRUE(one.is_valid());
            std::size_t const left = blocks.size() - free - 1;
            EXPECT_EQ(put(span<void* const>(blocks.data() + free + 1, left)), left);
            EXPECT_TRUE(one.is_empty());
            EXPECT_TRUE(one.is_valid());
            one.unassign();
        }
}

TEST_F(slab_test, refuses_what_is_no_start_of_a_block) {
    make(k_48);
    static_cast<void>(take(one.total));
    for (std::size_t const offset : {1UL, 8UL, 16UL, 47UL, 49UL, 64UL * 48 + 24}) {
        EXPECT_EQ(put(at(offset)), 0U) << offset;
        EXPECT_EQ(one.error_of(at(offset)), slab::k_not_a_block) << offset;
    }
    std::size_t const rest = std::size_t{one.total} * 48;
    ASSERT_LT(rest, k_slab_bytes);
    EXPECT_EQ(put(at(rest)), 0U);
    EXPECT_EQ(one.error_of(at(rest)), slab::k_not_a_block) << "behind the last block";
    EXPECT_EQ(one.free, 0U);
    EXPECT_TRUE(one.is_valid());
}

TEST_F(slab_test, refuses_what_lies_behind_its_last_block_also_next_to_that) {
    make(k_48);
    auto const blocks = take(one.total);
    std::array<void*, 3> const batch{blocks[one.total - 2], blocks[one.total - 1],
                                     at(std::size_t{one.total} * 48)};
    EXPECT_EQ(put(batch), 2U);
    EXPECT_EQ(one.error_of(batch[2]), slab::k_not_a_block);
    EXPECT_TRUE(one.is_valid());
}

TEST_F(slab_test, counts_the_runs_of_its_free_blocks_from_its_first_byte) {
    make(class_for(1500, 8));
    ASSERT_NE(one.colour(), 0U) << "another base is needed";
    auto const blocks = take(one.total);
    ASSERT_EQ(put(blocks[3]), 1U);
    std::vector<std::pair<std::size_t, std::size_t>> runs;
    one.for_each_free_run([&](std::size_t first, std::size_t end) { runs.emplace_back(first, end); });
    std::size_t const first = address_of(blocks[3]) - address_of(one.memory());
    EXPECT_EQ(runs, (std::vector<std::pair<std::size_t, std::size_t>>{{first, first + 1536}}));
}

TEST_F(slab_test, is_what_a_set_of_addresses_says_whatever_is_done_to_it) {
    std::mt19937 random(7);
    for (class_index const c : {class_index{0}, k_48, class_for(1500, 8), class_for(32768, 8)}) {
        make(c);
        std::set<void*> free;
        for (std::size_t i = 0; i < one.total; ++i)
            free.insert(at(i * k_geometry[c].block_bytes));
        std::vector<void*> used;
        for (int step = 0; step < 3000; ++step) {
            if (random() % 2 == 0) {
                for (void* const p : take(static_cast<std::uint32_t>(random() % 40))) {
                    ASSERT_EQ(p, *free.begin());
                    free.erase(free.begin());
                    used.push_back(p);
                }
            } else {
                std::ranges::shuffle(used, random);
                std::size_t const count = std::min<std::size_t>(used.size(), random() % 40);
                std::span<void* const> const batch(used.data(), count);
                ASSERT_EQ(put(batch), count);
                free.insert(batch.begin(), batch.end());
                used.erase(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(count));
            }
            ASSERT_TRUE(one.is_valid());
            ASSERT_EQ(one.free, free.size());
            ASSERT_EQ(one.is_empty(), used.empty());
        }
        ASSERT_EQ(put(used), used.size());
        one.unassign();
        ASSERT_TRUE(one.is_valid());
    }
}

TEST_F(slab_test, takes_back_of_a_batch_with_runs_what_comes_before_the_first_error) {
    std::mt19937 random(11);
    std::vector<class_index> classes{class_index{0}, class_index{1}, k_48, class_for(80, 16),
                                     class_for(1500, 8)};
    classes.push_back(class_for(32768, 8));
    for (class_index const c : classes) {
        std::uintptr_t const size = k_geometry[c].block_bytes;
        make(c);
        std::uint32_t const total = one.total;
        std::vector<bool> is_free(total, true);
        std::size_t free = total;
        for (int step = 0; step < 400; ++step) {
            std::uint32_t const wanted =
                static_cast<std::uint32_t>(random() % (step % 8 == 0 ? total + 1 : 300));
            std::vector<void*> const taken = take(wanted);
            ASSERT_EQ(taken.size(), std::min<std::size_t>(wanted, free));
            for (std::size_t i = 0, n = 0; n != taken.size(); ++i) {
                if (!is_free[i]) continue;
                ASSERT_EQ(taken[n++], at(i * size));
                is_free[i] = false;
                --free;
            }
            ASSERT_EQ(one.free, free);
            // Runs of random lengths in both directions, single blocks, and now and then what is not a block in use.
            std::vector<void*> batch;
            for (std::size_t runs = 1 + random() % 6; runs-- != 0;) {
                auto const from = static_cast<std::ptrdiff_t>(random() % total);
                auto const length =
                    static_cast<std::ptrdiff_t>(random() % 3 == 0 ? random() % total : random() % 40);
                std::ptrdiff_t const direction = random() % 2 == 0 ? 1 : -1;
                for (std::ptrdiff_t i = 0; i <= length; ++i) {
                    std::ptrdiff_t const index = from + i * direction;
                    bool const is_block = index >= 0 && index < static_cast<std::ptrdiff_t>(total);
                    bool const may = random() % 64 == 0;
                    if ((!is_block && !may) ||
                        (is_block && is_free[static_cast<std::size_t>(index)] && !(may && random() % 8 == 0)))
                        break;
                    std::size_t const stray = random() % 4096 == 0 ? 1 : 0;
                    batch.push_back(at(static_cast<std::uintptr_t>(index) * size + stray));
                }
            }
            std::size_t expected = 0;
            for (; expected != batch.size(); ++expected) {
                std::uintptr_t const offset = address_of(batch[expected]) - address_of(one.blocks);
                if (offset % size != 0 || offset / size >= total || is_free[offset / size]) break;
                is_free[offset / size] = true;
                ++free;
            }
            // Exactly as large as the batch: a sanitizer sees what is read beyond it.
            auto const exact = std::make_unique<void*[]>(batch.size());
            std::ranges::copy(batch, exact.get());
            ASSERT_EQ(put(span<void* const>(exact.get(), batch.size())), expected);
            ASSERT_EQ(one.free, free);
            ASSERT_TRUE(one.is_valid());
            for (std::uint32_t i = 0; i < total; ++i)
                ASSERT_EQ(one.is_free(i), is_free[i]) << i;
            if (expected != batch.size()) {
                std::uintptr_t const offset = address_of(batch[expected]) - address_of(one.blocks);
                bool const is_inside = address_of(batch[expected]) - address_of(one.memory()) < one.bytes();
                bool const is_block = offset % size == 0 && offset / size < total;
                ASSERT_EQ(one.error_of(batch[expected]), !is_inside ? nullptr
                                                         : is_block ? slab::k_already_free
                                                                    : slab::k_not_a_block);
            }
            for (std::uint32_t w = 0; w < one.first_word; ++w)
                ASSERT_EQ(one.word(w), 0U);
        }
        std::vector<void*> rest;
        for (std::uint32_t i = 0; i < total; ++i)
            if (!is_free[i]) rest.push_back(at(i * size));
        ASSERT_EQ(put(rest), rest.size());
        one.unassign();
        ASSERT_TRUE(one.is_valid());
    }
}

// The map from an address to its pool and the descriptor of the memory there. It never reads what an address points to, so the addresses here
// are made up.

using namespace pooled::detail;

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT: never read

map_entry entry(std::uint32_t pool_id) {
    static slab const descriptor;
    return {pool_id, &descriptor, false};
}

TEST(map_entry, keeps_pool_descriptor_and_flags_apart) {
    static slab const descriptors[4];
    for (std::uint32_t const id : {0U, 1U, 31U, 32U, 255U, 256U, k_max_pools - 1})
        for (bool const is_local : {false, true})
            for (std::size_t i = 0; i < 4; ++i) {
                map_entry const entry(map_entry(id, &descriptors[i], is_local).bits());
                ASSERT_EQ(entry.pool_id(), id);
                ASSERT_EQ(entry.is_local(), is_local);
                ASSERT_EQ(entry.slab_at(), &descriptors[i]);
                ASSERT_FALSE(entry.empty());
            }
}

TEST_F(slab_test, has_the_words_of_its_bitmap_in_the_records_of_its_granules) {
    make(class_for(16, 16));
    ASSERT_EQ(one.total, 4096U);
    for (std::size_t w = 0; w < one.words(); ++w)
        EXPECT_EQ(&one.word(w), &head.records()[w / slab::k_words].bits[w % slab::k_words]) << w;
}

TEST(page_map, holds_a_range_across_4_gib) {
    static page_map map;
    std::uintptr_t const base = (std::uintptr_t{0x123} << 32) - k_granule_bytes;
    ASSERT_TRUE(map.prepare(at(base), 2 * k_granule_bytes));
    map.assign(at(base), 2 * k_granule_bytes, entry(9).bits());
    for (std::uintptr_t const offset : {std::uintptr_t{0}, k_granule_bytes, 2 * k_granule_bytes - 1}) {
        EXPECT_EQ(map.find(at(base + offset)).pool_id(), 9U);
        EXPECT_EQ(map.find_owned(at(base + offset)).pool_id(), 9U);
    }
}

TEST(page_map, finds_the_descriptors_of_blocks_of_one_pool_within_a_leaf) {
    static page_map map;
    std::uintptr_t const base = (std::uintptr_t{0x234} << 32) - 2 * k_granule_bytes;
    ASSERT_TRUE(map.prepare(at(base), 3 * k_granule_bytes));
    map.assign(at(base), k_granule_bytes, entry(8).bits());
    map.assign(at(base + k_granule_bytes), k_granule_bytes, entry(9).bits());
    map.assign(at(base + 2 * k_granule_bytes), k_granule_bytes, entry(8).bits());
    auto const finds = [](std::uintptr_t first, std::uintptr_t second) {
        std::array<void*, 2> const blocks{at(first), at(second)};
        std::vector<slab*> found;
        bool const are_found =
            map.find_all(blocks, map_entry(8, nullptr, false), [&](slab* one) { found.push_back(one); });
        EXPECT_TRUE(!are_found || found == std::vector(2, entry(8).slab_at()));
        return are_found;
    };
    EXPECT_TRUE(finds(base, base + k_granule_bytes - 1));
    EXPECT_FALSE(finds(base, base + k_granule_bytes)) << "another pool";
    EXPECT_FALSE(finds(base, base + 2 * k_granule_bytes)) << "another leaf";
    for (std::uintptr_t const nowhere : {base - k_granule_bytes, std::uintptr_t{0x9} << 32,
                                         base | std::uintptr_t{1} << 60, ~std::uintptr_t{0}}) {
        EXPECT_FALSE(finds(base, nowhere)) << nowhere;
        EXPECT_FALSE(finds(nowhere, base)) << nowhere;
    }
}

TEST(page_map, holds_the_highest_address_and_refuses_what_lies_beyond) {
    static page_map map;
    std::uintptr_t const end = std::uintptr_t{1} << 48;
    EXPECT_TRUE(map.prepare(at(end - k_granule_bytes), k_granule_bytes));
    map.assign(at(end - k_granule_bytes), k_granule_bytes, entry(2).bits());
    EXPECT_EQ(map.find(at(end - 1)).pool_id(), 2U);
    EXPECT_FALSE(map.prepare(at(end - k_granule_bytes), k_granule_bytes + 1));
}

TEST(page_map, knows_near_which_addresses_it_was_prepared) {
    static page_map map;
    EXPECT_EQ(map.find_leaf(0x5555'0000'0000), nullptr);
    ASSERT_TRUE(map.prepare(at(0x5555'0000'0000), k_granule_bytes));
    EXPECT_NE(map.find_leaf(0x5555'0000'0000), nullptr);
    EXPECT_EQ(map.find_leaf(0x5555'0000'0000 - 1), nullptr);
    EXPECT_EQ(map.find_leaf(std::uintptr_t{0x5555'0000'0000} << 8), nullptr) << "beyond the map";
}

}  // namespace
