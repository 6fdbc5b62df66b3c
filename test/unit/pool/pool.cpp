// SPDX-License-Identifier: BSL-1.0

// A pool: raw blocks of any size and alignment without overlap, membership, trimming; then the default pool, options, its resource,
// what is left after failures, and what outlives it.

#include "pooled/pool.hpp"

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/pool_kinds.hpp"
#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using test::raw_block;

constexpr std::size_t k_mib = std::size_t{1} << 20;

bool is_aligned(void const* p, std::size_t align) { return reinterpret_cast<std::uintptr_t>(p) % align == 0; }

template <class Pool>
void deallocate_all(Pool& pool, std::vector<raw_block>& blocks) {
    for (raw_block const& b : blocks)
        pool.deallocate(b.p, b.bytes, b.align);
    blocks.clear();
}

template <class Pool>
class any_pool : public testing::Test {};
TYPED_TEST_SUITE(any_pool, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(any_pool, is_neither_copied_nor_moved) {
    static_assert(!std::is_copy_constructible_v<TypeParam> && !std::is_move_constructible_v<TypeParam>);
    static_assert(!std::is_copy_assignable_v<TypeParam> && !std::is_move_assignable_v<TypeParam>);
}

TYPED_TEST(any_pool, takes_no_memory_before_the_first_block) {
    test::counting_upstream upstream;
    TypeParam pool{{.upstream = &upstream}};
    EXPECT_EQ(upstream.allocations(), 0U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(any_pool, serves_every_size_at_every_alignment) {
    test::counting_upstream upstream;
    {
        TypeParam pool{{.upstream = &upstream}};
        std::vector<raw_block> blocks;
        for (std::size_t const bytes :
             std::initializer_list<std::size_t>{1, 7, 8, 16, 17, 100, 128, 129, 1024, 1500, 4096, 4097, 9000,
                                                32768, 32769, 65536, 300'000, 3 * k_mib + 5})
            for (std::size_t align = 1; align <= k_mib; align *= 2) {
                void* const p = pool.allocate(bytes, align);
                ASSERT_TRUE(is_aligned(p, align)) << bytes << " at " << align;
                if (bytes <= 65536) test::fill_pattern(p, bytes, blocks.size());
                blocks.push_back({p, bytes, align});
            }
        EXPECT_FALSE(test::overlap(blocks));
        for (std::size_t i = 0; i < blocks.size(); ++i)
            if (blocks[i].bytes <= 65536) {
                ASSERT_TRUE(test::has_pattern(blocks[i].p, blocks[i].bytes, i)) << i;
            }
        EXPECT_TRUE(test::is_valid(pool));
        deallocate_all(pool, blocks);
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(any_pool, serves_every_size_up_to_beyond_the_largest_class) {
    TypeParam pool;
    std::vector<raw_block> blocks;
    for (std::size_t bytes = 0; bytes < 34'000; bytes += bytes < 1100 ? 1 : 61) {
        void* const p = pool.allocate(bytes, 1);
        test::fill_pattern(p, bytes, bytes);
        blocks.push_back({p, bytes, 1});
    }
    EXPECT_FALSE(test::overlap(blocks));
    for (raw_block const& b : blocks)
        ASSERT_TRUE(test::has_pattern(b.p, b.bytes, b.bytes)) << b.bytes;
    deallocate_all(pool, blocks);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(any_pool, aligns_to_max_align_unless_told_otherwise) {
    TypeParam pool;
    for (std::size_t bytes = 0; bytes < 300; ++bytes) {
        void* const p = pool.allocate(bytes);
        ASSERT_TRUE(is_aligned(p, alignof(std::max_align_t))) << bytes;
        pool.deallocate(p, bytes);
    }
}

// Blocks of a power of two, or a small multiple of one, would otherwise begin in a few of the 64 sets of a processor's first cache.
TYPED_TEST(any_pool, spreads_the_first_lines_of_blocks_over_the_sets_of_a_cache) {
    if (test::k_sanitized) GTEST_SKIP() << "the blocks are malloc's";
    for (std::size_t const bytes : {512U, 1000U, 1024U, 1500U, 2048U, 3000U, 4000U}) {
        TypeParam pool;
        test::held_blocks blocks(pool, bytes);
        blocks.take(4000);
        std::set<std::uintptr_t> sets;
        for (void* const p : blocks)
            sets.insert(reinterpret_cast<std::uintptr_t>(p) / 64 % 64);
        EXPECT_EQ(sets.size(), 64U) << bytes;
    }
}

TYPED_TEST(any_pool, ignores_a_null_pointer) {
    TypeParam pool;
    pool.deallocate(nullptr, 64);
    pool.deallocate(nullptr, k_mib);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(any_pool, owns_its_blocks_to_their_last_byte) {
    TypeParam pool;
    for (std::size_t const bytes : std::initializer_list<std::size_t>{1, 48, 1500, 32768, 40'000, k_mib}) {
        auto* const p = static_cast<std::byte*>(pool.allocate(bytes));
        EXPECT_TRUE(pool.owns(p)) << bytes;
        EXPECT_TRUE(pool.owns(p + bytes - 1)) << bytes;
        pool.deallocate(p, bytes);
    }
}

TYPED_TEST(any_pool, does_not_own_what_is_foreign) {
    TypeParam pool;
    TypeParam other;
    void* const mine = pool.allocate(48);
    void* const theirs = other.allocate(48);
    void* const large = other.allocate(k_mib);
    auto const on_heap = std::make_unique<int>(1);
    int on_stack = 1;
    static int in_data = 1;
    void const* const addresses[] = {theirs,
                                     large,
                                     on_heap.get(),
                                     &on_stack,
                                     &in_data,
                                     nullptr,
                                     this,
                                     &pool,
                                     reinterpret_cast<void*>(~std::uintptr_t{0}),
                                     reinterpret_cast<void*>(std::uintptr_t{1} << 47),
                                     reinterpret_cast<void*>(std::uintptr_t{0xffff} << 48)};
    for (void const* const address : addresses)
        EXPECT_FALSE(pool.owns(address)) << address;
    pool.deallocate(mine, 48);
    other.deallocate(theirs, 48);
    other.deallocate(large, k_mib);
}

TYPED_TEST(any_pool, disowns_its_chunks_when_they_are_trimmed) {
    TypeParam pool;
    void* const large = pool.allocate(k_mib);
    pool.deallocate(large, k_mib);
    void* const small = pool.allocate(48);
    pool.deallocate(small, 48);
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_FALSE(pool.owns(small));
    EXPECT_FALSE(pool.owns(large));
}

TYPED_TEST(any_pool, gives_wholly_free_chunks_back_when_trimmed) {
    test::counting_upstream upstream;
    TypeParam pool{{.chunk_bytes = 1, .upstream = &upstream}};
    std::vector<raw_block> blocks;
    for (std::size_t i = 0; i < 20'000; ++i)
        blocks.push_back({pool.allocate(16 + i % 500, 8), 16 + i % 500, 8});
    std::size_t const most = upstream.bytes();
    EXPECT_EQ(pool.trim(), 0U) << "everything is in use";
    deallocate_all(pool, blocks);
    EXPECT_EQ(pool.trim(), most);
    EXPECT_EQ(upstream.bytes(), 0U);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(any_pool, keeps_the_chunks_that_a_block_is_in_when_trimmed) {
    test::counting_upstream upstream;
    TypeParam pool{{.chunk_bytes = 1, .upstream = &upstream}};
    test::held_blocks blocks(pool, 64, 8);
    blocks.take(10'000);
    void* const kept = std::exchange(blocks[5000], nullptr);
    test::fill_pattern(kept, 64, 1);
    blocks.give_back();
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_EQ(upstream.blocks(), 1U);
    EXPECT_TRUE(test::has_pattern(kept, 64, 1));
    EXPECT_TRUE(pool.owns(kept));
    pool.deallocate(kept, 64, 8);
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(any_pool, counts_what_a_trim_gives_back_once) {
    TypeParam pool;
    test::held_blocks blocks(pool, 1500);
    blocks.take(3000);
    for (std::size_t i = 0; i < blocks.size(); ++i)
        if (i % 100 != 0) pool.deallocate(std::exchange(blocks[i], nullptr), 1500);
    EXPECT_GT(pool.trim(), 3000U * 1000);
    blocks.give_back();
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_EQ(pool.trim(), 0U);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TYPED_TEST(any_pool, works_on_after_a_trim_at_any_moment) {
    TypeParam pool{{.chunk_bytes = 1}};
    std::vector<raw_block> blocks;
    std::mt19937_64 random(2);
    for (int i = 0; i < 30'000; ++i) {
        if (blocks.empty() || random() % 100 < (i / 3000 % 2 == 0 ? 70U : 20U)) {
            std::size_t const bytes = random() % 4 == 0 ? random() % 5000 : 16 + random() % 3 * 100;
            blocks.push_back({pool.allocate(bytes, 8), bytes, 8});
            test::fill_pattern(blocks.back().p, std::min<std::size_t>(bytes, 64), bytes);
        } else {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            raw_block const b = blocks.back();
            ASSERT_TRUE(test::has_pattern(b.p, std::min<std::size_t>(b.bytes, 64), b.bytes));
            pool.deallocate(b.p, b.bytes, b.align);
            blocks.pop_back();
        }
        if (i % 500 == 0) {
            pool.trim();
            ASSERT_TRUE(test::is_valid(pool));
        }
    }
    EXPECT_EQ(pool.stats().in_use, blocks.size());
    deallocate_all(pool, blocks);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TYPED_TEST(any_pool, refuses_sizes_that_overflow) {
    TypeParam pool;
    constexpr std::size_t max = ~std::size_t{0};
    for (std::size_t const bytes : {max, max - 1, max - 64, max / 2, max / 2 + 1})
        for (std::size_t const align :
             {std::size_t{1}, std::size_t{64}, std::size_t{1} << 40, std::size_t{1} << 63}) {
            EXPECT_THROW(static_cast<void>(pool.allocate(bytes, align)), std::bad_alloc)
                << bytes << " at " << align;
            EXPECT_EQ(pool.try_allocate(bytes, align), nullptr);
        }
    EXPECT_THROW(static_cast<void>(pool.allocate(1, std::size_t{1} << 63)), std::bad_alloc);
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TYPED_TEST(any_pool, uses_a_freed_block_again_without_asking_upstream) {
    test::counting_upstream upstream;
    TypeParam pool{{.upstream = &upstream}};
    for (int i = 0; i < 100'000; ++i)
        pool.deallocate(pool.allocate(48), 48);
    EXPECT_EQ(upstream.allocations(), 1U);
}

TYPED_TEST(any_pool, can_stand_on_another_pool) {
    test::counting_upstream upstream;
    {
        TypeParam below{{.name = "below", .upstream = &upstream}};
        TypeParam above{{.name = "above", .upstream = below.resource()}};
        std::vector<raw_block> blocks;
        for (std::size_t i = 0; i < 2000; ++i)
            blocks.push_back({above.allocate(i * 20, 8), i * 20, 8});
        EXPECT_FALSE(below.owns(blocks.back().p));
        EXPECT_FALSE(test::overlap(blocks));
        deallocate_all(above, blocks);
        above.trim();
        EXPECT_EQ(below.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(below));
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(any_pool, does_not_own_what_follows_its_memory) {
    // An upstream that returns one piece after the other: the bytes behind a piece belong to another owner.
    static std::byte room[17 * 16384];  // Windows' linker does not align by more than 8192
    auto* const buffer = room + (16384 - reinterpret_cast<std::uintptr_t>(room) % 16384) % 16384;
    std::pmr::monotonic_buffer_resource upstream(buffer, std::size_t{16} * 16384,
                                                 std::pmr::null_memory_resource());
    TypeParam pool{{.max_bytes = 100'000, .upstream = &upstream}};
    test::held_blocks blocks(pool, 48, 8);
    blocks.take_all();
    void* const behind_chunks = upstream.allocate(64, 8);
    EXPECT_FALSE(pool.owns(behind_chunks));
    blocks.give_back();
    pool.trim();
    void* const large = pool.allocate(40'000);
    void* const behind_large = upstream.allocate(64, 8);
    EXPECT_TRUE(pool.owns(large));
    EXPECT_FALSE(pool.owns(behind_large));
    pool.deallocate(large, 40'000);
}

// The process-wide pool. What it does at exit is under behaviour/.

std::shared_ptr<int> const g_made_before_main = pooled::make_shared<int>(41);

TEST(default_pool, works_before_main) {
    EXPECT_EQ(*g_made_before_main, 41);
    EXPECT_TRUE(pooled::default_pool().owns(g_made_before_main.get()));
}

TEST(default_pool, is_the_same_on_every_thread) {
    pooled::pool* other = nullptr;
    std::thread([&] { other = &pooled::default_pool(); }).join();
    EXPECT_EQ(other, &pooled::default_pool());
    EXPECT_EQ(pooled::default_pool().name(), "default");
}

TEST(default_pool, cannot_be_configured_once_an_object_was_made) {
    EXPECT_FALSE(pooled::configure_default_pool({.max_bytes = 1 << 20}));
    EXPECT_EQ(pooled::default_pool().stats().max_bytes, 0U);
}

TEST(default_pool, can_be_trimmed_and_asked_like_any_other) {
    pooled::pool& pool = pooled::default_pool();
    auto large = pooled::make_shared<char[]>(1'000'000);
    EXPECT_EQ(pool.stats().large_in_use, 1U);
    large.reset();
    EXPECT_EQ(pool.stats().large_in_use, 0U);
    pool.trim();
    EXPECT_TRUE(test::is_valid(pool));
    pool.reserve<int>(1000);
}

TEST(default_pool, frees_on_a_thread_that_never_allocated) {
    auto p = pooled::make_shared<int>(1);
    auto const before = pooled::default_pool().stats().in_use;
    std::thread([p = std::move(p)]() mutable { p.reset(); }).join();
    EXPECT_EQ(pooled::default_pool().stats().in_use, before - 1);
}

// The options that a pool accepts.

template <class Pool>
class options_of : public testing::Test {};
TYPED_TEST_SUITE(options_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(options_of, any_pool_are_an_aggregate_in_the_published_order) {
    static_assert(std::is_aggregate_v<pooled::pool_options>);
    test::counting_upstream upstream;
    TypeParam pool{{.name = "all",
                    .max_bytes = 1 << 20,
                    .chunk_bytes = 1 << 16,
                    .huge_pages = false,
                    .upstream = &upstream,
                    .teardown = pooled::teardown::immediate}};
    EXPECT_EQ(pool.name(), "all");
}

TYPED_TEST(options_of, any_pool_have_a_name_by_default) { EXPECT_EQ(TypeParam{}.name(), "pool"); }

TYPED_TEST(options_of, any_pool_need_the_name_only_for_the_call) {
    std::string name = "short-lived";
    TypeParam pool{{.name = name}};
    name.assign("overwritten!");
    EXPECT_EQ(pool.name(), "short-lived");
}

TYPED_TEST(options_of, chunk_bytes_are_what_upstream_is_asked_for_in_units_of_16_kib_and_a_slab_at_least) {
    for (std::size_t const chunk : {1UL, 65536UL, 65537UL, 1UL << 20}) {
        test::counting_upstream upstream;
        TypeParam pool{{.chunk_bytes = chunk, .upstream = &upstream}};
        void* const p = pool.allocate(48);
        EXPECT_EQ(upstream.bytes(), std::max<std::size_t>(65536, (chunk + 16383) / 16384 * 16384)) << chunk;
        pool.deallocate(p, 48);
    }
}

TYPED_TEST(options_of, chunk_bytes_may_be_over_the_bound) {
    test::counting_upstream upstream;
    TypeParam pool{{.max_bytes = 100'000, .chunk_bytes = std::size_t{1} << 30, .upstream = &upstream}};
    void* const p = pool.allocate(48);
    EXPECT_LE(upstream.bytes(), 100'000U);
    pool.deallocate(p, 48);
}

TYPED_TEST(options_of, chunk_bytes_that_make_no_sense_are_refused) {
    EXPECT_THROW((TypeParam{{.chunk_bytes = ~std::size_t{0}}}), std::invalid_argument);
}

TYPED_TEST(options_of, huge_pages_work_either_way) {
    for (bool const huge : {false, true}) {
        TypeParam pool{{.huge_pages = huge}};
        test::held_blocks blocks(pool, 32'768);
        blocks.take(300);
        for (void* const p : blocks)
            *static_cast<char*>(p) = 1;
        EXPECT_TRUE(test::is_valid(pool));
    }
}

// A pool as a std::pmr::memory_resource.

template <class Pool>
class resource_of : public testing::Test {};
TYPED_TEST_SUITE(resource_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(resource_of, a_pool_serves_any_size_and_alignment_from_the_pool) {
    TypeParam pool;
    for (std::size_t bytes = 1; bytes < 100'000; bytes = bytes * 2 + 1)
        for (std::size_t align = 1; align <= 65'536; align *= 4) {
            void* const p = pool.resource()->allocate(bytes, align);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
            EXPECT_TRUE(pool.owns(p));
            pool.resource()->deallocate(p, bytes, align);
        }
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(resource_of, a_pool_is_equal_to_itself_alone) {
    TypeParam a;
    TypeParam b;
    EXPECT_EQ(*a.resource(), *a.resource());
    EXPECT_NE(*a.resource(), *b.resource());
    EXPECT_NE(*a.resource(), *std::pmr::new_delete_resource());
}

TYPED_TEST(resource_of, a_pool_and_its_own_functions_free_each_others_blocks) {
    TypeParam pool;
    pool.deallocate(pool.resource()->allocate(100, 8), 100, 8);
    pool.resource()->deallocate(pool.allocate(100, 8), 100, 8);
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

// Whatever fails, the pool is as it was: an upstream that throws at its n-th call, for every n, and constructors that
// throw at each point.

template <class Pool>
class failure_in : public testing::Test {
protected:
    // Runs `scenario(pool, log)` with an upstream that fails at call 1, 2, 3 … until it does not fail any more.
    template <class Scenario>
    static void for_every_call(pooled::pool_options options, Scenario scenario) {
        std::size_t n = 1;
        for (bool has_failed = true; has_failed; ++n) {
            ASSERT_LT(n, 500U) << "the scenario never ends";
            test::counting_upstream books;
            test::life_log log;
            test::life_log::scope const scope(log);
            {
                test::failing_upstream upstream(books, n);
                options.upstream = &upstream;
                Pool pool{options};
                bool has_thrown = false;
                try {
                    scenario(pool);
                } catch (test::injected_failure const&) {
                    has_thrown = true;
                }
                has_failed = upstream.has_failed();
                // The pool may have found space elsewhere; another exception than upstream's would not be caught here.
                ASSERT_TRUE(has_failed || !has_thrown);
                EXPECT_TRUE(test::is_valid(pool)) << "after failure " << n;
                EXPECT_EQ(pool.stats().in_use, 0U) << "after failure " << n;
                EXPECT_EQ(pool.stats().upstream_bytes, books.bytes()) << "after failure " << n;
                EXPECT_EQ(log.alive(), 0) << "after failure " << n;
                if (has_thrown) {
                    EXPECT_NO_THROW(scenario(pool)) << "the pool must work on after failure " << n;
                }
                pool.trim();
                EXPECT_EQ(books.bytes(), 0U) << "after failure " << n;
            }
            EXPECT_EQ(books.blocks(), 0U);
        }
        EXPECT_GT(n, 2U) << "the scenario never called upstream";
    }
};
TYPED_TEST_SUITE(failure_in, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(failure_in, upstream_loses_no_raw_block) {
    this->for_every_call({.chunk_bytes = 1}, [](TypeParam& pool) {
        std::list<test::held_blocks<TypeParam>> all;
        for (std::size_t i = 0; i < 300; ++i)
            all.emplace_back(pool, i * i * 7 % 40'000).take(1);
    });
}

TYPED_TEST(failure_in, upstream_loses_nothing_of_a_mixed_program) {
    this->for_every_call({.chunk_bytes = 1}, [](TypeParam& pool) {
        using counted = test::counted<100>;
        using pair = std::pair<int const, counted>;
        std::vector<std::shared_ptr<counted>> shared;
        for (int i = 0; i < 1500; ++i)
            shared.push_back(pool.template make_shared<counted>());
        auto const array = pool.template make_shared<counted[]>(500);
        auto const unique = pool.template make_unique<counted>();
        auto const unique_array = pool.template make_unique<counted[]>(1000);
        auto const aligned = pool.template make_shared<test::counted<10, 1024>>();
        auto const large = pool.template make_shared<test::counted<100'000>>();
        pooled::pool_allocator<pair, TypeParam> const alloc(pool);
        std::map<int, counted, std::less<>, pooled::pool_allocator<pair, TypeParam>> map(alloc);
        for (int i = 0; i < 500; ++i)
            map.try_emplace(i);
        std::pmr::vector<std::pmr::string> strings(pool.resource());
        for (int i = 0; i < 200; ++i)
            strings.emplace_back(static_cast<std::size_t>(i * 3), 'x');
        std::list<counted, pooled::pool_allocator<counted, TypeParam>> list(alloc);
        for (int i = 0; i < 100; ++i)
            list.emplace_back();
    });
}

TYPED_TEST(failure_in, upstream_loses_nothing_in_a_bounded_pool) {
    this->for_every_call({.max_bytes = 1 << 20}, [](TypeParam& pool) {
        for (std::size_t const bytes : {48UL, 1500UL, 20'000UL, 300'000UL})
            test::held_blocks(pool, bytes).take(500'000 / bytes);
    });
}

TYPED_TEST(failure_in, upstream_is_passed_on_as_it_is_and_null_from_try_allocate) {
    test::counting_upstream books;
    test::failing_upstream upstream(books);
    TypeParam pool{{.upstream = &upstream}};
    upstream.fail_always(true);
    EXPECT_THROW(static_cast<void>(pool.allocate(48)), test::injected_failure);
    EXPECT_THROW(static_cast<void>(pool.allocate(1 << 20)), test::injected_failure);
    EXPECT_EQ(pool.try_allocate(48), nullptr);
    EXPECT_EQ(pool.try_allocate(1 << 20), nullptr);
    upstream.fail_always(false);
    void* const p = pool.allocate(48);
    upstream.fail_always(true);
    EXPECT_NO_THROW(pool.deallocate(p, 48));
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(failure_in, constructor_that_runs_the_same_pool_dry_is_not_taken_for_exhaustion) {
    struct child {
        char bytes[200];
    };
    struct parent {
        explicit parent(TypeParam& pool) : mine(pool.template make_shared<child>()) {}
        std::shared_ptr<child> mine;
    };
    TypeParam pool{{.max_bytes = 64 << 10}};
    // One of each while there is space: their slabs then have blocks for more parents, but there are no more children.
    auto const shared = pool.template make_shared<parent>(pool);
    auto const unique = pool.template make_unique<parent>(pool);
    std::vector<std::shared_ptr<child>> all;
    while (auto one = pool.template try_make_shared<child>())
        all.push_back(std::move(one));
    auto const before = pool.stats().in_use;
    EXPECT_THROW(static_cast<void>(pool.template try_make_shared<parent>(pool)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(pool.template try_make_unique<parent>(pool)), pooled::exhausted);
    EXPECT_EQ(pool.stats().in_use, before);
}

TEST(failure, of_upstream_is_survived_by_free_blocks_in_a_sleeping_thread) {
    test::counting_upstream books;
    test::failing_upstream upstream(books);
    pooled::pool pool{{.chunk_bytes = 1, .upstream = &upstream}};
    test::sleeper other;
    other.run([&] { test::held_blocks(pool, 1500).take(40); });
    upstream.fail_always(true);
    EXPECT_NO_THROW(pool.deallocate(pool.allocate(1500), 1500));
}

// A pool may be destroyed before its blocks: memory lives until the last one is returned, and is then released.

template <class Pool>
class destroyed : public testing::Test {
protected:
    test::counting_upstream upstream;
    std::optional<Pool> pool{std::in_place, pooled::pool_options{.upstream = &upstream}};
    test::life_log log;
};
TYPED_TEST_SUITE(destroyed, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(destroyed, pool_is_outlived_by_pmr_containers) {
    {
        std::pmr::map<int, std::pmr::string> map(this->pool->resource());
        for (int i = 0; i < 1000; ++i)
            map.emplace(i, std::string(static_cast<std::size_t>(i % 200), 'x'));
        this->pool.reset();
        EXPECT_EQ(map.at(199).size(), 199U);
        map.erase(7);
        EXPECT_GT(this->upstream.bytes(), 0U);
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_is_outlived_by_containers_with_its_allocator) {
    using alloc = pooled::pool_allocator<int, TypeParam>;
    {
        std::list<int, alloc> list{alloc(*this->pool)};
        std::vector<int, alloc> vector{alloc(*this->pool)};
        std::vector<int, alloc> const empty{alloc(*this->pool)};
        for (int i = 0; i < 50'000; ++i) {
            list.push_back(i);
            vector.push_back(i);
        }
        this->pool.reset();
        EXPECT_EQ(list.back(), 49'999);
        EXPECT_EQ(vector.back(), 49'999);
        list.pop_front();
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_may_be_destroyed_by_its_own_object) {
    struct owner {
        std::unique_ptr<TypeParam> pool;
    };
    auto own = std::make_unique<TypeParam>(pooled::pool_options{.upstream = &this->upstream});
    TypeParam& from = *own;
    auto p = from.template make_shared<owner>(std::move(own));
    p.reset();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_leaves_its_number_to_a_new_one_without_confusion) {
    for (int i = 0; i < 300; ++i) {
        TypeParam next{{.upstream = &this->upstream}};
        auto p = next.template make_shared<int>(i);
        EXPECT_TRUE(next.owns(p.get()));
        EXPECT_FALSE(this->pool->owns(p.get()));
        EXPECT_EQ(*p, i);
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_with_blocks_out_keeps_its_number_from_new_ones) {
    auto old = this->pool->template make_shared<int>(1);
    this->pool.reset();
    for (int i = 0; i < 100; ++i) {
        TypeParam next;
        auto p = next.template make_shared<int>(i);
        ASSERT_FALSE(next.owns(old.get()));
    }
    EXPECT_EQ(*old, 1);
    old.reset();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TEST(many_pools, live_side_by_side_and_keep_their_blocks_apart) {
    std::size_t const count = test::k_sanitized ? 1000 : 3000;
    test::counting_upstream upstream;
    std::vector<std::unique_ptr<pooled::pool>> pools;
    std::vector<std::shared_ptr<std::size_t>> objects;
    for (std::size_t i = 0; i < count; ++i) {
        pools.push_back(std::make_unique<pooled::pool>(
            pooled::pool_options{.max_bytes = 16 << 10, .upstream = &upstream}));
        objects.push_back(pools.back()->make_shared<std::size_t>(i));
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(*objects[i], i);
        ASSERT_TRUE(pools[i]->owns(objects[i].get()));
        ASSERT_FALSE(pools[(i + 1) % count]->owns(objects[i].get()));
        ASSERT_EQ(pools[i]->stats().in_use, 1U);
    }
    // Another thread, whose table of pools starts empty, uses them from the last to the first.
    std::thread([&] {
        for (std::size_t i = count; i-- != 0;) {
            objects[i].reset();
            ASSERT_EQ(*pools[i]->make_shared<std::size_t>(i), i);
        }
    }).join();
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(pools[i]->stats().in_use, 0U) << i;
    pools.clear();
    EXPECT_EQ(upstream.bytes(), 0U);
}

TEST(many_pools, die_in_any_order_and_their_numbers_are_used_again_by_every_thread) {
    test::sleeper other;
    std::vector<std::unique_ptr<pooled::pool>> pools(100);
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = static_cast<std::size_t>(round) % 3; i < pools.size(); i += 3)
            pools[i] = std::make_unique<pooled::pool>();
        auto const use = [&] {
            for (auto const& pool : pools) {
                if (pool == nullptr) continue;
                auto const p = pool->make_shared<int>(1);
                ASSERT_TRUE(pool->owns(p.get()));
            }
        };
        use();
        other.run(use);
        for (auto const& pool : pools) {
            if (pool == nullptr) continue;
            ASSERT_EQ(pool->stats().in_use, 0U);
            ASSERT_EQ(pool->stats().threads, 2U);
        }
    }
}

TEST(destroyed_pool, takes_blocks_home_from_any_thread_awake_asleep_or_ended) {
    test::counting_upstream upstream;
    std::optional<pooled::pool> pool(std::in_place, pooled::pool_options{.upstream = &upstream});
    test::sleeper asleep;
    test::sleeper other;
    std::vector<std::shared_ptr<int>> objects;
    asleep.run([&] {
        for (int i = 0; i < 1000; ++i)
            objects.push_back(pool->make_shared<int>(i));
    });
    std::thread([&] { objects.push_back(pool->make_shared<int>(1)); }).join();
    pool.reset();
    other.run([&] { objects.resize(500); });
    asleep.run([&] { objects.resize(100); });
    std::thread([&] { objects.resize(50); }).join();
    EXPECT_GT(upstream.bytes(), 0U);
    objects.clear();
    EXPECT_EQ(upstream.bytes(), 0U);
}

// Code without exceptions asks for this where upstream has no memory.
TEST(pool_without_a_bound, is_never_called_exhausted) {
    pooled::pool const unbounded;
    pooled::pool const bounded{{.max_bytes = 1 << 20}};
    auto const is_exhausted = [](pooled::pool const& one) {
        bool is = false;
        try {
            test::core_of(one).throw_exhausted(1000);
        } catch (std::bad_alloc const& error) {
            is = dynamic_cast<pooled::exhausted const*>(&error) != nullptr;
        }
        return is;
    };
    EXPECT_FALSE(is_exhausted(unbounded));
    EXPECT_TRUE(is_exhausted(bounded));
}

}  // namespace
