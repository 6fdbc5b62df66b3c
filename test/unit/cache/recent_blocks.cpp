// SPDX-License-Identifier: BSL-1.0
// The ring of addresses that were flushed last: the newest are popped, the oldest are drained. The addresses are made up.

#include "pooled/impl/cache/central.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace {

using pooled::detail::recent_blocks;
using pooled::detail::span;

std::vector<void*> addresses(std::uintptr_t first, std::size_t count) {
    std::vector<void*> all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(reinterpret_cast<void*>(first + i));  // NOLINT: never read
    return all;
}
std::vector<void*> pop(recent_blocks& from, std::uint32_t most) {
    std::vector<void*> popped(most);
    popped.resize(from.pop(popped.data(), most));
    return popped;
}
std::vector<void*> drain(recent_blocks& from, std::size_t kept) {
    std::vector<void*> drained;
    from.drain(kept,
               [&](span<void* const> some) { drained.insert(drained.end(), some.begin(), some.end()); });
    return drained;
}

TEST(recent_blocks, keeps_its_addresses_when_it_gets_more_room) {
    recent_blocks recent;
    recent.reserve(1);
    std::size_t const capacity = recent.capacity();
    recent.push(addresses(1, capacity));
    EXPECT_EQ(drain(recent, capacity / 2), addresses(1, capacity / 2));
    recent.push(addresses(capacity + 1, capacity / 2));  // around the ring's end
    recent.reserve(recent_blocks::k_most);
    EXPECT_EQ(recent.capacity(), recent_blocks::k_most);
    EXPECT_EQ(drain(recent, 0), addresses(capacity / 2 + 1, capacity));
    recent.reserve(1);
    EXPECT_EQ(recent.capacity(), recent_blocks::k_most) << "it does not shrink";
}

TEST(recent_blocks, has_room_for_a_bounded_number) {
    recent_blocks recent;
    recent.reserve(~std::size_t{0});
    EXPECT_EQ(recent.capacity(), recent_blocks::k_most);
    recent.push(addresses(1, recent_blocks::k_most));
    recent.clear();
    EXPECT_EQ(recent.count(), 0U);
}

TEST(recent_blocks, is_what_a_queue_with_two_ends_says) {
    std::mt19937 random(3);
    recent_blocks recent;
    recent.reserve(1);
    std::deque<void*> model;
    std::uintptr_t next = 1;
    for (int step = 0; step < 20'000; ++step) {
        std::size_t const count = random() % 60;
        switch (random() % 3) {
        case 0:
            for (void* const p : drain(recent, count)) {
                ASSERT_EQ(p, model.front());
                model.pop_front();
            }
            ASSERT_LE(model.size(), count);
            break;
        case 1: {
            std::vector<void*> const popped = pop(recent, static_cast<std::uint32_t>(count));
            for (std::size_t i = popped.size(); i-- != 0; model.pop_back())
                ASSERT_EQ(popped[i], model.back());
            break;
        }
        default:
            if (recent.count() + count > recent.capacity()) break;
            for (void* const p : addresses(next, count))
                model.push_back(p);
            recent.push(addresses(next, count));
            next += count;
        }
        ASSERT_EQ(recent.count(), model.size());
    }
}

}  // namespace
