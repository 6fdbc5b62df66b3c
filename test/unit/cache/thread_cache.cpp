// SPDX-License-Identifier: BSL-1.0
// How a thread finds its cache of a pool, and what that has of each size class.

#include "pooled/cache/thread_cache.hpp"

#include "pooled/cache/class_cache.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/pool/fast_path.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

TEST(thread_cache, keeps_one_block_of_each_large_class_that_is_not_inlined_and_4_mib_with_the_arrays) {
    auto const cache = std::make_unique<thread_cache>();
    std::array<std::byte, 5> blocks{};  // made up: never read
    constexpr class_index k_300k = large_class_for(300'000, 16);
    constexpr class_index k_12m = large_class_for(12 << 20, 16);
    constexpr class_index k_3m = large_class_for(3 << 20, 16);
    EXPECT_EQ(cache->pop(k_300k), nullptr);
    EXPECT_TRUE(cache->push(k_12m, &blocks[0])) << "one of any size";
    EXPECT_FALSE(cache->push(k_300k, &blocks[1])) << "more than 4 MiB";
    EXPECT_EQ(cache->pop(k_12m), &blocks[0]);
    EXPECT_TRUE(cache->push(k_300k, &blocks[1]));
    EXPECT_FALSE(cache->push(k_300k, &blocks[2])) << "there is one";
    cache->array_bytes = 1 << 20;
    EXPECT_FALSE(cache->push(k_3m, &blocks[3])) << "more than 4 MiB with the arrays";
    cache->array_bytes = 0;
    EXPECT_TRUE(cache->push(k_3m, &blocks[3]));
    EXPECT_FALSE(cache->push(k_inlined_classes - 1, &blocks[4])) << "it has no array yet";
    ASSERT_TRUE(cache->classes[k_inlined_classes - 1].reserve(1));
    EXPECT_TRUE(cache->push(k_inlined_classes - 1, &blocks[4]));
    EXPECT_EQ(cache->pop(k_300k), &blocks[1]);
    EXPECT_EQ(cache->pop(k_3m), &blocks[3]);
    EXPECT_EQ(cache->large_bytes, 0U);
    cache->release();
}

TEST(gate, admits_what_is_below_its_limit_while_it_is_open) {
    gate one;
    EXPECT_FALSE(one.enter(gate::k_limit));
    EXPECT_FALSE(one.enter(~std::uint64_t{0})) << "no bytes, less 1";
    EXPECT_TRUE(one.is_idle());
    EXPECT_TRUE(one.enter(gate::k_limit - 1));
    one.leave();
    one.stop();
    EXPECT_FALSE(one.enter());
    one.resume();
    EXPECT_TRUE(one.enter());
    one.close();
    EXPECT_FALSE(one.enter());
}

TEST(thread_state, reaches_the_default_pools_cache_by_its_gate) {
    pooled::default_pool().deallocate(pooled::default_pool().allocate(16), 16);
    thread_cache* const cache = t_state().find(k_default_pool_id);
    if (cache == nullptr) GTEST_SKIP() << "this build has no caches";
    EXPECT_EQ(t_state().default_gate, &cache->gate);
}

TEST(thread_state, remembers_the_cache_it_found_last_until_that_goes) {
    std::thread([] {  // it has no caches yet
        thread_state& state = t_state();
        std::array<thread_cache, 2> caches;
        auto const set = [&](std::size_t id, thread_cache* cache) {
            state.near_caches[id] = cache;
            std::atomic_signal_fence(std::memory_order_seq_cst);  // find_recent() reads by assembly
        };
        set(3, &caches[0]);
        set(4, &caches[1]);
        EXPECT_EQ(find_recent(3), &caches[0]);
        EXPECT_EQ(find_recent(3), &caches[0]);
        EXPECT_EQ(find_recent(4), &caches[1]);
        set(4, nullptr);
        state.forget(&caches[0]);
        EXPECT_EQ(find_recent(4), &caches[1]) << "another one went";
        state.forget(&caches[1]);
        EXPECT_EQ(find_recent(4), nullptr);
        EXPECT_EQ(find_recent(3), &caches[0]);
        set(3, nullptr);
        state.forget(&caches[0]);
    })
        .join();
}

TEST(thread_cache, has_at_most_4_mib_of_all_classes_together_but_for_the_first_arrays) {
    pooled::pool pool{{.huge_pages = false}};
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (std::size_t bytes = 8192; bytes <= 32'768; bytes += 1024)
        for (int i = 0; i < 64; ++i)
            blocks.emplace_back(pool.allocate(bytes), bytes);
    for (auto const& [p, bytes] : blocks)
        pool.deallocate(p, bytes);
    std::size_t cached = 0;
    for (auto const& c : pool.stats().classes)
        cached += c.cached * c.block_bytes;
    EXPECT_LE(cached, std::size_t{6} << 20);
}

// One thread's free blocks of one size class: last in, first out, and nothing is lost when the array is full, missing or
// replaced.

using pooled::detail::class_cache;

class class_cache_test : public testing::Test {
protected:
    ~class_cache_test() override {
        static_cast<void>(cache.drop_oldest(static_cast<std::uint32_t>(cache.oldest(256).size())));
        cache.release();
    }
    [[nodiscard]] void* block(std::size_t i) { return &blocks[i]; }
    void push(std::size_t first, std::size_t end) {
        for (std::size_t i = first; i < end; ++i)
            ASSERT_TRUE(cache.push(block(i)));
    }

    std::array<std::uint64_t, 16> blocks{};
    class_cache cache;
};

TEST_F(class_cache_test, gives_out_the_block_pushed_last) {
    ASSERT_TRUE(cache.reserve(4));
    push(0, 5);
    EXPECT_EQ(cache.held(), 5U);
    EXPECT_FALSE(cache.push(block(5))) << "the array is full";
    for (std::size_t i = 5; i-- != 0;)
        EXPECT_EQ(cache.pop(), block(i));
    EXPECT_EQ(cache.pop(), nullptr);
}

TEST_F(class_cache_test, has_one_hot_block_in_front_of_the_array) {
    ASSERT_TRUE(cache.reserve(4));
    EXPECT_TRUE(cache.push_hot(block(0)));
    EXPECT_FALSE(cache.push_hot(block(1)));
    EXPECT_TRUE(cache.push_cold(block(1)));
    EXPECT_EQ(cache.pop_hot(), block(1));
    EXPECT_EQ(cache.pop_hot(), nullptr);
    EXPECT_EQ(cache.pop_array(), block(0));
    EXPECT_EQ(cache.pop_array(), nullptr);
}

TEST_F(class_cache_test, gives_the_hot_block_before_what_lies_below_its_floor) {
    ASSERT_TRUE(cache.reserve(4));
    void** const array = cache.fill(3);
    for (std::size_t i = 0; i < 3; ++i)
        array[i] = block(i);
    EXPECT_TRUE(cache.push(block(3)));
    for (std::size_t i = 4; i-- != 0;)
        EXPECT_EQ(cache.pop(), block(i));
    EXPECT_EQ(cache.pop(), nullptr);
}

TEST_F(class_cache_test, gives_up_the_oldest_of_the_array_first) {
    ASSERT_TRUE(cache.reserve(6));
    push(0, 7);
    pooled::detail::span<void* const> oldest = cache.oldest(3);
    ASSERT_EQ(oldest.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(oldest[i], block(i));
    EXPECT_EQ(cache.drop_oldest(3), 3U);
    EXPECT_EQ(cache.held(), 4U);
    oldest = cache.oldest(10);
    ASSERT_EQ(oldest.size(), 3U) << "all of the array, and not the hot block";
    EXPECT_EQ(oldest[2], block(5));
    EXPECT_EQ(cache.drop_oldest(3), 3U);
    EXPECT_EQ(cache.pop(), block(6));
    EXPECT_EQ(cache.pop(), nullptr);
}

TEST_F(class_cache_test, keeps_its_blocks_when_the_array_grows) {
    ASSERT_TRUE(cache.reserve(2));
    push(0, 3);
    ASSERT_TRUE(cache.reserve(8));
    EXPECT_EQ(cache.capacity(), 8U);
    push(3, 9);
    for (std::size_t i = 9; i-- != 0;)
        EXPECT_EQ(cache.pop(), block(i));
}

TEST_F(class_cache_test, stops_at_the_floor_and_lowers_it_until_the_array_is_empty) {
    constexpr std::uint32_t k_many = 200;
    std::vector<std::uint64_t> many(k_many);
    ASSERT_TRUE(cache.reserve(k_many));
    void** const array = cache.fill(k_many);
    for (std::uint32_t i = 0; i < k_many; ++i)
        array[i] = &many[i];
    cache.prefetch();
    constexpr std::uint32_t k_dropped = 20;
    EXPECT_EQ(cache.drop_oldest(k_dropped), k_dropped);
    EXPECT_TRUE(cache.is_valid());
    std::uint32_t stops = 0;
    for (std::uint32_t i = k_many; i-- != k_dropped;) {
        void* block = cache.pop_above_floor();
        if (block == nullptr) {
            ++stops;
            block = cache.pop_array();
        }
        EXPECT_EQ(block, &many[i]);
        EXPECT_TRUE(cache.is_valid());
        ASSERT_TRUE(cache.push_array(block));
        EXPECT_EQ(cache.pop_above_floor(), block) << "what was put above the floor is taken at once";
    }
    EXPECT_EQ(cache.pop_array(), nullptr);
    EXPECT_GE(stops, 2U);
    EXPECT_LE(stops, k_many / 8);
}

TEST_F(class_cache_test, stops_at_each_128th_deallocation_until_the_array_is_full) {
    constexpr std::uint32_t k_many = 300;
    std::vector<std::uint64_t> many(k_many + 1);
    ASSERT_TRUE(cache.reserve(k_many));
    std::vector<std::uint32_t> stops;
    for (std::uint32_t i = 0; i < k_many; ++i) {
        if (cache.push_below_stop(&many[i])) continue;
        stops.push_back(i);
        ASSERT_TRUE(cache.push_array(&many[i]));
        EXPECT_TRUE(cache.is_valid());
    }
    EXPECT_EQ(stops, (std::vector<std::uint32_t>{0, 128, 256}));
    EXPECT_FALSE(cache.push_below_stop(&many[k_many]));
    EXPECT_FALSE(cache.push_array(&many[k_many])) << "the array is full";
    for (std::uint32_t i = k_many; i-- != 0;)
        EXPECT_EQ(cache.pop_array(), &many[i]);
    for (std::uint32_t i = 0; i < k_many; ++i)
        EXPECT_TRUE(cache.push_below_stop(&many[i])) << "it had as many in this interval";
    cache.begin_interval();
    EXPECT_EQ(cache.pop_array(), &many[k_many - 1]);
    EXPECT_FALSE(cache.push_below_stop(&many[k_many - 1])) << "it holds fewer than ever in this interval";
    EXPECT_TRUE(cache.push_array(&many[k_many - 1]));
    EXPECT_EQ(cache.least_held(), k_many - 1);
}

TEST_F(class_cache_test, keeps_the_order_when_a_hot_block_moves_to_the_array_at_a_stop) {
    constexpr std::uint32_t k_many = 140;
    std::vector<std::uint64_t> many(k_many);
    ASSERT_TRUE(cache.reserve(k_many - 2));
    ASSERT_TRUE(cache.push_hot(&many[0]));
    for (std::uint32_t i = 1; i < k_many - 1; ++i) {
        ASSERT_TRUE(cache.push_cold_below_stop(&many[i]) || cache.push_cold(&many[i]));
        EXPECT_EQ(cache.next(), &many[i]);
        EXPECT_TRUE(cache.is_valid());
    }
    EXPECT_FALSE(cache.push_cold_below_stop(&many[k_many - 1]));
    EXPECT_FALSE(cache.push_cold(&many[k_many - 1]));
    for (std::uint32_t i = k_many - 1; i-- != 0;)
        EXPECT_EQ(cache.pop(), &many[i]);
}

TEST_F(class_cache_test, knows_the_fewest_blocks_it_held_in_an_interval) {
    ASSERT_TRUE(cache.reserve(8));
    push(0, 7);  // six in the array, one in front
    cache.begin_interval();
    EXPECT_EQ(cache.least_held(), 6U);
    for (int i = 0; i < 4; ++i)
        static_cast<void>(cache.pop());
    push(0, 2);
    EXPECT_EQ(cache.least_held(), 3U);
    cache.begin_interval();
    EXPECT_EQ(cache.least_held(), 4U);
    while (cache.pop() != nullptr) {}
    EXPECT_EQ(cache.least_held(), 0U);
}

TEST(class_cache, drops_addresses_between_the_oldest_and_the_newest) {
    class_cache cache;
    ASSERT_TRUE(cache.reserve(16));
    std::array<std::byte, 10> blocks{};
    for (std::byte& one : blocks)
        ASSERT_TRUE(cache.push_array(&one));
    EXPECT_EQ(cache.below(3, 4)[0], &blocks[3]);
    cache.drop_below(3, 4);
    EXPECT_TRUE(cache.is_valid());
    for (std::size_t const left : {9U, 8U, 7U, 2U, 1U, 0U})
        EXPECT_EQ(cache.pop_array(), &blocks[left]);
    EXPECT_EQ(cache.pop_array(), nullptr);
    cache.release();
}

// As stats() does, while a thread that frees large blocks of others gets its array without the lock of the class.
TEST(class_cache, never_says_that_it_holds_more_than_its_array_has_room_for) {
    class_cache cache;
    std::atomic<bool> has_begun{false};
    std::atomic<bool> is_over{false};
    std::thread owner([&] {
        for (int i = 0; i < 1'000'000 && cache.reserve(16); ++i) {
            cache.release();
            has_begun = true;
        }
        is_over = true;
    });
    while (!has_begun && !is_over)
        std::this_thread::yield();
    std::uint32_t most = 0;
    do
        most = std::max({most, cache.held(), cache.least_held()});
    while (!is_over);
    owner.join();
    EXPECT_EQ(most, 0U);
}

}  // namespace
