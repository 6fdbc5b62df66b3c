// SPDX-License-Identifier: BSL-1.0
// The memory of a pool in spans, without threads' caches: who gets a span, when chunks are taken and returned and how large they are,
// attempts to reserve, and that an upstream that fails changes nothing. Reservations as users see them: pool/memory.cpp.
// And the heap's upstream: how it stays within its bound.

#include "pooled/heap/slab_heap.hpp"

#include "pooled/heap/apart.hpp"
#include "pooled/heap/purge.hpp"
#include "pooled/heap/reserve.hpp"
#include "pooled/heap/upstream.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/resident_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <memory_resource>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr class_index k_48 = class_for(48, 8);
constexpr class_index k_1500 = class_for(1500, 8);
constexpr class_index k_32k = class_for(32768, 8);
constexpr std::size_t k_mib = std::size_t{1} << 20;
constexpr std::uint32_t k_pool_id = 60'000;  // no pool of this program has it

slab_heap::shape shape_of(std::size_t chunk_bytes, bool has_small_slabs = false) {
    return {.pool_id = k_pool_id,
            .is_shared = true,
            .has_small_slabs = has_small_slabs,
            .chunk_bytes = chunk_bytes,
            .starts_small = false};
}

slab_heap::shape shape_that_starts_small() {
    slab_heap::shape shape = shape_of(2 * k_mib);
    shape.starts_small = true;
    return shape;
}

[[nodiscard]] bool reserve(slab_heap& heap, slab_heap::attempt& by, span_request const& what,
                           std::size_t count) {
    return heap.reserve(by, what, [&] { return heap.claim(by, what, count); });
}
// All of it, or nothing.
[[nodiscard]] bool reserve(slab_heap& heap, span_request const& what, std::size_t count) {
    slab_heap::attempt mine(heap, {what.c, what.c});
    bool const is_done = reserve(heap, mine, what, count);
    if (is_done) mine.settle();
    return is_done;
}

class slab_heap_test : public testing::Test {
protected:
    [[nodiscard]] slab& take_or_grow(slab_heap& heap, class_index c) {
        slab* s = heap.allocate(c);
        if (s == nullptr) {
            EXPECT_TRUE(heap.grow(c));
            s = heap.allocate(c);
        }
        EXPECT_TRUE(heap.is_valid());
        return *s;
    }

    [[nodiscard]] slab& take_exact_or_grow(slab_heap& heap, std::size_t bytes, std::size_t align) {
        slab* s = heap.allocate({k_exact, bytes, align});
        if (s == nullptr) {
            EXPECT_TRUE(heap.grow({k_exact, bytes, align}));
            s = heap.allocate({k_exact, bytes, align});
        }
        EXPECT_TRUE(heap.is_valid());
        EXPECT_EQ(address_of(s->blocks) % align, 0U);
        EXPECT_GE(s->block_bytes(), bytes);
        EXPECT_TRUE(s->is_large_block(s->blocks));
        return *s;
    }

    test::counting_upstream memory;
    upstream from{&memory, 0, false};
};

TEST_F(slab_heap_test, takes_a_chunk_and_gives_its_slabs_lowest_first) {
    slab_heap heap(shape_of(k_mib), from);
    slab& first = take_or_grow(heap, k_48);
    EXPECT_EQ(memory.bytes(), k_mib);
    for (std::size_t i = 1; i < k_mib / k_slab_bytes; ++i) {
        slab* const next = heap.allocate(k_1500);
        ASSERT_NE(next, nullptr);
        EXPECT_EQ(next->memory(), first.memory() + i * k_slab_bytes);
    }
    EXPECT_EQ(heap.allocate(k_48), nullptr);
    EXPECT_EQ(memory.allocations(), 1U);
}

// Chunks.

TEST_F(slab_heap_test, leaves_the_page_map_as_it_was_when_its_upstream_is_a_pool) {
    slab_heap outer(shape_of(k_mib), from);
    slab& s = take_or_grow(outer, k_48);
    // What a slab of the pool has for upstream.
    std::pmr::monotonic_buffer_resource part(s.memory(), s.bytes(), std::pmr::null_memory_resource());
    upstream within(&part, 0, false);
    slab_heap inner({k_pool_id + 1, true, false, k_slab_bytes, false}, within);
    ASSERT_TRUE(inner.grow(k_48));
    EXPECT_EQ(g_page_map.find(s.memory()).pool_id(), k_pool_id + 1);
    EXPECT_EQ(inner.release_chunks(), k_slab_bytes);
    EXPECT_EQ(g_page_map.find(s.memory()).slab_at(), &s);
}

TEST_F(slab_heap_test, that_starts_small_doubles_its_chunks_up_to_the_largest) {
    slab_heap heap(shape_that_starts_small(), from);
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 9; ++i) {
        std::size_t const before = memory.bytes();
        ASSERT_TRUE(heap.grow(k_48));
        sizes.push_back((memory.bytes() - before) >> 10);
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{64, 64, 128, 256, 512, 1024, 2048, 2048, 2048}));
}

TEST_F(slab_heap_test, that_starts_small_has_slabs_as_long_as_all_of_their_class_up_to_the_usual_length) {
    auto const slab_after = [&](slab_heap::shape const& shape, class_index c, std::size_t held) {
        slab_heap heap(shape, from);
        EXPECT_TRUE(heap.grow(c));
        return heap.allocate(c, false, true, held)->bytes() / k_granule_bytes;
    };
    for (std::size_t const held : {0U, 1U, 2U, 3U, 4U, 100U}) {
        EXPECT_EQ(slab_after(shape_that_starts_small(), k_48, held), std::clamp<std::size_t>(held, 1, 4));
        EXPECT_EQ(slab_after(shape_of(2 * k_mib), k_48, held), 4U);
    }
    EXPECT_EQ(slab_after(shape_that_starts_small(), k_32k, 0), 2U) << "one block needs them";
}

TEST_F(slab_heap_test, takes_smaller_chunks_of_an_upstream_that_has_no_larger_ones) {
    test::frugal_upstream pieces(memory, 200'000);
    upstream fragmented(&pieces, 0, false);
    slab_heap heap(shape_of(k_mib), fragmented);
    ASSERT_TRUE(heap.grow(k_48));
    EXPECT_EQ(memory.bytes(), k_mib / 8);
    EXPECT_EQ(fragmented.used(), k_mib / 8) << "what was refused is not counted";
    heap.release_chunks();
    EXPECT_EQ(fragmented.used(), 0U);
}

TEST_F(slab_heap_test, takes_no_chunk_that_is_smaller_than_a_block) {
    test::frugal_upstream crumbs(memory, 3 * k_granule_bytes);
    upstream fragmented(&crumbs, 0, false);
    slab_heap heap(shape_of(k_mib + k_granule_bytes), fragmented);
    EXPECT_THROW(static_cast<void>(heap.grow({k_exact, 3 * k_granule_bytes + 1, 1})), std::bad_alloc);
    EXPECT_EQ(fragmented.used(), 0U);
    EXPECT_EQ(memory.allocations(), 0U);
}

TEST_F(slab_heap_test, gives_memory_back_that_the_page_map_cannot_hold) {
    struct : std::pmr::memory_resource {
        int out = 0;
        void* do_allocate(std::size_t, std::size_t) override {
            ++out;
            return reinterpret_cast<void*>(std::uintptr_t{1} << 50);  // NOLINT: beyond 48 bits; never read
        }
        void do_deallocate(void*, std::size_t, std::size_t) override { --out; }
        bool do_is_equal(memory_resource const& other) const noexcept override { return this == &other; }
    } beyond;
    upstream source(&beyond, 0, false);
    slab_heap heap(shape_of(k_mib), source);
    EXPECT_THROW(static_cast<void>(heap.grow(k_48)), std::bad_alloc);
    EXPECT_EQ(beyond.out, 0);
    EXPECT_EQ(source.used(), 0U);
}

TEST_F(slab_heap_test, makes_a_slab_of_the_chunk_that_an_upstream_has_for_any_class) {
    test::frugal_upstream fragmented(memory, 40'000);
    upstream source(&fragmented, 0, false);
    slab_heap heap(shape_of(k_mib), source);
    for (class_index c = 0; c < k_first_large; ++c) {
        ASSERT_TRUE(heap.grow(c));
        slab* const s = heap.allocate(c);
        ASSERT_NE(s, nullptr) << "of blocks of " << k_geometry[c].block_bytes;
        EXPECT_TRUE(heap.is_valid());
    }
}

// Blocks that no class serves.

TEST_F(slab_heap_test, has_a_span_for_each_block_that_no_class_serves_at_any_alignment) {
    slab_heap heap(shape_of(k_mib), from);
    std::vector<slab*> used;
    for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}, 20 * k_mib + 1})
        for (std::size_t align = 1; align <= 4 * k_mib; align *= 2)
            used.push_back(&take_exact_or_grow(heap, bytes, align));
    for (std::size_t i = 0; i < used.size(); i += 2)
        heap.deallocate(*used[i]);
    EXPECT_TRUE(heap.is_valid());
    for (std::size_t i = 1; i < used.size(); i += 2)
        heap.deallocate(*used[i]);
    EXPECT_TRUE(heap.is_valid());
    EXPECT_EQ(heap.release_chunks(), memory.most_bytes()) << "all of it was in use at once";
    EXPECT_EQ(memory.bytes(), 0U);
}

TEST_F(slab_heap_test, takes_blocks_of_large_alignments_from_ordinary_chunks) {
    slab_heap heap(shape_of(2 * k_mib), from);
    std::vector<slab*> used;
    for (int i = 0; i < 100; ++i)
        used.push_back(&take_exact_or_grow(heap, 64, 2 * k_granule_bytes));
    EXPECT_EQ(memory.allocations(), 2U);
    for (int i = 0; i < 50; ++i) {
        slab* const between = heap.allocate({k_exact, k_granule_bytes, 1});
        ASSERT_NE(between, nullptr) << "what lies between them serves other blocks";
        used.push_back(between);
    }
    for (slab* const s : used)
        heap.deallocate(*s);
    EXPECT_TRUE(heap.is_valid());
    EXPECT_EQ(heap.release_chunks(), memory.most_bytes());
}

// A chunk of which every granule is in use but for those that begin at odd ones: no block at two granules fits. And one that does, freed
// before all of them.
struct heap_of_misfits {
    explicit heap_of_misfits(upstream& from) : heap(shape_of(4 * k_mib), from) {
        EXPECT_TRUE(heap.grow({k_exact, 64, 4 * k_mib}));
        while (slab* const s = heap.allocate({k_exact, k_granule_bytes, 1}))
            all.push_back(s);
    }
    void free_fitting() { heap.deallocate(*all[100]); }
    // Those from granule `first` to `end`. Returns how many.
    std::size_t free_misfits(std::size_t first, std::size_t end) {
        std::size_t count = 0;
        for (std::size_t i = first | 1; i < end; i += 2)
            if (i != 99 && i != 101) heap.deallocate(*all[i]), ++count;
        return count;
    }
    [[nodiscard]] slab* take() { return heap.allocate({k_exact, 64, 2 * k_granule_bytes}); }

    slab_heap heap;
    std::vector<slab*> all;
};

TEST_F(slab_heap_test, looks_at_few_free_spans_for_a_large_alignment_and_next_time_at_others) {
    heap_of_misfits one(from);
    one.free_fitting();
    std::size_t const misfits = one.free_misfits(0, one.all.size());
    slab* found = nullptr;
    std::size_t tries = 0;
    for (; found == nullptr && tries <= misfits; ++tries)
        found = one.take();
    EXPECT_EQ(found, one.all[100]);
    EXPECT_GT(tries, 10U) << "that many would be looked at in one call, under the lock of the heap";
    EXPECT_LT(tries, misfits / 2);
    EXPECT_TRUE(one.heap.is_valid());
}

TEST_F(slab_heap_test, looks_at_all_free_spans_when_it_cannot_grow) {
    test::failing_upstream failing(memory);
    upstream broken(&failing, 0, false);
    heap_of_misfits by_upstream(broken);
    upstream bounded(&memory, 4 * k_mib, false);
    heap_of_misfits by_bound(bounded);
    failing.fail_always(true);
    EXPECT_THROW(static_cast<void>(by_upstream.heap.grow(k_48)), std::bad_alloc);
    for (heap_of_misfits* const one : {&by_upstream, &by_bound}) {
        static_cast<void>(one->free_misfits(30, one->all.size()));
        EXPECT_EQ(one->take(), nullptr);
        EXPECT_EQ(one->take(), nullptr);
        one->free_fitting();
        static_cast<void>(one->free_misfits(0, 30));
        EXPECT_EQ(one->take(), one->all[100]) << "although it became free after a search that found none";
        EXPECT_TRUE(one->heap.is_valid());
    }
}

TEST_F(slab_heap_test, knows_the_fewest_bytes_that_were_free_in_a_period) {
    slab_heap heap(shape_of(8 * k_slab_bytes), from);
    slab& a = take_or_grow(heap, k_48);
    static_cast<void>(heap.take_fewest_free());
    slab& b = take_or_grow(heap, k_48);
    slab& c = take_or_grow(heap, k_48);
    heap.deallocate(b);
    EXPECT_EQ(heap.take_fewest_free(), 5 * k_slab_bytes);
    EXPECT_EQ(heap.take_fewest_free(), 6 * k_slab_bytes) << "the next period begins with what is free now";
    heap.deallocate(a);
    heap.deallocate(c);
    heap.release_chunks();
    EXPECT_EQ(heap.take_fewest_free(), 0U);
    EXPECT_TRUE(heap.is_valid());
}

TEST_F(slab_heap_test, purges_pages_only_of_memory_from_the_system) {
    slab_heap heap(shape_of(k_mib), from);
    heap.deallocate(take_or_grow(heap, k_48));
    EXPECT_EQ(heap.purge(), 0U);
}

TEST(slab_heap_of_system_memory, gives_the_pages_of_free_spans_back_once) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_48));
    slab& a = *heap.allocate(k_48);
    slab& b = *heap.allocate(k_48);
    platform::touch_pages(a.memory(), a.bytes());
    platform::touch_pages(b.memory(), b.bytes());
    heap.deallocate(a);
    ASSERT_EQ(test::resident_pages(a.memory(), a.bytes()), a.bytes() / platform::k_page_bytes);
    EXPECT_EQ(heap.purge(), 3 * k_slab_bytes);
    EXPECT_EQ(test::resident_pages(a.memory(), a.bytes()), 0U);
    EXPECT_EQ(test::resident_pages(b.memory(), b.bytes()), b.bytes() / platform::k_page_bytes)
        << "it is in use";
    EXPECT_EQ(heap.purge(), 0U) << "a second time there is nothing to give";
    heap.deallocate(b);
    EXPECT_EQ(heap.purge(), 4 * k_slab_bytes) << "it is one span with those beside it";
    slab& again = *heap.allocate(k_48);
    void* block = nullptr;
    EXPECT_EQ(again.allocate(1, &block + 1), 1U);
    EXPECT_EQ(again.deallocate(&block, &block + 1, k_geometry[k_48]), &block + 1);
    heap.deallocate(again);
    EXPECT_EQ(heap.purge(), 4 * k_slab_bytes) << "it was used since";
}

TEST(slab_heap_of_system_memory, counts_a_span_as_free_whose_pages_are_on_their_way) {
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_48));
    slab& s = *heap.allocate(k_48);
    platform::touch_pages(s.memory(), s.bytes());
    heap.deallocate(s);
    EXPECT_EQ(heap.take_fewest_free(), 0U);
    heap.purge();
    EXPECT_EQ(heap.free_bytes(), 4 * k_slab_bytes);
    EXPECT_EQ(heap.take_fewest_free(), 4 * k_slab_bytes) << "nobody needed it meanwhile";
    slab_heap::attempt reserving(heap, {k_48, k_48});
    EXPECT_EQ(heap.claim(reserving, heap.span_for(k_48), k_geometry[k_48].blocks_in(k_slab_bytes)), 0U);
    EXPECT_EQ(heap.free_bytes(), 3 * k_slab_bytes);
    EXPECT_TRUE(heap.touch(reserving));
    EXPECT_EQ(heap.free_bytes(), 3 * k_slab_bytes);
    EXPECT_TRUE(heap.is_valid());
}

TEST(slab_heap_of_system_memory, looks_once_at_a_free_span_that_has_no_resident_page) {
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_48));
    heap.purge();
    std::uint64_t const looks = from.calls_ended();
    EXPECT_EQ(heap.purge(), 0U);
    EXPECT_EQ(from.calls_ended(), looks);
    slab& s = *heap.allocate(k_48);
    EXPECT_EQ(heap.purge(), 0U);
    EXPECT_EQ(from.calls_ended(), looks) << "the rest, too, has none";
    heap.deallocate(s);
    EXPECT_EQ(heap.purge(), 4 * k_slab_bytes);
    EXPECT_EQ(from.calls_ended(), looks + 1) << "it may have been used since";
    EXPECT_TRUE(heap.is_valid());
}

TEST(slab_heap_of_system_memory, gives_the_pages_of_free_blocks_back) {
    if (k_hardened) GTEST_SKIP() << "free blocks have marks";
    if (platform::page_bytes() != platform::k_page_bytes) GTEST_SKIP() << "pages are larger";
    constexpr class_index k_1k = class_for(1024, 1024);  // slabs without colours
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_1k));
    slab& s = *heap.allocate(k_1k);
    constexpr std::size_t k_page = platform::k_page_bytes;
    std::vector<void*> blocks(9);
    static_cast<void>(s.allocate(6, blocks.data() + 6));
    EXPECT_EQ(heap.purge_in_use(s), k_slab_bytes - 2 * k_page) << "the second page has two blocks in use";
    static_cast<void>(s.allocate(3, blocks.data() + 9));  // into the third page
    EXPECT_EQ(heap.purge_in_use(s), k_slab_bytes - 3 * k_page);
    void* const* const end = blocks.data() + blocks.size();
    ASSERT_EQ(s.deallocate(blocks.data(), end, k_geometry[k_1k]), end);
    heap.deallocate(s);
    EXPECT_EQ(heap.purge(), k_slab_bytes) << "it is of no class any more";
}

TEST(slab_heap_of_system_memory, remembers_which_pages_it_gave_back_when_a_span_is_divided) {
    if (platform::page_bytes() != platform::k_page_bytes) GTEST_SKIP() << "pages are larger";
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_48));
    EXPECT_EQ(heap.purge(), 4 * k_slab_bytes);
    slab& s = *heap.allocate(k_48);
    EXPECT_EQ(heap.purge(), 0U);
    heap.deallocate(s);
    EXPECT_EQ(heap.purge(), 4 * k_slab_bytes) << "blocks of it may have been used";
    slab& exact = *heap.allocate({k_exact, 2 * k_slab_bytes, 16});
    void* block = nullptr;
    EXPECT_EQ(exact.allocate(1, &block + 1), 1U);
    EXPECT_EQ(exact.deallocate(&block, &block + 1, k_geometry[k_exact]), &block + 1);
    heap.deallocate(exact);
    EXPECT_EQ(heap.purge(), 4 * k_slab_bytes) << "the caller may have written to all of it";
}

// Resident slabs.
[[nodiscard]] std::vector<slab*> take_touched(slab_heap& heap, std::size_t count) {
    std::vector<slab*> slabs;
    while (slabs.size() < count) {
        slab* const s = heap.allocate(k_48);
        if (s != nullptr) platform::touch_pages(slabs.emplace_back(s)->memory(), k_slab_bytes);
        if (s == nullptr && heap.grow(k_48) == 0) break;
    }
    return slabs;
}

TEST(slab_heap_of_system_memory, purges_the_ends_of_the_longest_spans_first) {
    if (platform::page_bytes() != platform::k_page_bytes) GTEST_SKIP() << "pages are larger";
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_48));
    std::vector<slab*> const slabs = take_touched(heap, 4);
    for (std::size_t const i : {0U, 1U, 3U})
        heap.deallocate(*slabs[i]);
    EXPECT_EQ(heap.purge(1), k_granule_bytes);
    EXPECT_EQ(heap.purge(k_slab_bytes), k_slab_bytes);
    if (test::can_count_resident_pages()) {
        EXPECT_EQ(test::resident_pages(slabs[1]->memory(), k_slab_bytes), 0U);
        EXPECT_NE(test::resident_pages(slabs[0]->memory(), k_slab_bytes), 0U);
        EXPECT_NE(test::resident_pages(slabs[3]->memory(), k_slab_bytes), 0U);
    }
    EXPECT_EQ(heap.purge(), 3 * k_slab_bytes);
    EXPECT_EQ(heap.purge(), 0U);
}

// Otherwise what a program uses again and again returns in each period, because there is other memory that it does not need.
TEST(slab_heap_of_system_memory, counts_spans_that_have_no_page_among_those_that_are_not_needed) {
    if (platform::page_bytes() != platform::k_page_bytes) GTEST_SKIP() << "pages are larger";
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(8 * k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_48));
    std::vector<slab*> const slabs = take_touched(heap, 8);
    for (std::size_t const i : {0U, 1U, 2U})
        heap.deallocate(*slabs[i]);
    EXPECT_EQ(heap.purge(), 3 * k_slab_bytes);
    heap.deallocate(*slabs[5]);
    EXPECT_EQ(heap.purge(3 * k_slab_bytes), 0U);
    EXPECT_EQ(heap.purge(3 * k_slab_bytes + 1), k_granule_bytes);
    EXPECT_EQ(heap.purge(), k_slab_bytes);
    EXPECT_TRUE(heap.is_valid());
}

TEST(slab_heap_of_system_memory, takes_a_chunk_of_a_huge_page_after_1_mib_only_if_it_fills_quickly) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    auto const grow_after_1_mib = [](std::size_t least_touched) {
        upstream from(nullptr, 0, true);
        slab_heap heap(shape_that_starts_small(), from);
        while (from.used() < k_mib) {
            std::size_t const bytes = heap.grow(k_48);
            for (std::size_t i = 0; i != bytes / k_slab_bytes; ++i) {
                slab* const s = heap.allocate(k_48);
                if (bytes >= least_touched) platform::touch_pages(s->memory(), k_slab_bytes);
            }
        }
        return heap.grow(k_48);
    };
    EXPECT_EQ(grow_after_1_mib(k_mib), k_mib);
    for (int i = 0; i < 20; ++i)
        ASSERT_EQ(grow_after_1_mib(k_mib / 2), k_mib) << "one chunk may be a queue that is full now";
    std::size_t bytes = 0;
    for (int i = 0; i < 200 && bytes != 2 * k_mib; ++i)
        bytes = grow_after_1_mib(0);
    if (bytes == k_mib) GTEST_SKIP() << "512 KiB take more than half a millisecond here";
    EXPECT_EQ(bytes, 2 * k_mib);
}

// Of each size, the last slab is not full, so not all of a chunk is resident when the next one is needed.
// A pool asks for huge pages by touching the first one.
TEST(slab_heap_of_system_memory,
     of_2_mib_is_filled_quickly_with_many_sizes_if_half_of_its_chunks_is_resident) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    auto const is_huge_after = [](std::size_t used, std::size_t touched_of_granule) {
        upstream from(nullptr, 0, true);
        slab_heap heap(shape_that_starts_small(), from);
        while (from.used() < used) {
            std::size_t const bytes = heap.grow(k_48);
            for (std::size_t i = 0; i != bytes / k_granule_bytes; ++i)
                platform::touch_pages(heap.allocate(k_48, false, true, 0)->memory(), touched_of_granule);
        }
        static_cast<void>(heap.grow(k_48));
        return platform::resident_bytes(heap.allocate(k_48, false, true, 0)->owner->base, 4096) != 0;
    };
    for (int i = 0; i < 20; ++i) {
        ASSERT_FALSE(is_huge_after(2 * k_mib, k_granule_bytes / 4)) << "a page of each slab";
        ASSERT_FALSE(is_huge_after(k_mib, k_granule_bytes / 2)) << "a huge page would be most of it";
    }
    auto const is_any_of_200 = [&](std::size_t touched_of_granule) {
        bool is_any = false;
        for (int i = 0; i < 200 && !is_any; ++i)
            is_any = is_huge_after(2 * k_mib, touched_of_granule);
        return is_any;
    };
    if (!is_any_of_200(k_granule_bytes)) GTEST_SKIP() << "a MiB takes more than a millisecond here";
    EXPECT_TRUE(is_any_of_200(k_granule_bytes / 2));
}

TEST(slab_heap_of_system_memory, takes_no_more_for_a_reservation_that_it_touches) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    for (int i = 0; i < 20; ++i) {
        upstream from(nullptr, 0, true);
        slab_heap heap(shape_that_starts_small(), from);
        slab_heap::attempt by(heap, {k_48, k_48}, true);
        span_request const what = heap.span_for(k_48);
        std::size_t const count =
            (k_mib + k_mib / 2) / k_slab_bytes * k_geometry[k_48].blocks_in(k_slab_bytes);
        ASSERT_TRUE(reserve(heap, by, what, count));
        by.settle();
        ASSERT_EQ(from.used(), 2 * k_mib);
    }
}

TEST(slab_heap_of_system_memory, keeps_a_huge_page_half_in_use_whole_until_chunks_return) {
    if (platform::page_bytes() != platform::k_page_bytes) GTEST_SKIP() << "pages are larger";
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    ASSERT_TRUE(heap.grow(k_48));
    std::vector<slab*> const slabs = take_touched(heap, 4);
    chunk& whole = *slabs[0]->owner;
    auto const is_huge_after = [&](std::size_t bytes, std::size_t of_chunks) {
        whole.is_huge = true;
        heap.begin_purge(bytes, of_chunks);
        while (heap.has_step())
            heap.do_step();
        return static_cast<bool>(whole.is_huge);
    };
    heap.deallocate(*slabs[1]);
    heap.deallocate(*slabs[3]);
    EXPECT_TRUE(is_huge_after(2 * k_slab_bytes, 0));
    EXPECT_FALSE(is_huge_after(k_slab_bytes, 1)) << "its pages returned";
    heap.deallocate(*slabs[0]);
    EXPECT_FALSE(is_huge_after(3 * k_slab_bytes, 0)) << "a quarter is in use";
    EXPECT_EQ(heap.purge(), 0U);
    heap.deallocate(*slabs[2]);
    EXPECT_EQ(heap.purge(), 4 * k_slab_bytes) << "it is one span";
}

TEST(slab_heap_of_system_memory, returns_other_pages_where_huge_ones_stay) {
    if (platform::page_bytes() != platform::k_page_bytes) GTEST_SKIP() << "pages are larger";
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    std::vector<slab*> const slabs = take_touched(heap, 8);
    ASSERT_EQ(slabs.size(), 8U);
    ASSERT_NE(slabs[0]->owner, slabs[4]->owner);
    for (int const i : {1, 2, 5})
        heap.deallocate(*slabs[static_cast<std::size_t>(i)]);
    slabs[0]->owner->is_huge = true;
    auto const purge = [&](std::size_t bytes) {
        heap.begin_purge(bytes, 0);
        while (heap.has_step())
            heap.do_step();
    };
    purge(k_slab_bytes);
    EXPECT_EQ(test::resident_pages(slabs[5]->memory(), k_slab_bytes), 0U) << "the longest one stays";
    EXPECT_TRUE(slabs[0]->owner->is_huge);
    heap.begin_purge(k_size_max, k_size_max);
    EXPECT_TRUE(heap.has_step());
    purge(k_size_max);  // the next period's, before it began
    EXPECT_FALSE(slabs[0]->owner->is_huge) << "what was to be split is split";
    EXPECT_EQ(test::resident_pages(slabs[1]->memory(), 2 * k_slab_bytes), 0U);
    for (int const i : {0, 3, 4, 6, 7})
        heap.deallocate(*slabs[static_cast<std::size_t>(i)]);
}

#ifdef __linux__
// Their beginning may be all that is used.
TEST(slab_heap_of_system_memory, makes_no_page_of_large_blocks_resident) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    std::int64_t const before = g_small_pages_until.exchange(0);
    upstream from(nullptr, 0, true);
    slab_heap heap(shape_of(2 * k_mib), from);
    block_request const large{k_exact, k_mib, 1};
    for (int chunks = 0; chunks < 32; ++chunks) {
        ASSERT_EQ(heap.grow(large), 2 * k_mib);
        for (int of_chunk = 0; of_chunk < 2; ++of_chunk) {
            slab* const s = heap.allocate(large);
            ASSERT_NE(s, nullptr);
            EXPECT_EQ(test::resident_pages(s->memory(), k_mib), 0U);
        }
    }
    g_small_pages_until.store(before);
}

TEST(slab_heap_of_system_memory, returns_the_pages_that_a_huge_page_made_resident_again) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    bool const before = g_has_huge_pages.exchange(true);
    upstream from(nullptr, 0, true);
    slab_heap heap(shape_of(2 * k_mib), from);
    std::vector<slab*> slabs = take_touched(heap, 2 * k_mib / k_slab_bytes);
    ASSERT_FALSE(slabs.empty());
    chunk& all = *slabs[0]->owner;
    ASSERT_EQ(all.held, all.granules) << "it is one chunk";
    heap.deallocate(*slabs.back());
    EXPECT_EQ(heap.purge(), k_slab_bytes);
    for (int walk = 0; walk < 2; ++walk) {
        heap.begin_collapsing();
        heap.collapse_one();
    }
    if (all.is_huge) {  // the system has one
        EXPECT_EQ(test::resident_pages(all.base, all.bytes), all.bytes / platform::k_page_bytes);
        EXPECT_EQ(heap.purge(), k_slab_bytes);
        EXPECT_EQ(test::resident_pages(slabs.back()->memory(), k_slab_bytes), 0U);
    }
    slabs.pop_back();
    for (slab* const s : slabs)
        heap.deallocate(*s);
    g_has_huge_pages.store(before);
}
#endif

TEST(slab_heap_of_system_memory, gives_the_pages_of_many_spans_back_in_steps) {
    if (platform::page_bytes() != platform::k_page_bytes) GTEST_SKIP() << "pages are larger";
    upstream from(nullptr, 0, false);
    slab_heap heap(shape_of(16 * k_mib), from);
    ASSERT_TRUE(heap.grow(k_48));
    std::vector<slab*> all;
    while (slab* const s = heap.allocate({k_exact, k_granule_bytes, 1}))
        all.push_back(s);
    for (std::size_t i = 0; i < all.size(); i += 2)
        heap.deallocate(*all[i]);
    heap.begin_purge(8 * k_granule_bytes, 8 * k_granule_bytes);
    while (heap.has_step())
        heap.do_step();
    heap.begin_purge(k_size_max, k_size_max);
    std::size_t steps = 0;
    for (; heap.has_step(); ++steps)
        heap.do_step();
    EXPECT_GT(steps, 10U) << "a step takes a system call for each span";
    EXPECT_LT(steps, all.size() / 4);
    EXPECT_EQ(heap.purge(), 0U) << "all pages went back";
    EXPECT_TRUE(heap.is_valid());
    heap.begin_purge(k_size_max, k_size_max);
    slab_heap::attempt const reserving(heap, {k_48, k_48});
    EXPECT_FALSE(heap.has_step()) << "a call that makes no other system call";
}

TEST_F(slab_heap_test, returns_chunks_in_steps_and_looks_at_no_other) {
    slab_heap heap(shape_of(k_mib), from);
    std::vector<slab*> all;
    for (std::size_t i = 0; i < 64; ++i) {
        ASSERT_TRUE(heap.grow(k_48));
        while (slab* const s = heap.allocate({k_exact, k_granule_bytes, 1}))
            all.push_back(s);
    }
    // Every other chunk, and then the first one again.
    for (slab* const s : all)
        if (s->owner->number % 2 == 0) heap.deallocate(*s);
    EXPECT_TRUE(heap.is_valid());
    std::size_t const before = from.used();
    std::size_t const empty = heap.empty_bytes();
    heap.begin_purge(k_size_max, k_size_max);
    heap.do_step();
    EXPECT_EQ(before - from.used(), 8 * k_mib);
    EXPECT_TRUE(heap.is_valid());
    while (heap.has_step())
        heap.do_step();
    EXPECT_EQ(before - from.used(), empty);
    EXPECT_TRUE(heap.is_valid());
}

#ifdef __linux__
TEST_F(slab_heap_test, copies_no_memory_of_a_parent_to_a_huge_page) {
    bool const before = g_has_huge_pages.exchange(true);
    slab_heap heap(shape_of(k_slab_bytes), from);
    slab& old = take_or_grow(heap, k_48);
    heap.forget_others();
    slab& fresh = take_or_grow(heap, k_48);
    old.owner->may_be_huge = fresh.owner->may_be_huge = true;
    heap.begin_collapsing();
    heap.collapse_one();
    EXPECT_FALSE(old.owner->was_full);
    EXPECT_TRUE(fresh.owner->was_full);
    heap.deallocate(old);
    heap.deallocate(fresh);
    g_has_huge_pages.store(before);
}

TEST(slab_heap_pauses, spends_a_third_of_the_time_on_huge_pages_and_a_thousandth_on_waits) {
    constexpr std::int64_t k_ms = 1'000'000;
    EXPECT_EQ(slab_heap::pause_after(3 * k_ms, true), 6 * k_ms);
    EXPECT_EQ(slab_heap::pause_after(3 * k_ms, false), 96 * k_ms) << "in vain";
    EXPECT_EQ(slab_heap::pause_after(950 * k_ms, true), 950 * 1024 * k_ms);
    EXPECT_EQ(slab_heap::pause_after(950 * k_ms, false), 950 * 1024 * k_ms);
}

// In steps, while chunks come and go and another thread may have the lock.
TEST_F(slab_heap_test, gives_a_huge_page_to_a_chunk_that_two_walks_found_full) {
    bool const before = g_has_huge_pages.exchange(true);
    slab_heap heap(shape_of(k_slab_bytes), from);
    std::vector<slab*> all;
    for (std::size_t i = 0; i < 300; ++i)
        (all.emplace_back(&take_or_grow(heap, k_48)))->owner->may_be_huge = true;
    auto const are = [&](bool noted) {
        return std::all_of(all.begin(), all.end(), [&](slab* s) { return s->owner->was_full == noted; });
    };
    EXPECT_FALSE(heap.may_collapse());
    heap.begin_collapsing();
    heap.collapse_one();
    EXPECT_TRUE(heap.may_collapse()) << "it looks at some only";
    EXPECT_TRUE(!are(true) && !are(false));
    for (std::size_t i = 100; i < 200; ++i) {  // the next one is among them
        all[i]->owner->may_be_huge = false;
        heap.deallocate(*all[i]);
    }
    all.erase(all.begin() + 100, all.begin() + 200);
    chunk const* const last = all.back()->owner;
    heap.begin_collapsing();
    EXPECT_FALSE(last->was_full) << "the walk goes on";
    heap.lock();
    std::thread([&] { heap.collapse_one(); }).join();
    heap.unlock();
    EXPECT_TRUE(heap.may_collapse()) << "it did not wait";
    while (heap.may_collapse())
        heap.collapse_one();
    EXPECT_TRUE(are(true));
    auto const found = [&] {
        return std::count_if(all.begin(), all.end(), [](slab* s) { return !s->owner->was_full; });
    };
    EXPECT_EQ(found(), 0) << "none was full twice";
    heap.lock();
    std::thread([&] { heap.begin_collapsing(); }).join();
    heap.unlock();
    EXPECT_FALSE(heap.may_collapse());
    all.front()->owner->is_huge = true;
    heap.begin_collapsing();
    heap.collapse_one();
    EXPECT_FALSE(all.front()->owner->was_full);
    EXPECT_EQ(found(), 2) << "one in a call";
    EXPECT_TRUE(heap.may_collapse());
    for (slab* const s : all)
        heap.deallocate(*s);
    g_has_huge_pages.store(before);
}
#endif

// As a thread does whose slab fills its chunk, while another one that does not run has the lock.
TEST_F(slab_heap_test, takes_back_a_chunk_that_became_one_slab_without_the_lock) {
    slab_heap heap(shape_of(k_slab_bytes), from);
    slab& other = take_or_grow(heap, k_48);
    slab* only = nullptr;
    heap.lock();
    std::thread([&] {
        EXPECT_TRUE(heap.grow(k_48));
        only = heap.allocate(k_48);
    }).join();
    heap.unlock();
    ASSERT_NE(only, nullptr);
    EXPECT_TRUE(heap.is_valid());
    heap.deallocate(*only);
    heap.deallocate(other);
    EXPECT_TRUE(heap.is_valid());
    EXPECT_EQ(heap.release_chunks(), 2 * k_slab_bytes);
}

// What grow() leaves has the usual length: whoever looked for a shorter span would find none, and let the pool grow for each slab.
TEST_F(slab_heap_test, that_starts_small_has_slabs_of_the_usual_length_without_the_lock) {
    slab_heap heap(shape_that_starts_small(), from);
    heap.lock();
    std::thread([&] {
        EXPECT_TRUE(heap.grow(k_48));
        slab const* const s = heap.allocate(k_48, false, true, 0);
        ASSERT_NE(s, nullptr);
        EXPECT_EQ(s->bytes(), k_slab_bytes);
    }).join();
    heap.unlock();
    EXPECT_TRUE(heap.is_valid());
}

// Its class must be none whose list another thread may look at: that of k_exact would take it out of its own list.
TEST_F(slab_heap_test, leaves_a_span_beside_a_held_lock_in_no_list_of_a_class) {
    slab_heap heap(shape_of(4 * k_mib), from);
    slab& s = take_or_grow(heap, k_48);
    heap.lock();
    std::thread([&] { heap.deallocate(s); }).join();
    EXPECT_GT(s.size_class, k_exact);
    EXPECT_NE(s.size_class, k_no_class) << "those beside it would become one with it";
    heap.unlock();
    EXPECT_EQ(s.size_class, k_no_class);
    EXPECT_TRUE(heap.is_valid());
}

// Reservations.

// Between two locks, a thread that reserves would keep a span whose chunk is gone.
TEST_F(slab_heap_test, leaves_a_reservation_in_progress_no_span_of_a_detached_chunk) {
    slab_heap heap(shape_of(4 * k_slab_bytes), from);
    slab_heap::attempt by(heap, {k_48, k_48});
    std::atomic<bool> is_over{false};
    std::atomic<std::size_t> turns{0};
    std::thread reserves([&] {
        for (; !is_over; ++turns)
            static_cast<void>(heap.claim(by, heap.span_for(k_48), 1'000'000));
    });
    while (turns < 2000) {
        ASSERT_TRUE(heap.grow(k_48));
        upstream::call under_way(from);
        intrusive_list<chunk> all;
        ASSERT_TRUE(heap.detach_all(all, under_way));
        for (chunk& c : all)
            for (slab const& s : c.records())
                if (s.reserved_for != nullptr) turns = 2000, ADD_FAILURE() << "it keeps a span";
        static_cast<void>(heap.return_chunks(all, under_way, slab_heap::refused::abandon));
        ASSERT_TRUE(heap.is_valid());
    }
    is_over = true;
    reserves.join();
}

TEST_F(slab_heap_test, forgets_in_a_forked_child_what_other_threads_were_about_to_reserve) {
    slab_heap heap(shape_of(k_slab_bytes), from);
    alignas(slab_heap::attempt) std::array<std::byte, sizeof(slab_heap::attempt)> lost;
    std::thread([&] {
        auto* const by = ::new (static_cast<void*>(lost.data())) slab_heap::attempt(heap, {k_48, k_48});
        EXPECT_TRUE(reserve(heap, *by, heap.span_for(k_48), 1));
    }).join();
    EXPECT_TRUE(heap.has_reservations());
    heap.forget_others();
    EXPECT_FALSE(heap.has_reservations());
    EXPECT_TRUE(heap.is_valid());
}

// When upstream had no memory once, shorter spans serve until it has some again.
TEST_F(slab_heap_test, takes_no_shorter_span_than_is_best_after_a_reservation_that_upstream_had_memory_for) {
    bool has_memory = false;
    test::hooked_upstream refusing(memory, [&](std::size_t) {
        if (!has_memory) throw std::bad_alloc();
    });
    upstream source{&refusing, 0, false};
    constexpr class_index k_6144 = class_for(6144, 8);
    for (bool const is_held : {false, true}) {
        slab_heap heap(shape_of(11 * k_granule_bytes), source);
        has_memory = false;
        EXPECT_THROW(static_cast<void>(heap.grow(k_48)), std::bad_alloc);
        has_memory = true;
        if (is_held) heap.lock();
        std::thread([&] { EXPECT_TRUE(reserve(heap, heap.span_for(k_48), 1)); }).join();
        if (is_held) heap.unlock();
        slab* const whole = heap.allocate(k_6144);
        ASSERT_NE(whole, nullptr);
        EXPECT_EQ(heap.allocate(k_6144), nullptr) << "one granule is left; held: " << is_held;
        heap.deallocate(*whole);
    }
}

// As few as if they came one after the other: what lies between them is free.
TEST_F(slab_heap_test, reserves_blocks_of_a_large_alignment_in_no_more_memory_than_they_need) {
    slab_heap heap(shape_of(64 * k_mib), from);
    constexpr std::size_t k_align = k_mib / 2;
    EXPECT_TRUE(reserve(heap, heap.span_for({k_exact, k_align + k_granule_bytes, k_align}), 100));
    EXPECT_LE(memory.bytes(), 128 * k_mib);
}

// Also what was not part of the heap yet.
TEST_F(slab_heap_test, forgets_in_a_forked_child_what_other_threads_had_left_while_they_reserved) {
    slab_heap heap(shape_of(k_slab_bytes), from);
    alignas(slab_heap::attempt) std::array<std::byte, sizeof(slab_heap::attempt)> lost;
    heap.lock();
    std::thread([&] {
        auto* const by = ::new (static_cast<void*>(lost.data())) slab_heap::attempt(heap, {k_48, k_48});
        std::size_t count = 3 * (k_slab_bytes / 48);
        EXPECT_TRUE(heap.reserve(*by, heap.span_for(k_48), [&] { return std::exchange(count, 0); }));
    }).join();
    heap.unlock();
    heap.forget_others();
    EXPECT_FALSE(heap.has_reservations());
    EXPECT_TRUE(heap.is_valid());
    EXPECT_GE(heap.release_chunks(), 3 * k_slab_bytes);
    EXPECT_EQ(from.used(), 0U);
}

TEST_F(slab_heap_test, forgets_a_reservation_of_slabs_in_use) {
    slab_heap heap(shape_of(k_slab_bytes), from);
    ASSERT_TRUE(reserve(heap, heap.span_for(k_48), 1));
    slab* const used = heap.allocate(k_48);
    ASSERT_NE(used, nullptr);
    heap.forget_reservations();
    EXPECT_TRUE(heap.is_valid());
    heap.deallocate(*used);
    EXPECT_TRUE(heap.is_valid());
    EXPECT_NE(heap.allocate(k_32k), nullptr) << "any class may have it now";
}

TEST_F(slab_heap_test, keeps_what_one_attempt_has_settled_when_another_one_fails) {
    slab_heap heap(shape_of(k_slab_bytes), from);
    {
        slab_heap::attempt first(heap, {k_48, k_48});
        slab_heap::attempt second(heap, {k_48, k_48});
        ASSERT_TRUE(reserve(heap, first, heap.span_for(k_48), k_slab_bytes / 48));
        first.settle();
        ASSERT_TRUE(reserve(heap, second, heap.span_for(k_48), 2 * (k_slab_bytes / 48)));
    }
    EXPECT_TRUE(heap.is_valid());
    EXPECT_EQ(memory.bytes(), k_slab_bytes);
    EXPECT_EQ(heap.allocate(k_32k), nullptr);
    EXPECT_NE(heap.allocate(k_48), nullptr);
}

// Of blocks that no class serves.

TEST_F(slab_heap_test, aligns_a_block_also_where_a_longer_span_is_reserved) {
    slab_heap heap(shape_of(4 * k_mib), from);
    static_cast<void>(take_exact_or_grow(heap, k_granule_bytes, 1));
    ASSERT_TRUE(reserve(heap, heap.span_for({k_exact, 2 * k_mib, 1}), 1));
    slab& s = take_exact_or_grow(heap, k_slab_bytes, 16 * k_slab_bytes);
    EXPECT_EQ(s.memory() + s.colour(), s.blocks);
    EXPECT_EQ(g_page_map.find(s.blocks).slab_at(), &s);
    heap.deallocate(s);
    EXPECT_TRUE(heap.is_valid());
}

TEST_F(slab_heap_test, is_valid_after_every_step_with_an_upstream_that_fails_now_and_then) {
    std::mt19937 random(11);
    test::failing_upstream failing(memory);
    upstream source(&failing, 40 * k_slab_bytes, false);
    slab_heap heap(shape_of(4 * k_slab_bytes), source);
    std::vector<slab*> used;
    for (int step = 0; step < 5000; ++step) {
        if (random() % 8 == 0) failing.fail_at_next_call();
        auto const c = static_cast<class_index>(random() % (k_first_large + 16));
        std::size_t const bytes = random() % (8 * k_slab_bytes);
        std::size_t const align = std::size_t{1} << random() % 18;
        try {
            switch (random() % 14) {
            case 0:
                heap.release_chunks(random() % 4 == 0 ? k_size_max : random() % 10 * k_slab_bytes);
                break;
            case 1:
                heap.forget_reservations();
                break;
            case 2:
                static_cast<void>(random() % 4 == 0
                                      ? reserve(heap, heap.span_for({k_exact, bytes, align}), random() % 4)
                                      : reserve(heap, heap.span_for(c), random() % 2000));
                break;
            case 3:
                static_cast<void>(heap.take_fewest_free());
                break;
            case 4:
                static_cast<void>(random() % 4 == 0 ? heap.grow({k_exact, bytes, align}) : heap.grow(c));
                break;
            case 5:
                if (slab* const s = heap.allocate({k_exact, bytes, align})) {
                    ASSERT_EQ(address_of(s->blocks) % align, 0U);
                    ASSERT_GE(s->block_bytes(), bytes);
                    used.push_back(s);
                }
                break;
            case 6:
            case 7:
            case 8:
            case 9:
                if (slab* const s = heap.allocate(c)) used.push_back(s);
                break;
            default:
                if (used.empty()) break;
                std::swap(used[random() % used.size()], used.back());
                heap.deallocate(*used.back());
                used.pop_back();
            }
        } catch (test::injected_failure const&) {  // NOLINT: what failed must have changed nothing
        }
        ASSERT_TRUE(heap.is_valid()) << "after step " << step;
        ASSERT_EQ(source.used(), memory.bytes());
        ASSERT_LE(memory.bytes(), 40 * k_slab_bytes);
    }
    for (slab* const s : used)
        heap.deallocate(*s);
    heap.forget_reservations();
    heap.release_chunks();
    EXPECT_EQ(memory.bytes(), 0U);
}

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

// As of a fibre that the resource moved to another thread, and whose stack is then used for something else.
TEST(upstream, forgets_a_call_that_ends_on_another_thread) {
    test::counting_upstream memory;
    upstream source(&memory, 0, true);
    alignas(upstream::call) std::array<std::byte, sizeof(upstream::call)> stack;
    std::thread([&] {
        auto* const moved = ::new (static_cast<void*>(stack.data())) upstream::call(source);
        moved->begin();
        std::thread([&] {
            std::destroy_at(moved);
            EXPECT_FALSE(source.wait_for_call(source.calls_ended()));
            EXPECT_EQ(t_upstream_calls(), 0U) << "the call was not of this thread";
        }).join();
        stack.fill(std::byte{0x5a});
        give(source, take(source, 1000, k_granule_bytes), 1000, k_granule_bytes);
    }).join();
    EXPECT_EQ(std::ranges::count(stack, std::byte{0x5a}), std::ssize(stack));
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
