// SPDX-License-Identifier: BSL-1.0
// The central list of idle slots: it counts what is outside, refills and flushes caches by halves, and loses nothing.

#include "pooled/object/idle_list.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace {

using pooled::detail::class_cache;
using pooled::detail::idle_list;
using pooled::detail::slot;

class idle_list_test : public testing::Test {
protected:
    static constexpr std::uint32_t k_cache = 8;

    idle_list_test() {
        slots.reserve(64);
        for (int i = 0; i < 64; ++i)
            slots.emplace_back(nullptr);
    }
    ~idle_list_test() override {
        list.retire(cache);
        EXPECT_TRUE(list.is_valid());
    }
    // The first `count` slots are idle in the list; the one with the highest index was pushed last.
    void fill(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            list.add_outside();
        for (std::size_t i = 0; i < count; ++i)
            list.push(slots[i]);
    }

    std::vector<slot> slots;
    idle_list list{k_cache};
    class_cache cache;
};

TEST_F(idle_list_test, gives_out_the_slot_pushed_last) {
    fill(3);
    EXPECT_EQ(list.size(), 3U);
    EXPECT_EQ(list.pop(), &slots[2]);
    list.push(slots[2]);
    for (std::size_t i = 3; i-- != 0;)
        EXPECT_EQ(list.pop(), &slots[i]);
    EXPECT_EQ(list.pop(), nullptr);
    EXPECT_EQ(list.outside(), 3U);
    EXPECT_TRUE(list.is_valid());
}

TEST_F(idle_list_test, counts_what_there_is_and_the_most_there_were) {
    fill(5);
    EXPECT_EQ(list.capacity(), 5U);
    EXPECT_EQ(list.outside(), 0U);
    ASSERT_NE(list.pop(), nullptr);
    list.remove_outside();
    EXPECT_EQ(list.capacity(), 4U);
    EXPECT_EQ(list.high_water(), 5U);
    list.add_outside();
    EXPECT_EQ(list.high_water(), 5U);
    list.add_outside();
    EXPECT_EQ(list.high_water(), 6U);
}

TEST_F(idle_list_test, refills_an_empty_cache_with_half_of_what_it_holds_and_in_order) {
    fill(20);
    EXPECT_EQ(list.pop(cache), &slots[19]);
    EXPECT_EQ(cache.held(), k_cache / 2 - 1);
    EXPECT_EQ(list.size(), 20U - k_cache / 2);
    for (std::size_t i = 19; i-- != 0;)
        EXPECT_EQ(list.pop(cache), &slots[i]);
    EXPECT_EQ(list.pop(cache), nullptr);
    EXPECT_EQ(list.outside(), 20U);
}

TEST_F(idle_list_test, flushes_the_older_half_of_a_full_cache) {
    for (std::size_t i = 0; i < 20; ++i)
        list.add_outside();
    for (std::size_t i = 0; i <= k_cache; ++i)
        list.push(slots[i], cache);
    EXPECT_EQ(list.size(), 0U);
    EXPECT_EQ(cache.held(), k_cache + 1);
    list.push(slots[k_cache + 1], cache);
    EXPECT_EQ(list.size(), k_cache / 2);
    EXPECT_EQ(cache.held(), k_cache / 2 + 2);
    EXPECT_EQ(cache.pop(), &slots[k_cache + 1]);
    EXPECT_EQ(list.pop(), &slots[k_cache / 2 - 1]) << "the oldest is deepest in the list";
}

TEST_F(idle_list_test, collects_all_that_a_cache_holds) {
    fill(20);
    static_cast<void>(list.pop(cache));
    list.collect(cache);
    EXPECT_EQ(cache.held(), 0U);
    EXPECT_EQ(list.size(), 19U);
    std::set<slot*> seen;
    while (slot* const s = list.pop())
        seen.insert(s);
    EXPECT_EQ(seen.size(), 19U);
}

TEST_F(idle_list_test, leaves_no_memory_with_a_retired_cache) {
    fill(20);
    static_cast<void>(list.pop(cache));
    EXPECT_EQ(cache.capacity(), k_cache);
    list.retire(cache);
    EXPECT_EQ(cache.capacity(), 0U);
    EXPECT_EQ(list.size(), 19U);
}

TEST_F(idle_list_test, of_few_objects_caches_few) {
    idle_list few{2};
    class_cache small;
    for (std::size_t i = 0; i < 10; ++i)
        few.add_outside();
    for (std::size_t i = 0; i < 10; ++i) {
        few.push(slots[i], small);
        EXPECT_LE(small.held(), 3U);
    }
    few.collect(small);
    EXPECT_EQ(few.pop(small), &slots[9]);
    EXPECT_EQ(small.held(), 0U) << "a single acquisition takes none from the others";
    few.retire(small);
    EXPECT_TRUE(few.is_valid());
}

}  // namespace
