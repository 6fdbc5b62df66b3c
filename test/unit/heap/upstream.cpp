// SPDX-License-Identifier: BSL-1.0
// How a pool stays within its bound.

#include "pooled/impl/heap/upstream.hpp"

#include "support/counting_upstream.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace {

using pooled::detail::k_granule_bytes;
using pooled::detail::upstream;

void* take(upstream& from, std::size_t bytes, std::size_t align) {
    upstream::call under_way(from);
    void* const p = from.allocate(bytes, align, under_way, true);
    under_way.settle();
    return p;
}

void give(upstream& to, void* p, std::size_t bytes, std::size_t align) {
    upstream::call under_way(to);
    under_way.begin(bytes);
    EXPECT_TRUE(to.deallocate(p, bytes, align, under_way));
}

TEST(upstream, waits_for_a_call_that_is_under_way) {
    test::counting_upstream memory;
    upstream source(&memory, 0, true);
    std::uint64_t const before = source.calls_ended();
    EXPECT_FALSE(source.wait_for_call(before)) << "there is none";
    std::atomic<int> step{0};
    std::thread other([&] {
        upstream::call under_way(source);
        under_way.begin();
        step = 1;
        while (step != 2) {}
    });
    while (step != 1) {}
    step = 2;
    EXPECT_TRUE(source.wait_for_call(before));
    other.join();
    EXPECT_TRUE(source.wait_for_call(before)) << "what it brought was not seen at that moment";
    EXPECT_FALSE(source.wait_for_call(source.calls_ended()));
}

TEST(upstream, counts_no_call_that_the_bound_does_not_allow) {
    test::counting_upstream memory;
    upstream source(&memory, 1000, true);
    std::uint64_t const before = source.calls_ended();
    EXPECT_EQ(take(source, 1001, k_granule_bytes), nullptr);
    EXPECT_FALSE(source.wait_for_call(before)) << "others need not look again";
    void* const p = take(source, 900, k_granule_bytes);
    EXPECT_TRUE(source.wait_for_call(before));
    give(source, p, 900, k_granule_bytes);
}

TEST(upstream, does_not_wait_within_a_call_of_its_own) {
    test::counting_upstream memory;
    upstream source(&memory, 0, true);
    upstream::call mine(source);
    mine.begin();
    EXPECT_FALSE(source.wait_for_call(source.calls_ended()));
}

TEST(upstream, may_give_soon_what_the_bound_allows_or_what_is_in_transit) {
    test::counting_upstream memory;
    upstream source(&memory, 4 * k_granule_bytes, true);
    void* const p = take(source, 3 * k_granule_bytes, k_granule_bytes);
    std::uint64_t const before = source.calls_ended();
    EXPECT_TRUE(source.may_give_soon(k_granule_bytes, before));
    EXPECT_FALSE(source.may_give_soon(k_granule_bytes + 1, before)) << "two granules";
    give(source, p, 3 * k_granule_bytes, k_granule_bytes);
    void* const all = take(source, 4 * k_granule_bytes, k_granule_bytes);
    EXPECT_TRUE(source.may_give_soon(1, before)) << "a call has ended since";
    EXPECT_FALSE(source.may_give_soon(1, source.calls_ended()));
    {
        upstream::call under_way(source);
        under_way.begin();
        EXPECT_TRUE(source.may_give_soon(1, source.calls_ended()));
    }
    give(source, all, 4 * k_granule_bytes, k_granule_bytes);
}

TEST(upstream, knows_how_much_of_what_returns_was_recorded_again) {
    test::counting_upstream memory;
    upstream source(&memory, 0, true);
    void* const p = take(source, 1000, k_granule_bytes);
    {
        upstream::call under_way(source);
        under_way.begin(1000);
        under_way.settle(600);
        EXPECT_TRUE(source.deallocate(p, 1000, k_granule_bytes, under_way));
    }
    EXPECT_EQ(source.used(), 0U);
}

}  // namespace
