// SPDX-License-Identifier: BSL-1.0
// How a pool stays within its bound.

#include "pooled/impl/heap/upstream.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <new>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

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

TEST(upstream, counts_what_is_out_and_how_often_it_was_asked) {
    test::counting_upstream books;
    upstream source(&books, 0, true);
    void* const a = take(source, 100'000, k_granule_bytes);
    void* const b = take(source, 50, k_granule_bytes);
    EXPECT_EQ(source.used(), 100'050U);
    EXPECT_EQ(source.calls(), 2U);
    give(source, a, 100'000, k_granule_bytes);
    EXPECT_EQ(source.used(), 50U);
    give(source, b, 50, k_granule_bytes);
    EXPECT_EQ(source.used(), 0U);
    EXPECT_EQ(source.calls(), 2U);
}

TEST(upstream, gives_the_bound_to_the_last_byte_and_none_beyond) {
    test::counting_upstream books;
    upstream source(&books, 1000, true);
    void* const a = take(source, 900, k_granule_bytes);
    EXPECT_EQ(take(source, 101, k_granule_bytes), nullptr);
    EXPECT_EQ(source.available(), 100U);
    void* const b = take(source, 100, k_granule_bytes);
    EXPECT_NE(b, nullptr);
    EXPECT_EQ(take(source, 1, k_granule_bytes), nullptr);
    EXPECT_EQ(books.most_bytes(), 1000U);
    give(source, a, 900, k_granule_bytes);
    give(source, b, 100, k_granule_bytes);
}

TEST(upstream, is_as_before_when_the_resource_throws) {
    test::counting_upstream books;
    test::failing_upstream failing(books, 1);
    upstream source(&failing, 0, true);
    EXPECT_THROW(static_cast<void>(take(source, 100, k_granule_bytes)), test::injected_failure);
    EXPECT_EQ(source.used(), 0U);
    EXPECT_EQ(source.calls(), 0U);
}

TEST(upstream, takes_pages_of_the_system_at_the_alignment_asked) {
    upstream source(nullptr, 0, true);
    for (int i = 0; i < 3; ++i) {
        void* const p = take(source, std::size_t{4} << 20, k_granule_bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % k_granule_bytes, 0U);
        *static_cast<char*>(p) = 1;
        give(source, p, std::size_t{4} << 20, k_granule_bytes);
    }
}

TEST(upstream, throws_bad_alloc_when_the_system_has_no_more) {
    upstream source(nullptr, 0, true);
    EXPECT_THROW(static_cast<void>(take(source, std::size_t{1} << 62, k_granule_bytes)), std::bad_alloc);
    EXPECT_EQ(source.used(), 0U);
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

TEST(upstream, forgets_in_a_forked_child_what_other_threads_were_moving_and_no_more) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    test::counting_upstream memory;
    upstream source(&memory, 0, true);
    void* const settled = take(source, 1000, k_granule_bytes);
    upstream::call mine(source);
    void* const coming = source.allocate(200, k_granule_bytes, mine, true);
    std::latch is_inside(3);
    std::latch is_over(1);
    std::thread taker([&] {
        upstream::call other(source);
        void* const p = source.allocate(30'000, k_granule_bytes, other, true);
        is_inside.arrive_and_wait();
        is_over.wait();
        EXPECT_TRUE(source.deallocate(p, 30'000, k_granule_bytes, other));
    });
    std::thread giver([&] {
        void* const p = take(source, 500, k_granule_bytes);
        upstream::call other(source);
        other.begin(500);
        is_inside.arrive_and_wait();
        is_over.wait();
        EXPECT_TRUE(source.deallocate(p, 500, k_granule_bytes, other));
    });
    is_inside.arrive_and_wait();
    EXPECT_EQ(source.used(), 31'700U);

    pooled::detail::g_fork_gate.begin();
    source.before_fork();
    {
        upstream::call nested(source);  // of a handler of the program's
        nested.begin();
    }
    pid_t const child = ::fork();
    if (child == 0) {
        source.forget_others();
        bool ok = source.used() == 1200;
        pooled::detail::g_fork_gate.forget_others();
        pooled::detail::g_fork_gate.end();
        ok = ok && source.deallocate(coming, 200, k_granule_bytes, mine) && source.used() == 1000;
        mine.~call();
        ::_exit(ok && !source.wait_for_call(source.calls_ended()) ? 0 : 1);
    }
    pooled::detail::g_fork_gate.end();
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;

    is_over.count_down();
    taker.join();
    giver.join();
    mine.settle();
    give(source, coming, 200, k_granule_bytes);
    give(source, settled, 1000, k_granule_bytes);
    EXPECT_EQ(source.used(), 0U);
}

}  // namespace
