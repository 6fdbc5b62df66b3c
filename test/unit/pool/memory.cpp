// SPDX-License-Identifier: BSL-1.0

// What pools do with their memory. First that memory alone, with two threads' caches made by hand: what a call does that a cache
// could not serve, and that nothing free is overlooked before upstream is asked for more or "exhausted" is reported. Then large
// blocks, reserve(), and when pages are given back.

#include "pooled/pool/memory.hpp"

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/sleeper.hpp"
#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr class_index k_48 = class_for(48, 8);
constexpr class_index k_1500 = class_for(1500, 8);
constexpr std::size_t k_mib = std::size_t{1} << 20;
constexpr std::size_t k_large_bytes = 100'000;
constexpr std::size_t k_exact_bytes = k_max_large_block_bytes + 1;
constexpr std::uint32_t k_pool_id = 60'010;  // no pool of this program has it

static_assert(default_chunk_bytes(0) == k_default_chunk_bytes);
static_assert(default_chunk_bytes(k_granule_bytes) == k_granule_bytes);
static_assert(default_chunk_bytes(8 * k_mib) == k_mib / 2);

#ifdef __linux__
// A thread whose arrays serve nearly all it does makes few slow calls.
TEST(memory_release_test, looks_for_a_chunk_to_collapse_in_each_slow_call) {
    bool const before = g_has_huge_pages.exchange(true);
    upstream from{nullptr, 0, false};
    slab_heap heap({k_pool_id, true, false, k_slab_bytes, false}, from);
    cache_set caches{heap, k_pool_id, true};
    memory_release release(from, heap, caches, std::chrono::hours(1));
    EXPECT_FALSE(release.is_call_due(5));
    ASSERT_TRUE(heap.grow(k_48));
    slab* const s = heap.allocate(k_48);
    ASSERT_NE(s, nullptr);
    s->owner->may_be_huge = true;
    for (int period = 0; period < 2; ++period) {
        heap.begin_collapsing();
        EXPECT_TRUE(release.is_call_due(5));
        release.on_slow_call(5);
    }
    EXPECT_FALSE(s->owner->was_full) << "it was not looked at twice";
    heap.deallocate(*s);
    g_has_huge_pages.store(before);
}

TEST(memory_release_test, collapses_no_chunk_of_a_pool_that_was_reserved_meanwhile) {
    bool const before = g_has_huge_pages.exchange(true);
    upstream from{nullptr, 0, false};
    slab_heap heap({k_pool_id, true, false, k_slab_bytes, false}, from);
    cache_set caches{heap, k_pool_id, true};
    memory_release release(from, heap, caches, std::chrono::hours(1));
    ASSERT_TRUE(heap.grow(k_48));
    slab* const s = heap.allocate(k_48);
    ASSERT_NE(s, nullptr);
    s->owner->may_be_huge = true;
    heap.begin_collapsing();
    release.on_slow_call(5);
    heap.begin_collapsing();
    {
        slab_heap::attempt const reserved(heap, {k_48, k_48});
        release.on_slow_call(5);
        EXPECT_TRUE(s->owner->was_full) << "that is a system call";
    }
    heap.deallocate(*s);
    g_has_huge_pages.store(before);
}
#endif

// The memory of a shared pool with the caches of two threads that do not run.
class pool_memory_test : public testing::Test {
protected:
    void make(std::size_t max_bytes = 0) {
        memory.emplace(pooled::pool_options{.max_bytes = max_bytes, .upstream = &failing}, k_pool_id, true);
        std::scoped_lock const lock(memory->caches());
        for (std::size_t i = 0; i < 2; ++i) {
            caches[i].owner = &owners[i];
            memory->caches().link(caches[i]);
        }
    }
    pool_memory_test() {
        EXPECT_TRUE(platform::has_heavy_barrier());
        make();
    }
    ~pool_memory_test() override {
        EXPECT_TRUE(memory->is_valid());
        close();
        memory.reset();
        EXPECT_EQ(upstream_memory.bytes(), 0U);
    }
    void close() {
        std::scoped_lock const lock(memory->caches());
        memory->caches().for_each([&](thread_cache& cache) { memory->caches().retire(cache); });
    }

    // As the owner of the cache does: the fast path, then the slow one.
    [[nodiscard]] void* take(std::size_t i, block_request const& what) {
        void* cached = nullptr;
        if (caches[i].gate.enter()) {
            cached = caches[i].pop(what.c);
            caches[i].gate.leave();
        }
        return cached != nullptr ? cached : memory->allocate(what, &caches[i]);
    }
    void give(std::size_t i, class_index c, void* block) {
        if (caches[i].gate.enter()) {
            bool const is_cached = caches[i].push(c, block);
            caches[i].gate.leave();
            if (is_cached) return;
        }
        EXPECT_FALSE(memory->deallocate(c, &caches[i], block));
    }
    [[nodiscard]] std::vector<void*> take_all(std::size_t i, class_index c) {
        std::vector<void*> all;
        while (void* const p = take(i, c))
            all.push_back(p);
        return all;
    }
    void give_all(std::size_t i, class_index c, std::vector<void*> const& all) {
        for (void* const p : all)
            give(i, c, p);
    }
    [[nodiscard]] void* take_large(std::size_t i) {
        return take(i, {large_class_for(k_large_bytes, 16), k_large_bytes, 16});
    }
    [[nodiscard]] pooled::pool_stats stats() {
        pooled::pool_stats sum;
        memory->fill(sum);
        return sum;
    }

    test::counting_upstream upstream_memory;
    test::failing_upstream failing{upstream_memory};
    std::array<thread_state, 2> owners{};
    std::array<thread_cache, 2> caches;
    std::optional<pool_memory> memory;
};

class bounded_pool_memory : public pool_memory_test {
protected:
    bounded_pool_memory() {
        close();
        make(k_mib);
    }
    // Replaces a block until threads use their caches again. Returns how often.
    std::size_t leave_bound(class_index c, void*& block) {
        std::size_t served = 0;
        for (; memory->caches().is_at_bound() && served < 100'000; ++served) {
            give(0, c, block);
            block = take(0, c);
            EXPECT_NE(block, nullptr);
        }
        return served;
    }
};

// The pool's mode at its bound.

// The first report stops all threads; the others are one look each.
TEST_F(bounded_pool_memory, asks_nobody_when_it_reports_exhaustion_again) {
    auto const all = take_all(0, k_48);
    std::uint32_t const epoch = memory->caches().bound_epoch();
    std::size_t const calls = failing.calls();
    for (std::size_t i = 0; i < 3000; ++i) {
        EXPECT_EQ(memory->allocate(k_48, &caches[i % 2]), nullptr);
        EXPECT_EQ(memory->allocate(k_1500, nullptr), nullptr);
        EXPECT_EQ(take_large(0), nullptr);
    }
    EXPECT_EQ(memory->caches().bound_epoch(), epoch);
    EXPECT_EQ(failing.calls(), calls);
    give_all(0, k_48, all);
}

TEST_F(bounded_pool_memory, uses_its_caches_again_once_it_has_served_some_thousand_requests) {
    auto all = take_all(0, k_48);
    std::size_t const served = leave_bound(k_48, all.back());
    EXPECT_GE(served, 1000U);
    EXPECT_LE(served, 10'000U);
    give_all(0, k_48, all);
    EXPECT_NE(stats().cached, 0U);
}

// What a class served before does not count: each request would leave the mode, and each failure of another class enter it.
TEST_F(bounded_pool_memory, serves_as_many_again_before_it_leaves_that_mode_once_more) {
    void* of_other = take(0, k_1500);
    auto const all = take_all(0, k_48);
    for (int i = 0; i < 3; ++i) {
        EXPECT_GE(leave_bound(k_1500, of_other), 1000U);
        EXPECT_EQ(memory->allocate(k_48, nullptr), nullptr);
        EXPECT_TRUE(memory->caches().is_at_bound());
    }
    give(0, k_1500, of_other);
    give_all(0, k_48, all);
}

TEST_F(bounded_pool_memory, does_not_leave_that_mode_while_requests_fail) {
    auto all = take_all(0, k_48);
    std::uint32_t const epoch = memory->caches().bound_epoch();
    for (int i = 0; i < 20'000; ++i) {
        give(0, k_48, all.back());
        all.back() = take(0, k_48);
        ASSERT_NE(all.back(), nullptr);
        if (i % 500 == 0) {
            EXPECT_EQ(take(1, k_48), nullptr) << i;
        }
    }
    EXPECT_EQ(memory->caches().bound_epoch(), epoch);
    give_all(0, k_48, all);
}

TEST_F(pool_memory_test, keeps_at_most_64_mib_or_half_of_the_memory_free_in_spans_of_their_own) {
    for (std::size_t const count : {2U, 4U, 12U}) {
        std::vector<void*> all;
        while (all.size() < count)
            all.push_back(memory->allocate({k_exact, 2 * k_exact_bytes, 16}, nullptr));  // never touched
        std::size_t const most = upstream_memory.bytes();
        for (void* const p : all)
            EXPECT_FALSE(memory->deallocate(k_exact, nullptr, p));
        EXPECT_LE(upstream_memory.bytes(), std::max(std::size_t{64} << 20, most / 2) + 3 * k_exact_bytes);
        memory->trim();
    }
}

TEST_F(pool_memory_test, that_is_closed_ends_with_the_last_block_that_returns_of_any_size) {
    void* const small = memory->allocate(k_48, nullptr);
    void* const exact = memory->allocate({k_exact, k_exact_bytes, 16}, nullptr);
    {
        std::scoped_lock const lock(memory->caches());
        EXPECT_TRUE(memory->close());
    }
    EXPECT_FALSE(memory->drop_references()) << "blocks are in use";
    EXPECT_FALSE(memory->deallocate(k_exact, nullptr, exact));
    EXPECT_TRUE(memory->deallocate(k_48, nullptr, small));
}

TEST_F(pool_memory_test, has_a_slab_in_reserve_for_each_of_the_two_classes) {
    std::size_t const count =
        2 * (k_slab_bytes / k_geometry[k_1500].block_bytes);  // two slabs, if they are of one class
    ASSERT_TRUE(memory->reserve(k_48, k_1500, count));
    failing.fail_always(true);
    void* const small = take(0, k_48);
    std::vector<void*> all;
    while (all.size() < count - 1)
        all.push_back(take(0, k_1500));
    give(0, k_48, small);
    give_all(0, k_1500, all);
}

// Blocks beyond the largest size class: an address of their own at any alignment, also when they come from a reservation
// that was made for another; and the one that each thread keeps.

// A thread keeps one, which serves the next alignment, too.
// The first slabs of a class are shorter than usual: what a pool finds free must be what the class takes, or it looks for ever.
TEST(small_blocks, of_each_class_are_found_in_chunks_of_any_length) {
    for (std::size_t most = 2 * k_granule_bytes; most <= 2 * k_mib;
         most += most < k_mib / 4 ? k_granule_bytes : most)
        for (class_index c = 0; c < k_first_large; ++c) {
            test::counting_upstream memory;
            test::frugal_upstream pieces(memory, most);
            pooled::pool pool{{.upstream = &pieces}};
            void* const first = pool.allocate(16, 8);  // the rest of its chunk may be shorter than a slab
            std::size_t const bytes = k_geometry[c].block_bytes;
            std::size_t const count = std::max<std::size_t>(k_mib / 4 / bytes, 4);
            std::vector<void*> blocks;
            for (int turn = 0; turn < 2; ++turn) {
                for (std::size_t i = 0; i < count; ++i)
                    blocks.push_back(pool.allocate(bytes, k_geometry[c].align));
                for (void* const block : std::exchange(blocks, {}))
                    pool.deallocate(block, bytes, k_geometry[c].align);
            }
            pool.deallocate(first, 16, 8);
            EXPECT_LE(memory.bytes(), 2 * k_mib) << bytes;
            EXPECT_TRUE(test::is_valid(pool));
        }
}

TEST(large_blocks, and_those_of_zero_bytes_have_an_address_of_their_own_at_any_alignment) {
    pooled::pool pool;
    for (std::size_t const bytes : {0U, 100'000U})
        for (std::size_t align = 1; align <= k_mib; align *= 2) {
            void* const p = pool.allocate(bytes, align);
            EXPECT_TRUE(pool.owns(p)) << align;
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
            pool.deallocate(p, bytes, align);
        }
    EXPECT_EQ(pool.stats().large_in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(large_blocks, from_a_reservation_at_another_alignment_are_aligned_and_not_too_short) {
    for (bool const is_stricter : {false, true}) {
        pooled::pool pool;
        pool.reserve_bytes(1, is_stricter ? 98'000 : 80'000, is_stricter ? 16 : 16384);
        std::size_t const bytes = is_stricter ? 80'000 : 98'000;
        std::size_t const align = is_stricter ? 16384 : 16;
        auto* const p = static_cast<std::byte*>(pool.allocate(bytes, align));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
        EXPECT_TRUE(pool.owns(p + bytes - 1)) << "the block reaches beyond its region";
        pool.deallocate(p, bytes, align);
    }
}

TEST(large_blocks, that_were_reserved_stay_reserved_when_they_come_back) {
    pooled::pool pool;
    pool.reserve_bytes(2, 100'000);
    auto const calls = pool.stats().upstream_calls;
    for (int i = 0; i < 3; ++i)
        test::held_blocks(pool, 100'000).take(2);
    EXPECT_EQ(pool.stats().upstream_calls, calls);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
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

TEST(large_blocks, that_a_thread_keeps_of_a_size_up_to_272_kib_are_512_kib_or_two_and_the_one_freed_last) {
    pooled::pool pool;
    for (class_index c = k_first_large; c < k_inlined_classes; ++c) {
        test::held_blocks(pool, k_geometry[c].block_bytes - k_guard_bytes).take(64);
        pooled::size_class_stats const one = pool.stats().classes[c];
        EXPECT_EQ(one.in_use, 0U);
        EXPECT_GE(one.cached, 2U) << one.block_bytes;
        EXPECT_LE((one.cached - 1) * one.block_bytes, std::max<std::size_t>(k_mib / 2, 2 * one.block_bytes));
    }
}

TEST(large_blocks, that_another_thread_keeps_are_used_before_upstream_is_asked) {
    pooled::pool pool;
    test::sleeper other;
    other.run([&] { pool.deallocate(pool.allocate(100'000), 100'000); });
    std::uint64_t const calls = pool.stats().upstream_calls;
    void* const p = pool.allocate(100'000);
    EXPECT_EQ(pool.stats().upstream_calls, calls);
    pool.deallocate(p, 100'000);
}

// Two threads that have just enough otherwise stop each other all the time.
TEST(large_blocks, that_another_thread_keeps_are_left_there_if_they_are_few) {
    constexpr std::size_t k_bytes = std::size_t{12} << 20;
    auto const calls = [](std::size_t in_use, std::size_t reserved) {
        pooled::pool pool;
        if (reserved != 0) pool.reserve_bytes(reserved, k_bytes);
        test::held_blocks first(pool, k_bytes);
        first.take(in_use);
        test::sleeper other;
        other.run([&] { pool.deallocate(pool.allocate(k_bytes), k_bytes); });
        std::uint64_t const before = pool.stats().upstream_calls;
        test::held_blocks(pool, k_bytes).take(1);
        return pool.stats().upstream_calls - before;
    };
    EXPECT_EQ(calls(3, 0), 0U);
    EXPECT_EQ(calls(4, 0), 1U);
    EXPECT_EQ(calls(4, 5), 0U);
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
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    test::held_blocks(pool, 1500).take(100'000);
    std::size_t const before = pool.stats().upstream_bytes;
    ASSERT_GT(before, 128U << 20);
    for (int i = 0; i < 4; ++i)
        test::held_blocks(pool, 3'200'000).take(2);  // one is cached
    EXPECT_GE(pool.stats().upstream_bytes, before);
    for (int i = 0; i < 40; ++i) {
        test::held_blocks blocks(pool, 3'200'000);
        blocks.take(2);
        std::thread([&] { blocks.give_back(); }).join();
    }
    EXPECT_GE(pool.stats().upstream_bytes, before) << "freed by another thread";
}

// What was in use when a thread ended is what the heap may keep: at most half of the most that ever was, in whole chunks.
TEST(large_blocks, that_many_threads_keep_stay_within_the_heaps_bound_when_these_end) {
    constexpr std::size_t k_threads = 64;
    constexpr std::size_t k_bytes = std::size_t{12} << 20;
    pooled::pool pool;
    test::starting_line all_kept(k_threads);
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
    test::held_blocks(pool, 200'000).take(stats.upstream_bytes / 10 * 9 / 200'000);
    EXPECT_EQ(pool.stats().upstream_bytes, stats.upstream_bytes) << "it serves any size";
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST(large_blocks, that_threads_keep_are_trimmed) {
    pooled::pool pool;
    test::sleeper other;
    other.run([&] { pool.deallocate(pool.allocate(100'000), 100'000); });
    pool.deallocate(pool.allocate(200'000), 200'000);
    EXPECT_GE(pool.trim(), 300'000U);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST(large_blocks, that_are_reserved_are_found_by_every_thread) {
    pooled::pool pool;
    pool.reserve_bytes(1, 100'000);
    test::sleeper other;
    other.run([&] { pool.deallocate(pool.allocate(100'000), 100'000); });
    std::uint64_t const calls = pool.stats().upstream_calls;
    pool.deallocate(pool.allocate(100'000), 100'000);
    EXPECT_EQ(pool.stats().upstream_calls, calls);
}

TEST(large_blocks, that_a_thread_keeps_do_not_hold_a_closed_pool) {
    auto pool = std::make_unique<pooled::pool>();
    void* const out = pool->allocate(100'000);
    std::pmr::memory_resource* const resource = pool->resource();
    test::sleeper other;
    other.run([&] { pool->deallocate(pool->allocate(100'000), 100'000); });
    pool.reset();
    resource->deallocate(out, 100'000);
}

// After reserve, upstream is not asked again. (behaviour/zero_malloc.cpp counts mallocs and system calls.)

struct empty {};
struct empty_final final {};
struct word {
    std::uint64_t value = 1;
};
struct packet {
    char bytes[1500];
};
struct big {
    char bytes[30'000];
};
struct alignas(64) line {
    char bytes[64];
};
struct alignas(2048) page_half {
    char byte;
};
struct shares_itself : std::enable_shared_from_this<shares_itself> {
    int value = 0;
};
struct polymorphic {
    virtual ~polymorphic() = default;
};

template <class Pool>
class reserved : public testing::Test {
protected:
    test::counting_upstream upstream;
    Pool pool{{.upstream = &upstream}};

    // Makes `count` objects after a reserve for them, drops them, makes them again.
    template <class T>
    void expect_no_call_for(std::size_t count) {
        pool.template reserve<T>(count);
        std::size_t const calls = upstream.allocations();
        std::vector<std::shared_ptr<T>> all;
        for (int round = 0; round < 2; ++round) {
            for (std::size_t i = 0; i < count; ++i)
                all.push_back(pool.template make_shared<T>());
            all.clear();
        }
        EXPECT_EQ(upstream.allocations(), calls) << sizeof(T) << " bytes at " << alignof(T);
    }
};
TYPED_TEST_SUITE(reserved, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(reserved, memory_is_enough_for_any_kind_of_object) {
    this->template expect_no_call_for<char>(10'000);
    this->template expect_no_call_for<empty>(10'000);
    this->template expect_no_call_for<empty_final>(10'000);
    this->template expect_no_call_for<word>(10'000);
    this->template expect_no_call_for<word const>(10'000);
    this->template expect_no_call_for<std::string>(10'000);
    this->template expect_no_call_for<shares_itself>(10'000);
    this->template expect_no_call_for<polymorphic>(10'000);
    this->template expect_no_call_for<line>(10'000);
    this->template expect_no_call_for<packet>(2'000);
    this->template expect_no_call_for<page_half>(2'000);
    this->template expect_no_call_for<big>(100);
}

TYPED_TEST(reserved, memory_is_exact_for_one_object_and_none) {
    this->pool.template reserve<word>(0);
    EXPECT_EQ(this->upstream.allocations(), 0U);
    this->template expect_no_call_for<word>(1);
}

TYPED_TEST(reserved, memory_counts_what_is_free_already) {
    this->pool.template reserve<word>(10'000);
    std::size_t const calls = this->upstream.allocations();
    this->pool.template reserve<word>(10'000);
    this->pool.template reserve<word>(5'000);
    EXPECT_EQ(this->upstream.allocations(), calls);
}

TYPED_TEST(reserved, memory_comes_on_top_of_what_is_in_use) {
    std::vector<std::shared_ptr<word>> all;
    for (int i = 0; i < 5000; ++i)
        all.push_back(this->pool.template make_shared<word>());
    this->pool.template reserve<word>(10'000);
    std::size_t const calls = this->upstream.allocations();
    for (int i = 0; i < 10'000; ++i)
        all.push_back(this->pool.template make_shared<word>());
    EXPECT_EQ(this->upstream.allocations(), calls);
}

TYPED_TEST(reserved, blocks_are_enough_at_their_alignment) {
    this->pool.reserve_bytes(1000, 100, 256);
    std::size_t const calls = this->upstream.allocations();
    test::held_blocks(this->pool, 100, 256).take(1000);
    EXPECT_EQ(this->upstream.allocations(), calls);
}

// As many of make_shared's blocks fill a slab at least: word and control block are 24, 32 or 64 bytes.
std::size_t bytes_of_shared_word() {
    return std::bit_ceil(pooled::detail::standard_control_block::k_bytes<word>);
}

TYPED_TEST(reserved, memory_fits_a_bound_exactly) {
    std::size_t const blocks = (std::size_t{1} << 20) / bytes_of_shared_word();
    TypeParam tight{{.max_bytes = std::size_t{1} << 20}};
    tight.template reserve<word>(blocks);
    std::vector<std::shared_ptr<word>> all;
    for (std::size_t i = 0; i < blocks; ++i)
        all.push_back(tight.template make_shared<word>());
    EXPECT_TRUE(test::is_valid(tight));
}

TEST(reserved_pool, finds_free_blocks_in_a_sleeping_threads_cache_before_it_asks_upstream) {
    test::counting_upstream upstream;
    pooled::pool pool{{.chunk_bytes = 1, .upstream = &upstream}};
    pool.reserve<word>(10'000);
    std::size_t const calls = upstream.allocations();
    // To the last block of the last slab.
    std::size_t const block_bytes = pooled::detail::standard_control_block::k_bytes<word>;
    std::size_t const count =
        upstream.bytes() / pooled::detail::k_slab_bytes * (pooled::detail::k_slab_bytes / block_bytes);
    test::sleeper other;
    other.run([&] { test::held_blocks(pool, block_bytes, 8).take(count); });
    EXPECT_GT(pool.stats().cached, 0U) << "the other thread has cached nothing: the test shows nothing";
    test::held_blocks(pool, block_bytes, 8).take(count);
    EXPECT_EQ(upstream.allocations(), calls);
}

TEST(reserved_pool, counts_a_slab_once_that_becomes_free_while_upstream_is_asked) {
    std::function<void()> meanwhile = [] {};
    test::hooked_upstream upstream(*std::pmr::new_delete_resource(),
                                   [&](std::size_t) { std::exchange(meanwhile, [] {})(); });
    pooled::pool pool{{.chunk_bytes = 1, .upstream = &upstream}};
    test::held_blocks first(pool, 64);
    test::held_blocks others(pool, 64);
    std::thread([&] { first.take(1); }).join();
    std::size_t const in_slab = pool.stats().free + 1;
    meanwhile = [&] {
        std::thread([&] { first.give_back(); }).join();
        std::thread([&] { others.take(in_slab); }).join();
    };
    pool.reserve_bytes(2 * in_slab - 2, 64);
    std::uint64_t const calls = pool.stats().upstream_calls;
    test::held_blocks(pool, 64).take(2 * in_slab - 2);
    EXPECT_EQ(pool.stats().upstream_calls, calls);
}

TYPED_TEST(reserved, memory_of_an_absurd_count_is_refused_before_upstream_is_asked) {
    for (std::size_t const count : {~std::size_t{0}, ~std::size_t{0} / 2, ~std::size_t{0} / 24}) {
        EXPECT_THROW(this->pool.template reserve<word>(count), std::bad_alloc) << count;
        EXPECT_THROW(this->pool.reserve_bytes(count, 100'000), std::bad_alloc) << count;
    }
    EXPECT_EQ(this->upstream.allocations(), 0U);
}

TYPED_TEST(reserved, memory_is_given_back_when_upstream_fails_on_the_way) {
    for (std::size_t n = 1; n <= 5; ++n) {
        test::counting_upstream books;
        test::failing_upstream failing(books);  // one that fails once is asked for less
        failing.fail_from(n);
        TypeParam unlucky{{.chunk_bytes = 1, .upstream = &failing}};
        EXPECT_THROW(unlucky.template reserve<word>(100'000), test::injected_failure);
        EXPECT_EQ(books.bytes(), 0U) << n;
        EXPECT_TRUE(test::is_valid(unlucky));
        EXPECT_EQ(unlucky.stats().upstream_bytes, 0U);
    }
}

TYPED_TEST(reserved, memory_beyond_what_the_machine_has_is_refused_at_once) {
    TypeParam of_system{{.name = "of system"}};
    void* const kept = of_system.allocate(48);
    auto const before = of_system.stats();
    for (auto const& [count, bytes] : {std::pair{std::size_t{1} << 40, std::size_t{48}},
                                       {std::size_t{1} << 26, std::size_t{1} << 20},
                                       {std::size_t{1} << 30, std::size_t{100'000}}}) {
        try {
            of_system.reserve_bytes(count, bytes);
            ADD_FAILURE() << "reserved " << count << " * " << bytes;
        } catch (std::bad_alloc const& e) {
            EXPECT_NE(std::string(e.what()).find("cannot reserve"), std::string::npos) << e.what();
        }
    }
    EXPECT_THROW(of_system.template reserve<word>(std::size_t{1} << 42), std::bad_alloc);
    auto const after = of_system.stats();
    EXPECT_EQ(after.upstream_calls, before.upstream_calls);
    EXPECT_EQ(after.upstream_bytes, before.upstream_bytes);
    of_system.deallocate(kept, 48);
}

TYPED_TEST(reserved, memory_beyond_the_bound_is_refused_before_upstream_is_asked) {
    TypeParam tight{{.name = "tight", .max_bytes = std::size_t{1} << 30, .upstream = &this->upstream}};
    EXPECT_THROW(tight.template reserve<word>(std::size_t{1} << 26), pooled::exhausted);
    EXPECT_THROW(tight.reserve_bytes(std::size_t{1} << 20, 2000), pooled::exhausted);
    EXPECT_THROW(tight.reserve_bytes(20'000, 100'000), pooled::exhausted);
    EXPECT_EQ(this->upstream.allocations(), 0U);
}

TYPED_TEST(reserved, memory_that_was_refused_leaves_slabs_in_use_to_other_sizes) {
    TypeParam tight{{.name = "tight", .max_bytes = std::size_t{1} << 20}};
    test::held_blocks blocks(tight, 64);
    blocks.take(10);
    EXPECT_THROW(tight.reserve_bytes((std::size_t{1} << 20) / 64 - 5, 64), pooled::exhausted);
    blocks.give_back();
    void* const large = tight.try_allocate(std::size_t{1} << 20);
    EXPECT_NE(large, nullptr) << "a slab is still reserved";
    tight.deallocate(large, std::size_t{1} << 20);
}

// One of its blocks has the largest class, the other one is a large block.
TYPED_TEST(reserved, memory_for_two_kinds_of_blocks_is_reserved_for_both_or_for_none) {
    struct at_the_border {
        char bytes[32'756];
    };
    this->template expect_no_call_for<at_the_border>(5);
    for (std::size_t n = 1; n <= 10; ++n) {
        test::counting_upstream books;
        test::failing_upstream failing(books, n);
        TypeParam unlucky{{.chunk_bytes = 1, .upstream = &failing}};
        EXPECT_THROW(unlucky.template reserve<at_the_border>(10), test::injected_failure) << n;
        EXPECT_EQ(books.bytes(), 0U) << n;
    }
}

TEST(reserved_large_blocks, stay_reserved_when_other_sizes_exhaust_the_pool) {
    pooled::pool pool{{.max_bytes = std::size_t{4} << 20}};
    pool.reserve_bytes(4, 100'000);
    test::held_blocks others(pool, 48);
    others.take_all();
    EXPECT_EQ(pool.try_allocate(300'000), nullptr);
    EXPECT_EQ(test::held_blocks(pool, 100'000).take_all(), 4U);
}

// When a pool looks for memory that it can return.

using pooled::detail::release_clock;
using std::chrono::milliseconds;

bool is_due_within(release_clock& clock, std::chrono::seconds deadline) {
    auto const end = std::chrono::steady_clock::now() + deadline;
    while (std::chrono::steady_clock::now() < end) {
        if (clock.is_due(0)) return true;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
}

TEST(release_clock, is_due_when_a_period_that_began_with_a_call_is_over) {
    release_clock clock(milliseconds(20));
    EXPECT_FALSE(clock.is_due(0));
    EXPECT_TRUE(is_due_within(clock, std::chrono::seconds(20)));
    EXPECT_FALSE(clock.is_due(0)) << "once in a period";
}

TEST(release_clock, reads_the_time_at_every_32nd_call) {
    release_clock clock(milliseconds(1));
    EXPECT_FALSE(clock.is_due(0));
    std::this_thread::sleep_for(milliseconds(30));
    for (std::uint32_t calls = 1; calls < 32; ++calls)
        EXPECT_FALSE(clock.is_due(calls));
    EXPECT_TRUE(clock.is_due(32));
}

TEST(release_clock, without_a_period_is_never_due) {
    for (milliseconds const period : {milliseconds(0), milliseconds(-5)}) {
        release_clock clock(period);
        EXPECT_FALSE(clock.is_due(0));
        std::this_thread::sleep_for(milliseconds(10));
        EXPECT_FALSE(clock.is_due(32));
    }
}

TEST(release_clock, with_a_period_of_more_nanoseconds_than_64_bits_hold_is_not_due) {
    for (milliseconds const period :
         {milliseconds::max(), milliseconds(18'446'744'073'710)}) {  // 2^64 ns and 0.4 ms
        release_clock clock(period);
        EXPECT_FALSE(clock.is_due(0));
        std::this_thread::sleep_for(milliseconds(10));
        EXPECT_FALSE(clock.is_due(32));
    }
}

}  // namespace
