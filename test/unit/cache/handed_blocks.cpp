// SPDX-License-Identifier: BSL-1.0

// Large blocks on their way between threads. Their addresses are made up: nothing touches them.

#include "pooled/cache/handed_blocks.hpp"

#include "pooled/base/size_class.hpp"
#include "pooled/pooled.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr class_index k_mib_class = large_class_for(std::size_t{1} << 20, 1);

void* block(std::uintptr_t i) { return reinterpret_cast<void*>((i + 1) << 20); }

TEST(handed_blocks, takes_a_batch_over_once_the_last_one_was_taken) {
    auto const way = std::make_unique<handed_blocks>();
    std::array<void*, 16> blocks{};
    for (std::size_t i = 0; i < blocks.size(); ++i)
        blocks[i] = block(i);
    EXPECT_EQ(way->push(k_mib_class, {blocks.data(), 3}), 3U);
    std::array<void*, std::size_t{handed_blocks::k_batches} * handed_blocks::k_most_blocks> taken{};
    EXPECT_EQ(way->take(k_mib_class, 1, taken.data()), 0U) << "the batch is not full";
    EXPECT_EQ(way->push(k_mib_class, {blocks.data() + 3, 13}), 5U)
        << "a batch of 4 is on its way, one is full";
    EXPECT_EQ(way->count(k_mib_class), 8U);
    EXPECT_EQ(way->take(k_mib_class, 1, taken.data()), 1U);
    EXPECT_EQ(taken[0], blocks[3]) << "what was freed last is used first";
    EXPECT_EQ(way->push(k_mib_class, {blocks.data() + 8, 8}), 4U) << "there is room for a batch";
    EXPECT_EQ(way->count(k_mib_class), 11U);
    EXPECT_EQ(way->take_all(k_mib_class, taken.data() + 1), 11U);
    EXPECT_EQ(way->end_taken(k_mib_class), 11U);
    EXPECT_EQ(way->count(k_mib_class), 0U);
    std::sort(taken.begin(), taken.begin() + 12);
    EXPECT_TRUE(std::equal(taken.begin(), taken.begin() + 12, blocks.begin()));
}

TEST(handed_blocks, refuses_a_block_that_is_twice_in_a_batch) {
    auto const way = std::make_unique<handed_blocks>();
    void* const twice[] = {block(1), block(2), block(1)};
    EXPECT_EQ(way->push(k_mib_class, {twice, 3}), 2U);
}

TEST(handed_blocks, of_longer_classes_than_a_batch_do_not_pass) {
    auto const way = std::make_unique<handed_blocks>();
    void* const one = block(1);
    EXPECT_EQ(way->push(k_class_count - 1, {&one, 1}), 0U);
}

TEST(handed_blocks, that_threads_leave_and_take_are_each_taken_once) {
    constexpr std::uintptr_t k_each = 20'000;
    auto const way = std::make_unique<handed_blocks>();
    std::vector<std::atomic<std::uint8_t>> times(2 * k_each);
    std::atomic<std::size_t> left{2 * k_each};
    auto const note = [&](void* one) {
        ++times[(reinterpret_cast<std::uintptr_t>(one) >> 20) - 1];
        --left;
    };
    std::vector<std::thread> threads;
    for (std::uintptr_t first : {std::uintptr_t{0}, k_each}) {
        threads.emplace_back([&, first] {
            for (std::uintptr_t i = 0; i < k_each; ++i) {
                void* const one = block(first + i);
                if (way->push(k_mib_class, {&one, 1}) == 0) note(one);
            }
        });
        threads.emplace_back([&] {
            void* one = nullptr;
            for (int turn = 0; turn < 200'000 && left > 4; ++turn)
                if (way->take(k_mib_class, 1, &one) == 1) note(one);
        });
    }
    for (std::thread& one : threads)
        one.join();
    std::array<void*, std::size_t{handed_blocks::k_batches} * handed_blocks::k_most_blocks> rest{};
    std::uint32_t const count = way->take_all(k_mib_class, rest.data());
    std::for_each(rest.begin(), rest.begin() + count, note);
    EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](auto const& n) { return n == 1; }));
}

}  // namespace
