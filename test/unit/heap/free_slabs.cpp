// SPDX-License-Identifier: BSL-1.0
// The order in which free slabs are used: the last one put first, beside its neighbours, and one after the other in memory.

#include "pooled/heap/free_slabs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace pooled::detail;

// A chunk of slabs without memory, of which the last is shorter.
class free_slabs_test : public testing::Test {
protected:
    static constexpr std::size_t k_slabs = 32;
    static constexpr std::size_t k_bytes = 65'536;

    struct chunk_of_slabs {
        chunk head;
        std::array<slab, k_slabs> slabs;
    };
    static_assert(sizeof(chunk_of_slabs) == chunk::descriptor_bytes(k_slabs));

    static std::unique_ptr<chunk_of_slabs> make_chunk() {
        auto made = std::make_unique<chunk_of_slabs>();
        made->head.slab_count = k_slabs;
        for (slab& s : made->slabs) {
            s.owner = &made->head;
            s.bytes = k_bytes;
        }
        made->slabs.back().bytes = k_bytes / 2;
        return made;
    }

    free_slabs_test() { all.add(one->head); }

    // Takes the next one as the heap does; returns its number, or k_slabs for none.
    std::size_t take() {
        slab* const s = all.find(k_bytes / 2);
        if (s == nullptr) return k_slabs;
        take(*s);
        return static_cast<std::size_t>(s - one->slabs.data());
    }
    void take(slab& s) {
        all.take(s);
        s.size_class = 0;
        EXPECT_TRUE(all.is_valid());
    }
    void put(std::size_t i) {
        one->slabs[i].size_class = k_no_class;
        all.put(one->slabs[i]);
        EXPECT_TRUE(all.is_valid());
    }
    std::vector<std::size_t> take_all() {
        std::vector<std::size_t> taken;
        for (std::size_t i = take(); i != k_slabs; i = take())
            taken.push_back(i);
        return taken;
    }

    std::unique_ptr<chunk_of_slabs> one = make_chunk();
    free_slabs all;
};

std::vector<std::size_t> ascending(std::size_t n) {
    std::vector<std::size_t> all(n);
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
}

TEST_F(free_slabs_test, begin_with_the_lowest_of_a_new_chunk) {
    EXPECT_EQ(all.count(), k_slabs);
    EXPECT_EQ(take_all(), ascending(k_slabs));
    EXPECT_EQ(all.count(), 0U);
    EXPECT_EQ(all.first(), nullptr);
    EXPECT_EQ(all.last(), nullptr);
}

TEST_F(free_slabs_test, are_walked_from_the_last_while_some_are_taken_and_put) {
    all.begin_walk();
    EXPECT_EQ(all.walk(), &one->slabs[31]);
    take(one->slabs[30]);  // the next one
    take(one->slabs[31]);
    EXPECT_EQ(all.walk(), &one->slabs[29]);
    put(30);  // behind the walk
    for (std::size_t i = 29; i-- != 0;)
        EXPECT_EQ(all.walk(), &one->slabs[i]);
    EXPECT_EQ(all.walk(), nullptr);

    all.begin_walk();
    EXPECT_EQ(all.walk(), &one->slabs[30]);
    all.forget(one->head);
    EXPECT_EQ(all.walk(), nullptr) << "the chunk has returned to upstream";
}

TEST_F(free_slabs_test, use_the_one_first_that_became_free_last) {
    take_all();
    for (std::size_t const i : {5U, 20U, 11U})
        put(i);
    EXPECT_EQ(take_all(), (std::vector<std::size_t>{11, 20, 5}));
}

TEST_F(free_slabs_test, do_not_follow_into_other_memory_while_slabs_become_free) {
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(take(), i);
    for (int round = 0; round < 3; ++round) {
        put(1);
        EXPECT_EQ(take(), 1U) << "the last one put, not slab 4, which was never used";
    }
}

TEST_F(free_slabs_test, are_in_order_again_whatever_the_order_in_which_they_became_free) {
    std::mt19937 random(1);
    std::vector<std::size_t> order = ascending(k_slabs);
    for (int round = 0; round < 100; ++round) {
        ASSERT_EQ(take_all().size(), k_slabs);
        std::shuffle(order.begin(), order.end(), random);
        for (std::size_t const i : order)
            put(i);
        std::vector<std::size_t> const taken = take_all();
        // From some slab to the last one, then the rest in the same way.
        std::size_t jumps = 0;
        for (std::size_t i = 1; i < k_slabs; ++i)
            jumps += taken[i] != taken[i - 1] + 1 ? 1 : 0;
        EXPECT_LE(jumps, 8U);
        for (std::size_t const i : ascending(k_slabs))
            put(i);
        EXPECT_EQ(take_all(), ascending(k_slabs));
        for (std::size_t const i : order)
            put(i);
    }
}

TEST_F(free_slabs_test, pass_over_one_that_is_too_short) {
    for (std::size_t i = 0; i + 1 < k_slabs; ++i)
        take();
    EXPECT_EQ(all.find(k_bytes), nullptr) << "the neighbour is the short one";
    put(3);
    EXPECT_EQ(all.find(k_bytes), &one->slabs[3]);
}

TEST_F(free_slabs_test, follow_no_slab_of_a_chunk_that_is_forgotten) {
    auto const other = make_chunk();
    all.add(other->head);
    slab* const lowest = all.find(k_bytes);
    ASSERT_EQ(lowest, &other->slabs[0]);
    all.take(*lowest);
    all.put(*lowest);
    EXPECT_EQ(all.count(), 2 * k_slabs);
    all.forget(other->head);
    EXPECT_EQ(all.count(), k_slabs);
    EXPECT_EQ(all.find(k_bytes), &one->slabs[0]);
    EXPECT_TRUE(all.is_valid());
}

TEST_F(free_slabs_test, do_not_offer_one_that_is_reserved) {
    take();
    std::byte unused{};
    one->slabs[1].reserved_for = reinterpret_cast<reservation*>(&unused);
    all.take(one->slabs[1]);
    EXPECT_EQ(all.find(k_bytes), &one->slabs[2]);
    put(0);
    EXPECT_EQ(all.find(k_bytes), &one->slabs[0]);
    EXPECT_TRUE(all.is_valid());
}

TEST_F(free_slabs_test, know_the_fewest_since_they_were_last_asked) {
    EXPECT_EQ(all.take_fewest(), 0U);
    take();
    take();
    put(0);
    EXPECT_EQ(all.take_fewest(), k_slabs - 2);
    EXPECT_EQ(all.take_fewest(), k_slabs - 1);
}

}  // namespace
