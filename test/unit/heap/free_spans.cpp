// SPDX-License-Identifier: BSL-1.0
// The free spans of a heap: neighbours are one, the shortest that suffices is used, and slabs lie one after the other.

#include "pooled/heap/free_spans.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace pooled::detail;

class free_spans_test : public testing::Test {
protected:
    static constexpr std::size_t k_granules = 300;

    // A chunk without memory.
    struct chunk_of_records {
        chunk head;
        std::array<slab, k_granules> records;
    };
    static_assert(sizeof(chunk_of_records) == chunk::descriptor_bytes(k_granules));

    static std::unique_ptr<chunk_of_records> make_chunk(std::uintptr_t base) {
        auto made = std::make_unique<chunk_of_records>();
        made->head.base = reinterpret_cast<std::byte*>(base);  // NOLINT: never read
        made->head.granules = k_granules;
        made->head.bytes = k_granules * k_granule_bytes;
        return made;
    }

    free_spans_test() { all.add(one->head); }

    [[nodiscard]] std::size_t index_of(slab const& s) const {
        return static_cast<std::size_t>(&s - one->records.data());
    }
    // As the heap does it. Null: none.
    slab* take(std::size_t granules, std::size_t align = 1) {
        slab* const s = all.find(granules, granules * k_granule_bytes, align);
        return s != nullptr ? &take_of(*s, granules, free_spans::skip_to(*s, align) / k_granule_bytes)
                            : nullptr;
    }
    slab& take_of(slab& s, std::size_t granules, std::size_t skip = 0) {
        slab& taken = all.take(s, granules, skip);
        taken.size_class = 0;
        EXPECT_EQ(taken.granules, granules);
        EXPECT_TRUE(all.is_valid());
        return taken;
    }
    void put(slab& s) {
        s.size_class = k_no_class;
        all.put(s);
        EXPECT_TRUE(all.is_valid());
    }
    // The chunk in as many spans of this length as there are.
    std::vector<slab*> take_all(std::size_t granules) {
        std::vector<slab*> taken;
        while (slab* const s = take(granules))
            taken.push_back(s);
        return taken;
    }
    // The lengths of all free spans, ascending.
    [[nodiscard]] std::vector<std::size_t> lengths() {
        std::vector<std::size_t> found;
        for (std::size_t bin = 0; bin < free_spans::k_bins; ++bin)
            for (std::size_t left = all.count(bin); left != 0; --left)
                found.push_back(all.rotate(bin)->granules);
        std::ranges::sort(found);
        return found;
    }

    std::unique_ptr<chunk_of_records> one = make_chunk(0x7f12'0000'4000);  // aligned to a granule alone
    free_spans all;
};

using lengths_list = std::vector<std::size_t>;

TEST_F(free_spans_test, begin_with_the_lowest_of_a_new_chunk_and_continue_after_it) {
    EXPECT_EQ(all.granules(), k_granules);
    std::vector<slab*> const taken = take_all(4);
    ASSERT_EQ(taken.size(), k_granules / 4);
    for (std::size_t i = 0; i < taken.size(); ++i)
        EXPECT_EQ(index_of(*taken[i]), 4 * i);
    EXPECT_EQ(all.granules(), 0U);
    EXPECT_TRUE(lengths().empty());
}

TEST_F(free_spans_test, that_are_neighbours_are_one) {
    std::vector<slab*> const taken = take_all(100);
    put(*taken[0]);
    put(*taken[2]);
    EXPECT_EQ(lengths(), (lengths_list{100, 100}));
    put(*taken[1]);
    EXPECT_EQ(lengths(), (lengths_list{300})) << "with the one before it and the one after it";
    EXPECT_NE(take(300), nullptr);
}

TEST_F(free_spans_test, are_one_again_whatever_the_order_in_which_they_were_put) {
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
        std::vector<slab*> taken;
        while (all.granules() != 0)
            taken.push_back(take(std::min<std::size_t>(1 + random() % 20, all.granules())));
        std::ranges::shuffle(taken, random);
        for (slab* const s : taken)
            put(*s);
        EXPECT_EQ(lengths(), (lengths_list{k_granules}));
    }
}

TEST_F(free_spans_test, of_two_chunks_are_no_neighbours) {
    auto const other = make_chunk(address_of(one->head.base) + k_granules * k_granule_bytes);
    all.add(other->head);
    EXPECT_EQ(lengths(), (lengths_list{k_granules, k_granules}));
    EXPECT_EQ(all.find(k_granules + 1, 1), nullptr);
}

TEST_F(free_spans_test, are_used_shortest_first_so_that_long_ones_stay) {
    std::vector<slab*> taken;
    for (std::size_t const granules : {5U, 1U, 70U, 1U, 3U, 1U, 64U, 1U, 154U})  // of 1: between them
        taken.push_back(take(granules));
    for (std::size_t const i : {0U, 2U, 4U, 6U, 8U})
        put(*taken[i]);
    EXPECT_EQ(all.find(2, 1), taken[4]);
    EXPECT_EQ(all.find(3, 1), taken[4]);
    EXPECT_EQ(all.find(4, 1), taken[0]);
    EXPECT_EQ(all.find(6, 1), taken[6]);
    EXPECT_EQ(all.find(65, 1), taken[2]) << "in bins that hold several lengths, too";
    EXPECT_EQ(all.find(71, 1), taken[8]);
    EXPECT_EQ(all.find(155, 1), nullptr);
    EXPECT_EQ(all.find_shorter(5), taken[4]) << "fewer than five";
    EXPECT_EQ(all.find_shorter(3), nullptr);
}

// The bins of longer spans hold four lengths to the doubling: a search passes over what is too short there.
TEST_F(free_spans_test, find_a_span_behind_a_shorter_one_of_the_same_bin) {
    slab& longer = *take(79);
    static_cast<void>(take(1));
    slab& shorter = *take(65);
    static_cast<void>(take(k_granules - 79 - 1 - 65));
    put(longer);
    put(shorter);
    EXPECT_EQ(all.find(70, 1), &longer);
}

TEST_F(free_spans_test, use_the_one_first_that_became_free_last) {
    std::vector<slab*> const taken = take_all(4);
    for (std::size_t const i : {5U, 20U, 11U})
        put(*taken[i]);
    for (std::size_t const i : {11U, 20U, 5U})
        EXPECT_EQ(take(4), taken[i]);
}

TEST_F(free_spans_test, continue_after_the_one_taken_last_also_where_another_one_is_shorter) {
    std::vector<slab*> const taken = take_all(4);
    put(*taken[3]);
    for (std::size_t i = 10; i < 20; ++i)
        put(*taken[i]);
    slab& first = take_of(*taken[10], 4);
    EXPECT_EQ(&first, taken[10]);
    EXPECT_EQ(take(4), taken[11]) << "not the shortest";
    put(*taken[10]);
    EXPECT_EQ(take(4), taken[10]) << "the last one put";
}

TEST_F(free_spans_test, lie_at_any_alignment_that_a_longer_span_contains) {
    slab* const s = all.find(4, 4 * k_granule_bytes, 16 * k_granule_bytes);
    ASSERT_NE(s, nullptr);
    std::size_t const skip = free_spans::skip_to(*s, 16 * k_granule_bytes) / k_granule_bytes;
    ASSERT_NE(skip, 0U) << "another base is needed";
    slab& taken = take_of(*s, 4, skip);
    EXPECT_EQ(address_of(taken.memory()) % (16 * k_granule_bytes), 0U);
    EXPECT_EQ(lengths(), (lengths_list{skip, k_granules - skip - 4}))
        << "what is before and after it stays free";
    put(taken);
    EXPECT_EQ(lengths(), (lengths_list{k_granules}));
    EXPECT_EQ(all.find(k_granules, k_granules * k_granule_bytes, 16 * k_granule_bytes), nullptr);
}

TEST_F(free_spans_test, do_not_offer_one_that_is_reserved) {
    slab& reserved = *take(100);
    static_cast<void>(take(200));
    std::byte unused{};
    reserved.size_class = k_no_class;
    reserved.reserved_for = reinterpret_cast<reservation*>(&unused);
    EXPECT_EQ(all.find(1, 1), nullptr);
    put(one->records[100]);
    EXPECT_EQ(lengths(), (lengths_list{200})) << "nor merge with it";
}

TEST_F(free_spans_test, of_a_chunk_are_forgotten_with_it) {
    auto const other = make_chunk(0x7f13'0000'0000);
    all.add(other->head);
    slab& used = take_of(other->records[0], 10);
    static_cast<void>(take_of(other->records[10], 10));
    put(used);
    all.forget_all(other->head);
    EXPECT_EQ(lengths(), (lengths_list{k_granules}));
    EXPECT_TRUE(all.is_valid());
    all.forget(one->head);
    EXPECT_EQ(all.granules(), 0U);
    EXPECT_EQ(all.find(1, 1), nullptr);
    EXPECT_TRUE(all.is_valid());
}

TEST_F(free_spans_test, know_the_fewest_granules_since_they_were_last_asked) {
    EXPECT_EQ(all.take_fewest(), 0U);
    slab& s = *take(10);
    static_cast<void>(take(20));
    put(s);
    EXPECT_EQ(all.take_fewest(), k_granules - 30);
    EXPECT_EQ(all.take_fewest(), k_granules - 20);
}

}  // namespace
