// SPDX-License-Identifier: BSL-1.0
// Blocks beyond the largest size class: kept when they are freed, found again by size and alignment, bounded, and
// returned when they are unused.

#include "pooled/heap/large_heap.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {
struct large_heap_access {
    static std::size_t reservations_of(large_heap const& heap) {
        std::size_t count = 0;
        for (auto const* r = heap.m_reservations.first(); r != nullptr; r = r->next)
            ++count;
        return count;
    }
};
}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

namespace {

using namespace pooled::detail;

constexpr std::size_t k_kib = std::size_t{1} << 10;
constexpr std::size_t k_mib = std::size_t{1} << 20;
constexpr std::uint32_t k_pool_id = 60'001;  // no pool of this program has it

class large_heap_test : public testing::Test {
protected:
    // As a pool does it.
    [[nodiscard]] void* allocate(large_heap& of, std::size_t bytes, std::size_t align = 16) {
        void* const kept = of.take(bytes, align);
        void* const p = kept != nullptr ? kept : of.grow(bytes, align);
        EXPECT_TRUE(of.is_valid());
        if (p != nullptr) {
            EXPECT_EQ(address_of(p) % align, 0U);
            EXPECT_EQ(block(p).payload, p);
            EXPECT_GE(block(p).base + block(p).total, static_cast<std::byte*>(p) + bytes);
        }
        return p;
    }
    void deallocate(large_heap& of, void* p) {
        EXPECT_FALSE(of.deallocate(block(p)));
        EXPECT_TRUE(of.is_valid());
    }
    [[nodiscard]] static large_block& block(void* p) { return *g_page_map.find(p).large_at(); }

    test::counting_upstream memory;
    upstream from{&memory, 0, false};
    large_heap heap{k_pool_id, true, from};
};

TEST_F(large_heap_test, uses_a_freed_block_again) {
    for (std::size_t const bytes : {33 * k_kib, 64 * k_kib, 256 * k_kib, k_mib, 8 * k_mib, 64 * k_mib}) {
        void* const p = allocate(heap, bytes);
        std::size_t const calls = memory.allocations();
        deallocate(heap, p);
        ASSERT_EQ(allocate(heap, bytes), p) << bytes;
        EXPECT_EQ(memory.allocations(), calls);
        deallocate(heap, p);
        heap.release_idle(large_heap::idle::all);
    }
}

TEST_F(large_heap_test, uses_a_freed_block_of_every_size_again) {
    for (std::size_t bytes = 32 * k_kib + 1; bytes < k_mib; bytes += bytes / 50) {
        void* const p = allocate(heap, bytes);
        deallocate(heap, p);
        ASSERT_EQ(allocate(heap, bytes), p) << bytes;
        deallocate(heap, p);
        heap.release_idle(large_heap::idle::all);
    }
}

TEST_F(large_heap_test, serves_a_request_from_a_block_that_is_somewhat_larger) {
    void* const p = allocate(heap, 100 * k_kib);
    deallocate(heap, p);
    ASSERT_EQ(allocate(heap, 90 * k_kib), p);
    deallocate(heap, p);
    EXPECT_EQ(heap.take(40 * k_kib, 16), nullptr) << "more than half would be unused";
    EXPECT_EQ(heap.take(200 * k_kib, 16), nullptr);
}

TEST_F(large_heap_test, counts_what_is_in_use_by_what_was_asked_and_what_is_kept_by_its_region) {
    void* const a = allocate(heap, 100'000);
    void* const b = allocate(heap, 50'000);
    EXPECT_EQ(heap.count().in_use, 2U);
    EXPECT_EQ(heap.count().in_use_bytes, 150'000U);
    EXPECT_EQ(heap.count().idle_bytes, 0U);
    std::size_t const total = block(a).total;
    deallocate(heap, a);
    EXPECT_EQ(heap.count().in_use, 1U);
    EXPECT_EQ(heap.count().in_use_bytes, 50'000U);
    EXPECT_EQ(heap.count().idle_bytes, total);
    deallocate(heap, b);
    EXPECT_EQ(heap.release_idle(large_heap::idle::all), memory.most_bytes());
    EXPECT_EQ(heap.count().idle_bytes, 0U);
    EXPECT_EQ(memory.bytes(), 0U);
}

// The bound is asked about when a block is freed: what is then kept, stays when less and less is in use.
TEST_F(large_heap_test, keeps_64_mib_or_half_of_the_most_that_was_in_use) {
    for (std::size_t const count : {std::size_t{10}, std::size_t{20}, std::size_t{60}}) {
        std::vector<void*> all;
        for (std::size_t i = 0; i < count; ++i)
            all.push_back(allocate(heap, 4 * k_mib));
        std::size_t const region = block(all[0]).total;
        std::size_t const most = memory.bytes();
        for (void* const p : all)
            deallocate(heap, p);
        std::size_t const bound = std::max(64 * k_mib + region, most / 2 + region);
        EXPECT_LE(heap.count().idle_bytes, bound);
        EXPECT_GE(heap.count().idle_bytes, std::min(most, bound - 3 * region));
        EXPECT_EQ(memory.bytes(), heap.count().idle_bytes);
        heap.release_idle(large_heap::idle::all);
    }
}

TEST_F(large_heap_test, keeps_no_block_over_1_gib) {
    upstream system(nullptr, 0, false);
    large_heap lazy(k_pool_id, true, system);  // its pages are never touched
    void* const p = lazy.grow((std::size_t{1} << 30) + 1, 16);
    ASSERT_NE(p, nullptr);
    EXPECT_FALSE(lazy.deallocate(block(p)));
    EXPECT_EQ(system.used(), 0U);
}

TEST_F(large_heap_test, begins_the_blocks_of_consecutive_regions_at_different_offsets) {
    std::vector<void*> all;
    std::set<std::size_t> offsets;
    for (int i = 0; i < 64; ++i) {
        all.push_back(allocate(heap, 100'000));
        offsets.insert(address_of(all.back()) % 4096);
        ASSERT_EQ(offsets.size(), static_cast<std::size_t>(i) + 1);
    }
    EXPECT_EQ(offsets.size(), 64U) << "one for each line of a page";
    for (void* const p : all)
        deallocate(heap, p);
}

TEST_F(large_heap_test, aligns_fresh_and_kept_blocks_to_any_power_of_two) {
    for (int round = 0; round < 2; ++round)
        for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, 40 * k_kib, 100 * k_kib, 3 * k_mib})
            for (std::size_t align = 1; align <= 2 * k_mib; align *= 2) {
                void* const a = allocate(heap, bytes, align);
                void* const b = allocate(heap, bytes, align);
                EXPECT_NE(a, b);
                deallocate(heap, a);
                deallocate(heap, b);
            }
}

TEST_F(large_heap_test, within_a_bound_is_exact_to_the_byte) {
    for (std::size_t const max : {100'000UL, 8 * k_granule_bytes, 8 * k_granule_bytes + 1}) {
        upstream bounded(&memory, max, false);
        large_heap tight(k_pool_id, true, bounded);
        EXPECT_EQ(allocate(tight, max + 1), nullptr);
        void* const p = allocate(tight, max);
        ASSERT_NE(p, nullptr) << max;
        EXPECT_EQ(allocate(tight, 1), nullptr);
        deallocate(tight, p);
        tight.release_idle(large_heap::idle::all);
        void* const again = allocate(tight, max);
        ASSERT_NE(again, nullptr) << max;
        deallocate(tight, again);
    }
}

TEST_F(large_heap_test, refuses_what_no_address_space_holds) {
    for (std::size_t const bytes : {k_size_max, k_size_max - 1, k_size_max / 2 + 1})
        EXPECT_THROW(static_cast<void>(heap.grow(bytes, 16)), std::bad_alloc);
    EXPECT_EQ(memory.allocations(), 0U);
    EXPECT_TRUE(heap.is_valid());
}

TEST_F(large_heap_test, is_as_before_when_upstream_throws) {
    test::failing_upstream failing(memory, 1);
    upstream source(&failing, 0, false);
    large_heap unlucky(k_pool_id, true, source);
    EXPECT_THROW(static_cast<void>(unlucky.grow(100'000, 16)), test::injected_failure);
    EXPECT_TRUE(unlucky.is_valid());
    EXPECT_EQ(unlucky.count().in_use, 0U);
    EXPECT_EQ(source.used(), 0U);
    deallocate(unlucky, allocate(unlucky, 100'000));
}

TEST_F(large_heap_test, gives_back_what_was_idle_for_a_whole_period) {
    void* const a = allocate(heap, 100'000);
    void* const b = allocate(heap, k_mib);
    deallocate(heap, a);
    deallocate(heap, b);
    EXPECT_EQ(heap.release_idle(large_heap::idle::unused), 0U) << "the period began before it was idle";
    ASSERT_EQ(allocate(heap, k_mib), b);
    deallocate(heap, b);
    std::size_t const unused = block(a).total;
    EXPECT_EQ(heap.release_idle(large_heap::idle::unused), unused) << "the other one was used";
    EXPECT_NE(heap.release_idle(large_heap::idle::unused), 0U);
    EXPECT_EQ(memory.bytes(), 0U);
    EXPECT_TRUE(heap.is_valid());
}

TEST_F(large_heap_test, marks_an_idle_block_in_the_page_map) {
    void* const p = allocate(heap, 100'000);
    EXPECT_FALSE(g_page_map.find(p).is_idle());
    deallocate(heap, p);
    EXPECT_TRUE(g_page_map.find(p).is_idle());
    ASSERT_EQ(allocate(heap, 100'000), p);
    EXPECT_FALSE(g_page_map.find(p).is_idle());
    deallocate(heap, p);
    heap.release_idle(large_heap::idle::all);
    EXPECT_TRUE(g_page_map.find(p).empty());
}

TEST_F(large_heap_test, counts_deallocations_once_it_is_closed) {
    void* const a = allocate(heap, 100'000);
    void* const b = allocate(heap, 100'000);
    EXPECT_FALSE(heap.deallocate(block(a)));
    EXPECT_EQ(heap.close(), 1U);
    EXPECT_TRUE(heap.deallocate(block(b)));
}

// Reservations.

TEST_F(large_heap_test, has_reserved_blocks_for_as_many_requests) {
    ASSERT_TRUE(heap.reserve(100'000, 16, 5, false));
    std::size_t const calls = memory.allocations();
    for (int round = 0; round < 2; ++round) {
        std::vector<void*> all;
        for (int i = 0; i < 5; ++i)
            all.push_back(allocate(heap, 100'000));
        for (void* const p : all)
            deallocate(heap, p);
        heap.release_idle(large_heap::idle::unreserved);
        for (int i = 0; i < 3; ++i)
            heap.release_idle(large_heap::idle::unused);
    }
    EXPECT_EQ(memory.allocations(), calls);
    heap.release_idle(large_heap::idle::all);
    EXPECT_EQ(memory.bytes(), 0U);
}

TEST_F(large_heap_test, counts_idle_blocks_that_fit_towards_a_reservation) {
    void* const p = allocate(heap, 100'000);
    deallocate(heap, p);
    ASSERT_TRUE(heap.reserve(100'000, 16, 2, false));
    EXPECT_EQ(memory.allocations(), 2U);
}

TEST_F(large_heap_test, is_as_before_when_a_reservation_fails) {
    test::failing_upstream failing(memory, 3);
    upstream source(&failing, 0, false);
    large_heap unlucky(k_pool_id, true, source);
    EXPECT_THROW(static_cast<void>(unlucky.reserve(100'000, 16, 5, false)), test::injected_failure);
    EXPECT_EQ(source.used(), 0U);
    EXPECT_TRUE(unlucky.is_valid());
    upstream bounded(&memory, 460'000, false);
    large_heap tight(k_pool_id, true, bounded);
    EXPECT_FALSE(tight.reserve(100'000, 16, 5, false));
    EXPECT_EQ(bounded.used(), 0U);
    EXPECT_TRUE(tight.reserve(100'000, 16, 4, false));
}

TEST_F(large_heap_test, finds_a_reserved_block_behind_one_that_is_not_aligned) {
    ASSERT_TRUE(heap.reserve(100'000, 64 * k_kib, 1, false));
    void* const other = heap.grow(100'000, 16);
    deallocate(heap, other);  // in front of the reserved one, in the same bucket
    std::size_t const calls = memory.allocations();
    void* const p = allocate(heap, 100'000, 64 * k_kib);
    EXPECT_EQ(memory.allocations(), calls);
    deallocate(heap, p);
}

TEST_F(large_heap_test, finds_a_reserved_block_behind_one_that_is_too_short) {
    upstream bounded(&memory, 16 * k_mib, false);
    large_heap tight(k_pool_id, true, bounded);
    ASSERT_TRUE(tight.reserve(k_mib + 64 * k_kib, 16, 1, false));
    void* const shorter = tight.grow(k_mib + 20 * k_kib, 16);
    deallocate(tight, shorter);  // regions of a bounded pool are not rounded up to a bucket's size
    std::size_t const calls = memory.allocations();
    void* const p = allocate(tight, k_mib + 64 * k_kib);
    EXPECT_EQ(memory.allocations(), calls);
    deallocate(tight, p);
}

TEST_F(large_heap_test, finds_an_idle_block_behind_one_that_is_too_short) {
    upstream bounded(&memory, 16 * k_mib, false);
    large_heap tight(k_pool_id, true, bounded);
    void* const longer = tight.grow(k_mib + 64 * k_kib, 16);
    void* const shorter = tight.grow(k_mib + 20 * k_kib, 16);
    deallocate(tight, longer);
    deallocate(tight, shorter);
    EXPECT_EQ(tight.take(k_mib + 64 * k_kib, 16), longer);
    deallocate(tight, longer);
}

TEST_F(large_heap_test, keeps_reserved_blocks_from_requests_of_other_sizes) {
    ASSERT_TRUE(heap.reserve(k_mib, 16, 1, false));
    void* const smaller = allocate(heap, 900 * k_kib);
    std::size_t const calls = memory.allocations();
    void* const p = allocate(heap, k_mib);
    EXPECT_EQ(memory.allocations(), calls);
    deallocate(heap, p);
    deallocate(heap, smaller);
}

TEST_F(large_heap_test, keeps_freed_blocks_in_addition_to_what_is_reserved) {
    ASSERT_TRUE(heap.reserve(8 * k_mib, 16, 10, false));
    void* const p = allocate(heap, k_mib);
    deallocate(heap, p);
    ASSERT_EQ(allocate(heap, k_mib), p);
    deallocate(heap, p);
}

TEST_F(large_heap_test, ends_the_reservation_of_blocks_in_use_too) {
    ASSERT_TRUE(heap.reserve(100'000, 16, 1, false));
    void* const p = allocate(heap, 100'000);
    heap.release_idle(large_heap::idle::all);
    deallocate(heap, p);
    heap.release_idle(large_heap::idle::unreserved);
    EXPECT_EQ(memory.bytes(), 0U) << "the reservation has ended";
}

// With sizes that are never used again, the list of reservations would only grow, and each request walks it.
TEST_F(large_heap_test, forgets_a_reservation_that_has_ended_with_its_last_block) {
    EXPECT_TRUE(heap.reserve(100'000, 16, 0, false));
    EXPECT_EQ(large_heap_access::reservations_of(heap), 0U) << "of no block";
    ASSERT_TRUE(heap.reserve(100'000, 16, 2, false));
    ASSERT_TRUE(heap.reserve(200'000, 16, 1, false));
    EXPECT_EQ(large_heap_access::reservations_of(heap), 2U);
    void* const p = allocate(heap, 100'000);
    heap.release_idle(large_heap::idle::all);
    EXPECT_EQ(large_heap_access::reservations_of(heap), 1U);
    deallocate(heap, p);
    EXPECT_EQ(large_heap_access::reservations_of(heap), 0U);

    test::failing_upstream failing(memory, 2);
    upstream source(&failing, 0, false);
    large_heap unlucky(k_pool_id, true, source);
    EXPECT_THROW(static_cast<void>(unlucky.reserve(100'000, 16, 5, false)), test::injected_failure);
    EXPECT_EQ(large_heap_access::reservations_of(unlucky), 0U);
}

TEST_F(large_heap_test, resumes_a_reservation_with_blocks_that_were_in_use_when_it_ended) {
    ASSERT_TRUE(heap.reserve(100'000, 16, 1, false));
    void* const p = allocate(heap, 100'000);
    heap.release_idle(large_heap::idle::all);
    ASSERT_TRUE(heap.reserve(100'000, 16, 1, false));
    deallocate(heap, p);
    std::size_t const calls = memory.allocations();
    heap.release_idle(large_heap::idle::unreserved);
    void* const a = allocate(heap, 100'000);
    void* const b = allocate(heap, 100'000);
    EXPECT_EQ(memory.allocations(), calls);
    deallocate(heap, a);
    deallocate(heap, b);
    EXPECT_TRUE(heap.is_valid());
}

TEST_F(large_heap_test, is_valid_whatever_is_done_to_it) {
    std::mt19937 random(5);
    upstream bounded(&memory, 40 * k_mib, false);
    large_heap tight(k_pool_id, true, bounded);
    std::vector<void*> used;
    for (int step = 0; step < 3000; ++step) {
        std::size_t const bytes = random() % (2 * k_mib);
        std::size_t const align = std::size_t{1} << random() % 18;
        switch (random() % 10) {
        case 0:
            tight.release_idle(static_cast<large_heap::idle>(random() % 3));
            break;
        case 1:
            static_cast<void>(tight.reserve(bytes, align, random() % 3, false));
            break;
        case 2:
        case 3:
        case 4:
        case 5:
            if (void* const p = allocate(tight, bytes, align)) used.push_back(p);
            break;
        default:
            if (used.empty()) break;
            std::swap(used[random() % used.size()], used.back());
            deallocate(tight, used.back());
            used.pop_back();
        }
        ASSERT_TRUE(tight.is_valid());
        ASSERT_EQ(bounded.used(), memory.bytes());
        ASSERT_LE(memory.bytes(), 40 * k_mib);
        ASSERT_EQ(tight.count().in_use, used.size());
    }
    for (void* const p : used)
        deallocate(tight, p);
}

}  // namespace
