// SPDX-License-Identifier: BSL-1.0
// Blocks beyond the largest size class: an address of their own at any alignment, also when they come from a reservation
// that was made for another; and the one that each thread keeps.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <latch>
#include <memory>
#include <memory_resource>
#include <thread>
#include <vector>

namespace {

TEST(large_blocks, of_zero_bytes_have_an_address_of_their_own_at_any_alignment) {
    pooled::pool pool;
    for (std::size_t align = 1; align <= (std::size_t{1} << 20); align *= 2) {
        void* const p = pool.allocate(0, align);
        EXPECT_TRUE(pool.owns(p)) << align;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
        pool.deallocate(p, 0, align);
    }
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(large_blocks, from_a_reservation_at_another_alignment_are_not_too_short) {
    pooled::pool pool;
    pool.reserve_bytes(1, 80'000, 16384);
    auto* const p = static_cast<std::byte*>(pool.allocate(98'000, 16));
    EXPECT_TRUE(pool.owns(p + 97'999)) << "the block reaches beyond its region";
    pool.deallocate(p, 98'000, 16);
}

TEST(large_blocks, from_a_reservation_at_another_alignment_are_aligned) {
    pooled::pool pool;
    pool.reserve_bytes(1, 98'000, 16);
    void* const p = pool.allocate(80'000, 16384);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 16384, 0U);
    pool.deallocate(p, 80'000, 16384);
}

TEST(large_blocks, that_were_reserved_stay_reserved_when_they_come_back) {
    pooled::pool pool;
    pool.reserve_bytes(2, 100'000);
    auto const calls = pool.stats().upstream_calls;
    for (int i = 0; i < 3; ++i) {
        void* const a = pool.allocate(100'000);
        void* const b = pool.allocate(100'000);
        pool.deallocate(a, 100'000);
        pool.deallocate(b, 100'000);
    }
    EXPECT_EQ(pool.stats().upstream_calls, calls);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

// Runs `work` on a thread that has its own cache, and does not end before `after`.
template <class Work, class After>
void on_a_thread_that_goes_on(Work&& work, After&& after) {
    std::promise<void> done;
    std::promise<void> end;
    std::thread other([&] {
        work();
        done.set_value();
        end.get_future().wait();
    });
    done.get_future().wait();
    after();
    end.set_value();
    other.join();
}

TEST(large_blocks, that_a_thread_keeps_serve_its_next_request_of_that_size) {
    pooled::pool pool;
    void* const first = pool.allocate(100'000);
    pool.deallocate(first, 100'000);
    void* const second = pool.allocate(100'000);
    EXPECT_EQ(second, first);
    EXPECT_TRUE(pool.owns(second));
    EXPECT_EQ(pool.stats().large_in_use, 1U);
    pool.deallocate(second, 100'000);
}

TEST(large_blocks, that_a_thread_keeps_serve_any_alignment) {
    pooled::pool pool;
    for (std::size_t align = 1; align <= std::size_t{1} << 20; align *= 2) {
        void* const p = pool.allocate(100'000, align);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
        pool.deallocate(p, 100'000, align);
    }
    EXPECT_EQ(pool.stats().large_in_use, 0U);
}

TEST(large_blocks, that_another_thread_keeps_are_used_before_upstream_is_asked) {
    pooled::pool pool;
    void* p = nullptr;
    on_a_thread_that_goes_on([&] { pool.deallocate(pool.allocate(100'000), 100'000); },
                             [&] {
                                 std::uint64_t const calls = pool.stats().upstream_calls;
                                 p = pool.allocate(100'000);
                                 EXPECT_EQ(pool.stats().upstream_calls, calls);
                             });
    pool.deallocate(p, 100'000);
}

TEST(large_blocks, that_a_thread_keeps_are_returned_when_it_ends) {
    pooled::pool pool;
    std::thread([&] { pool.deallocate(pool.allocate(100'000), 100'000); }).join();
    EXPECT_EQ(pool.stats().large_in_use, 0U);
    EXPECT_GE(pool.trim(), 100'000U);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

// What a burst of small blocks left free is used by the next burst: a large block that is freed meanwhile does not return it.
TEST(large_blocks, that_are_freed_leave_a_pool_what_small_blocks_used) {
    pooled::pool pool;
    std::vector<void*> blocks(100'000);
    for (void*& p : blocks)
        p = pool.allocate(1500);
    for (void* const p : blocks)
        pool.deallocate(p, 1500);
    std::size_t const before = pool.stats().upstream_bytes;
    ASSERT_GT(before, 128U << 20);
    for (int i = 0; i < 4; ++i) {
        std::array<void*, 2> large{pool.allocate(3'200'000), pool.allocate(3'200'000)};  // one is cached
        for (void* const p : large)
            pool.deallocate(p, 3'200'000);
    }
    EXPECT_GE(pool.stats().upstream_bytes, before);
}

// What was in use when a thread ended is what the heap may keep: at most half of the most that ever was, in whole chunks.
TEST(large_blocks, that_many_threads_keep_stay_within_the_heaps_bound_when_these_end) {
    constexpr std::size_t k_threads = 64;
    constexpr std::size_t k_bytes = std::size_t{12} << 20;
    pooled::pool pool;
    std::latch all_kept(k_threads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < k_threads; ++i)
        threads.emplace_back([&] {
            void* const p = pool.allocate(k_bytes);
            all_kept.arrive_and_wait();
            pool.deallocate(p, k_bytes);
        });
    for (std::thread& t : threads)
        t.join();
    pooled::pool_stats const stats = pool.stats();
    EXPECT_EQ(stats.large_in_use, 0U);
    EXPECT_EQ(stats.large_cached_bytes, 0U) << "it is of no size any more";
    EXPECT_LE(stats.upstream_bytes, (k_threads / 2 + 1) * k_bytes);
    std::vector<void*> blocks;
    while (blocks.size() * 200'000 < stats.upstream_bytes / 10 * 9)
        blocks.push_back(pool.allocate(200'000));
    EXPECT_EQ(pool.stats().upstream_bytes, stats.upstream_bytes) << "it serves any size";
    for (void* const p : blocks)
        pool.deallocate(p, 200'000);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST(large_blocks, that_threads_keep_are_trimmed) {
    pooled::pool pool;
    on_a_thread_that_goes_on([&] { pool.deallocate(pool.allocate(100'000), 100'000); },
                             [&] {
                                 pool.deallocate(pool.allocate(200'000), 200'000);
                                 EXPECT_GE(pool.trim(), 300'000U);
                                 EXPECT_EQ(pool.stats().upstream_bytes, 0U);
                             });
}

TEST(large_blocks, that_are_reserved_are_found_by_every_thread) {
    pooled::pool pool;
    pool.reserve_bytes(1, 100'000);
    on_a_thread_that_goes_on([&] { pool.deallocate(pool.allocate(100'000), 100'000); },
                             [&] {
                                 std::uint64_t const calls = pool.stats().upstream_calls;
                                 pool.deallocate(pool.allocate(100'000), 100'000);
                                 EXPECT_EQ(pool.stats().upstream_calls, calls);
                             });
}

TEST(large_blocks, that_a_thread_keeps_do_not_hold_a_closed_pool) {
    auto pool = std::make_unique<pooled::pool>();
    void* const out = pool->allocate(100'000);
    std::pmr::memory_resource* const resource = pool->resource();
    on_a_thread_that_goes_on([&] { pool->deallocate(pool->allocate(100'000), 100'000); },
                             [&] {
                                 pool.reset();
                                 resource->deallocate(out, 100'000);
                             });
}

}  // namespace
