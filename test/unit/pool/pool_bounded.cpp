// SPDX-License-Identifier: BSL-1.0

// Pools with max_bytes: the bound is hard, and nothing is stranded under it.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t k_kib = std::size_t{1} << 10;
constexpr std::size_t k_mib = std::size_t{1} << 20;

// All the blocks of a size that there are.
template <class Pool>
struct all_of : test::held_blocks<Pool> {
    all_of(Pool& pool, std::size_t bytes) : test::held_blocks<Pool>(pool, bytes, 8) { this->take_all(); }
};

template <class Pool>
class bounded : public testing::Test {
protected:
    test::counting_upstream upstream;
};
TYPED_TEST_SUITE(bounded, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(bounded, pool_never_takes_more_than_its_bound) {
    for (std::size_t const max :
         std::initializer_list<std::size_t>{1, 15, 16, 100, 4095, 4096, 10'000, 16 * k_kib, 100'000, k_mib,
                                            k_mib + 1, 4 * k_mib - 1, 4 * k_mib, 5'000'000})
        for (std::size_t const bytes : {16UL, 48UL, 1500UL, 20'000UL, 32'768UL, 50'000UL}) {
            test::counting_upstream books;
            TypeParam pool{{.max_bytes = max, .upstream = &books}};
            all_of blocks(pool, bytes);
            EXPECT_LE(books.most_bytes(), max) << bytes;
            EXPECT_LE(blocks.size() * bytes, max);
            EXPECT_TRUE(test::is_valid(pool));
        }
}

TYPED_TEST(bounded, pool_makes_use_of_nearly_all_of_its_bound) {
    for (std::size_t const max : {64 * k_kib, k_mib, 8 * k_mib})
        for (std::size_t const bytes : {16UL, 48UL, 1500UL}) {
            TypeParam pool{{.max_bytes = max}};
            EXPECT_GE(all_of(pool, bytes).size() * bytes, max / 100 * 85) << bytes << " of " << max;
        }
}

TYPED_TEST(bounded, pool_of_bytes_for_so_many_blocks_has_them) {
    static_assert(TypeParam::bytes_for(1, 48) == 16 * k_kib);
    for (std::size_t const bytes :
         {1UL, 48UL, 865UL, 1500UL, 9502UL, 27'250UL, 102'526UL, 501'250UL, 20UL << 20})
        for (std::size_t const count : {1UL, 17UL, 50UL, 1500UL}) {
            if (bytes * count > 64 * k_mib) continue;
            std::size_t const bound = TypeParam::bytes_for(count, bytes);
            TypeParam pool{{.max_bytes = bound}};
            EXPECT_GE(all_of(pool, bytes).size(), count) << bytes;
            EXPECT_LE(bound, 2 * (count + 8) * bytes + 16 * k_kib * 16) << count << " of " << bytes;
        }
    std::size_t const most = ~std::size_t{0};
    EXPECT_EQ(TypeParam::bytes_for(most, 100), most) << "more than there are addresses";
    EXPECT_EQ(TypeParam::bytes_for(2, most), most);
}

TYPED_TEST(bounded, pool_gives_as_much_the_second_time) {
    TypeParam pool{{.max_bytes = k_mib}};
    all_of blocks(pool, 48);
    std::size_t const count = blocks.size();
    for (int i = 0; i < 3; ++i) {
        blocks.give_back();
        EXPECT_EQ(blocks.take_all(), count);
    }
}

TYPED_TEST(bounded, pool_says_what_was_asked_of_whom_when_exhausted) {
    TypeParam pool{{.name = "packets", .max_bytes = 64 * k_kib}};
    all_of blocks(pool, 48);
    try {
        static_cast<void>(pool.allocate(48));
        FAIL() << "nothing was thrown";
    } catch (pooled::exhausted const& e) {
        std::string const what = e.what();
        for (char const* part : {"'packets'", "48 bytes", "max_bytes = 65536"})
            EXPECT_NE(what.find(part), std::string::npos) << part << " is missing in: " << what;
    }
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(bounded, pool_serves_again_as_soon_as_one_block_came_back) {
    TypeParam pool{{.max_bytes = 64 * k_kib}};
    all_of blocks(pool, 48);
    for (int i = 0; i < 100; ++i) {
        pool.deallocate(blocks.back(), 48, 8);
        blocks.back() = pool.try_allocate(48, 8);
        ASSERT_NE(blocks.back(), nullptr);
        ASSERT_EQ(pool.try_allocate(48, 8), nullptr);
    }
}

TYPED_TEST(bounded, pool_moves_memory_from_one_size_to_another) {
    TypeParam pool{{.max_bytes = k_mib, .upstream = &this->upstream}};
    for (std::size_t const bytes : {16UL, 1500UL, 48UL, 20'000UL, 128UL, 32'768UL, 300'000UL, 24UL}) {
        all_of blocks(pool, bytes);
        EXPECT_GE(blocks.size() * bytes, k_mib / 2) << bytes;
        EXPECT_TRUE(test::is_valid(pool));
    }
    EXPECT_LE(this->upstream.most_bytes(), k_mib);
}

TYPED_TEST(bounded, pool_counts_large_blocks_against_the_bound) {
    TypeParam pool{{.max_bytes = k_mib, .upstream = &this->upstream}};
    void* const large = pool.allocate(600 * k_kib);
    EXPECT_THROW(static_cast<void>(pool.allocate(600 * k_kib)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(pool.allocate(2 * k_mib)), pooled::exhausted);
    EXPECT_EQ(pool.try_allocate(600 * k_kib), nullptr);
    pool.deallocate(large, 600 * k_kib);
    void* const again = pool.allocate(600 * k_kib);
    pool.deallocate(again, 600 * k_kib);
    EXPECT_LE(this->upstream.most_bytes(), k_mib);
    pool.trim();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(bounded, pool_takes_back_the_large_blocks_that_it_keeps) {
    TypeParam pool{{.max_bytes = k_mib, .upstream = &this->upstream}};
    pool.deallocate(pool.allocate(900 * k_kib), 900 * k_kib);
    void* const other = pool.try_allocate(300 * k_kib);
    EXPECT_NE(other, nullptr) << "a kept block of 900 KiB is too large to serve it";
    EXPECT_GE(all_of(pool, 48).size() * 48, 600 * k_kib);
    pool.deallocate(other, 300 * k_kib);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(bounded, pool_refuses_a_large_block_and_serves_a_shorter_one) {
    TypeParam pool{{.max_bytes = k_mib, .chunk_bytes = k_mib}};
    void* const first = pool.allocate(300 * k_kib);
    EXPECT_EQ(pool.try_allocate(900 * k_kib), nullptr);
    void* const shorter = pool.try_allocate(600 * k_kib);
    EXPECT_NE(shorter, nullptr);
    pool.deallocate(shorter, 600 * k_kib);
    pool.deallocate(first, 300 * k_kib);
}

// As at a bound, a slab has what is left.
TYPED_TEST(bounded, pool_uses_what_is_left_of_its_chunk_when_upstream_gives_no_more) {
    test::hooked_upstream once(this->upstream, [is_first = true](std::size_t) mutable {
        if (!std::exchange(is_first, false)) throw std::bad_alloc();
    });
    TypeParam pool{{.chunk_bytes = k_mib, .upstream = &once}};
    test::held_blocks blocks(pool, 48 * k_kib, 8);
    blocks.take(k_mib / (48 * k_kib));
    void* const last = pool.try_allocate(10'000);
    EXPECT_NE(last, nullptr) << "16 KiB are free";
    pool.deallocate(last, 10'000);
}

// What is returned to make room for the reservation empties slabs whose free blocks were counted before.
TYPED_TEST(bounded, pool_has_what_it_reserved_though_the_threads_cache_had_the_last_blocks_of_its_slabs) {
    TypeParam pool{{.max_bytes = k_mib, .upstream = &this->upstream}};
    std::vector<void*> blocks(64);
    for (void*& p : blocks)
        p = pool.allocate(1000);
    void* const large = pool.allocate(256 * k_kib);
    auto const give_back = [&](bool is_eighth) {
        for (std::size_t i = 0; i < blocks.size(); ++i)
            if ((i % 8 == 0) == is_eighth) pool.deallocate(blocks[i], 1000);
    };
    give_back(false);
    pool.trim();
    give_back(true);
    pool.deallocate(large, 256 * k_kib);
    pool.reserve_bytes(900, 1000);
    std::size_t const calls = this->upstream.allocations();
    blocks.resize(900);
    for (void*& p : blocks)
        p = pool.allocate(1000);
    EXPECT_EQ(this->upstream.allocations(), calls);
    give_back(false);
    give_back(true);
}

TEST(bounded_pool, finds_blocks_that_a_sleeping_thread_has_cached) {
    pooled::pool unused{{.max_bytes = k_mib}};
    all_of of_unused(unused, 48);
    pooled::pool pool{{.max_bytes = k_mib}};
    test::sleeper other;
    other.run([&] {
        test::held_blocks(pool, 48, 8).take(of_unused.size());  // the pool is full, and has not refused any
    });
    std::size_t const there = pool.stats().cached;
    EXPECT_GT(there, 0U) << "the other thread has cached nothing: the test shows nothing";
    all_of mine(pool, 48);
    EXPECT_EQ(mine.size(), of_unused.size());
    EXPECT_EQ(pool.stats().cached, 0U);
    EXPECT_TRUE(test::is_valid(pool));
    mine.give_back();
    other.run([&] { EXPECT_NE(pool.try_allocate(48, 8), nullptr); });
}

TEST(bounded_pool, finds_one_block_that_a_sleeping_thread_has_freed) {
    pooled::pool pool{{.max_bytes = 64 * k_kib}};
    all_of mine(pool, 48);
    test::sleeper other;
    for (int i = 0; i < 20; ++i) {
        other.run([&] {
            pool.deallocate(mine.back(), 48, 8);
            mine.pop_back();
        });
        void* const found = pool.try_allocate(48, 8);
        ASSERT_NE(found, nullptr);
        mine.push_back(found);
    }
}

TEST(bounded_pool, finds_memory_of_another_size_that_a_sleeping_thread_has_cached) {
    pooled::pool pool{{.max_bytes = 256 * k_kib}};
    test::sleeper other;
    other.run([&] { all_of(pool, 48); });
    void* const large = pool.try_allocate(200 * k_kib);
    EXPECT_NE(large, nullptr);
    pool.deallocate(large, 200 * k_kib);
    other.run([&] { all_of(pool, 48); });
    EXPECT_GE(all_of(pool, 1500).size(), 100U);
}

TEST(bounded_pool, finds_the_fresh_blocks_that_a_sleeping_thread_has_not_used_yet) {
    pooled::pool pool{{.max_bytes = 16 * k_kib}};
    test::sleeper other;
    void* theirs = nullptr;
    other.run([&] { theirs = pool.allocate(48, 8); });
    EXPECT_EQ(all_of(pool, 48).size() + 1, 16 * k_kib / 48);
    pool.deallocate(theirs, 48, 8);
}

TEST(pool, gives_a_sleeping_threads_cache_back_when_trimmed) {
    test::counting_upstream upstream;
    pooled::pool pool{{.upstream = &upstream}};
    test::sleeper other;
    other.run([&] { test::held_blocks(pool, 48, 8).take(1000); });
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_EQ(upstream.bytes(), 0U);
    other.run([&] { pool.deallocate(pool.allocate(48, 8), 48, 8); });
    EXPECT_TRUE(test::is_valid(pool));
}

// What a hook of the tests works on.
struct hooked {
    int calls = 0;
    std::size_t bytes = 0;
    pooled::pool* pool = nullptr;
    bool allocates = false;
    bool got_one = false;

    pooled::exhaustion_hook hook() {
        return {.call =
                    [](std::size_t asked, void* context) noexcept {
                        auto& self = *static_cast<hooked*>(context);
                        ++self.calls;
                        self.bytes = asked;
                        self.got_one = self.allocates && self.pool->try_allocate(asked) != nullptr;
                        static_cast<void>(self.pool->stats());
                    },
                .context = this};
    }
};

struct exhausted_pool : testing::Test {
    exhausted_pool() { h.calls = 0; }
    hooked h{.pool = &pool};
    pooled::pool pool{{.name = "small", .max_bytes = 65536, .on_exhausted = h.hook()}};
    all_of<pooled::pool> all{pool, 1000};
};

TEST_F(exhausted_pool, calls_its_hook_once_before_it_says_so) {
    EXPECT_EQ(pool.try_allocate(1000), nullptr);
    EXPECT_EQ(h.calls, 1);
    EXPECT_GE(h.bytes, 1000U);
    EXPECT_THROW(static_cast<void>(pool.allocate(1000)), pooled::exhausted);
    EXPECT_EQ(h.calls, 2);
    EXPECT_EQ(pool.try_allocate(40'000), nullptr);
    EXPECT_EQ(h.calls, 3);
    EXPECT_GE(h.bytes, 40'000U);
}

TEST_F(exhausted_pool, does_not_call_its_hook_for_what_the_hook_allocates) {
    h.allocates = true;
    EXPECT_EQ(pool.try_allocate(1000), nullptr);
    EXPECT_EQ(h.calls, 1);
    EXPECT_FALSE(h.got_one);
}

TEST(exhaustion_hook, is_called_when_upstream_throws_and_the_request_is_tried_again) {
    struct context {
        test::failing_upstream upstream{*std::pmr::new_delete_resource()};
        int calls = 0;
        bool mends = false;
    } c;
    pooled::pool pool{{.upstream = &c.upstream,
                       .on_exhausted = {.call =
                                            [](std::size_t, void* context_of) noexcept {
                                                auto& self = *static_cast<context*>(context_of);
                                                ++self.calls;
                                                if (self.mends) self.upstream.fail_always(false);
                                            },
                                        .context = &c}}};
    c.upstream.fail_always(true);
    EXPECT_THROW(static_cast<void>(pool.allocate(1000)), test::injected_failure);
    EXPECT_EQ(c.calls, 1);
    c.mends = true;
    void* const p = pool.allocate(1000);
    EXPECT_NE(p, nullptr);
    EXPECT_EQ(c.calls, 2);
    pool.deallocate(p, 1000);
}

TEST(exhaustion_hook, runs_outside_the_locks_of_the_library) {
    // Another thread uses the pool, and what takes its locks, while the hook runs.
    struct context {
        pooled::pool* pool = nullptr;
        void* block = nullptr;
    } other;
    pooled::pool pool{{.max_bytes = 65536,
                       .on_exhausted = {.call =
                                            [](std::size_t, void* c) noexcept {
                                                auto& o = *static_cast<context*>(c);
                                                std::thread([&o] {
                                                    if (o.block != nullptr) o.pool->deallocate(o.block, 1000);
                                                    o.block = nullptr;
                                                    o.pool->trim();
                                                }).join();
                                            },
                                        .context = &other}}};
    other.pool = &pool;
    test::held_blocks all(pool, 1000);
    all.take_all();
    other.block = all.back();
    all.back() = pool.try_allocate(1000);
    EXPECT_NE(all.back(), nullptr);
}

}  // namespace
