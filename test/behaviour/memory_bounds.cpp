// SPDX-License-Identifier: BSL-1.0
// How much memory a pool holds: phases of different sizes share it, free slabs serve any size, idle threads' blocks are used,
// and unused memory returns to upstream and to the system. And that the pool does not age.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/resident_pages.hpp"
#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <memory_resource>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t k_kib = std::size_t{1} << 10;
constexpr std::size_t k_mib = std::size_t{1} << 20;

// Of the checked build: what a block has for its object is that much less.
using pooled::detail::k_guard_bytes;
using test::resident_bytes;

// Sizes of sixteen classes, far apart.
std::vector<std::size_t> phase_sizes() {
    return {16, 24, 40, 64, 96, 128, 192, 256, 512, 768, 1024, 1536, 2048, 4096, 8192, 32'768};
}

class phases : public testing::TestWithParam<bool> {};

TEST_P(phases, of_sixteen_sizes_and_32_mib_each_hold_at_most_48_mib) {
    bool const is_shuffled = GetParam();
    pooled::pool pool;
    std::mt19937 random(1);
    for (std::size_t const bytes : phase_sizes()) {
        test::held_blocks blocks(pool, bytes - k_guard_bytes, 8);
        blocks.take(32 * k_mib / bytes);
        EXPECT_LE(pool.stats().upstream_bytes, 48 * k_mib) << bytes;
        if (is_shuffled) std::ranges::shuffle(blocks, random);
    }
    EXPECT_LE(pool.stats().upstream_bytes, 48 * k_mib);
    EXPECT_TRUE(test::is_valid(pool));
}
INSTANTIATE_TEST_SUITE_P(freed, phases, testing::Bool(), [](auto const& one) {
    return std::string(one.param ? "in_random_order" : "in_order");
});

// Blocks of over 32 KiB: what they leave free returns when it is more than what is in use, and than 64 MiB.
// The checked build fills each block, so there it is less and fewer sizes.
constexpr std::size_t k_left = 136 * k_mib;

TEST(large_blocks, of_which_some_were_taken_again_leave_no_more_at_their_end) {
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    test::held_blocks blocks(pool, 64 * k_kib);
    blocks.take(16'384);
    blocks.give_back(8'192);
    blocks.take(2'048);
    blocks.give_back(blocks.size());
    EXPECT_LE(pool.stats().upstream_bytes, k_left);
}

TEST(large_blocks, of_all_sizes_that_are_freed_in_random_order_leave_no_more) {
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    std::mt19937 random(5);
    std::vector<test::raw_block> blocks;
    for (std::size_t total = 0; total < 800 * k_mib; total += blocks.back().bytes) {
        std::size_t const bytes = 33'000 + random() % 229'000;
        blocks.push_back({pool.allocate(bytes), bytes, 16});
    }
    std::ranges::shuffle(blocks, random);
    for (test::raw_block const& one : blocks)
        pool.deallocate(one.p, one.bytes, one.align);
    EXPECT_LE(pool.stats().upstream_bytes, k_left) << "recent addresses keep chunks";
}

TEST(large_blocks, that_another_thread_frees_leave_no_more) {
    for (std::size_t const bytes : {60'000U, 200'000U, 300'000U, 1'000'000U}) {
        pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
        test::held_blocks blocks(pool, bytes);
        blocks.take((POOLED_CHECKED != 0 ? 300 : 800) * k_mib / bytes);
        std::thread([&] { blocks.give_back(); }).join();
        EXPECT_LE(pool.stats().upstream_bytes, k_left) << bytes;
    }
}

// Each of them frees too little to look at what all have left free.
TEST(large_blocks, that_threads_free_which_end_leave_no_more) {
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    std::vector<void*> blocks(400);
    for (void*& p : blocks)
        p = pool.allocate(k_mib);
    for (void* const p : blocks)
        std::thread([&] { pool.deallocate(p, k_mib); }).join();
    EXPECT_LE(pool.stats().upstream_bytes, k_left);
}

TEST(large_blocks, of_one_size_after_the_other_leave_no_more) {
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};
    for (std::size_t granules = 3; granules <= 1024; granules += 1 + granules / (POOLED_CHECKED != 0 ? 2 : 6))
        test::held_blocks(pool, granules * 16 * k_kib, 8).take(256 * k_mib / (granules * 16 * k_kib));
    EXPECT_LE(pool.stats().upstream_bytes, k_left) << "what came for one size, another left free";
}

// A program that grows and shrinks by 100 MiB.
void grow_and_shrink(pooled::pool& pool, int times) {
    for (int i = 0; i < times; ++i)
        test::held_blocks(pool, 200 * k_kib).take(512);
}

TEST(large_blocks, that_a_program_soon_takes_again_stay_in_the_pool) {
    test::counting_upstream upstream;
    pooled::pool pool{{.upstream = &upstream, .release_unused_after = std::chrono::hours(1)}};
    grow_and_shrink(pool, 1);
    EXPECT_LE(upstream.bytes(), 64 * k_mib) << "it may have been the last time";
    grow_and_shrink(pool, 2);
    std::size_t const calls = upstream.allocations();
    grow_and_shrink(pool, 5);
    EXPECT_EQ(upstream.allocations(), calls);
    EXPECT_LE(upstream.bytes(), upstream.most_bytes());
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(large_blocks, that_a_program_takes_again_return_each_time_when_unused_memory_never_does) {
    test::counting_upstream upstream;
    pooled::pool pool{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(0)}};
    for (int i = 0; i < 5; ++i) {
        grow_and_shrink(pool, 1);
        EXPECT_LE(upstream.bytes(), 64 * k_mib);
    }
}

TEST(large_blocks, that_a_program_takes_again_long_after_return_each_time) {
    test::counting_upstream upstream;
    pooled::pool pool{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(1)}};
    for (int i = 0; i < 3; ++i) {
        grow_and_shrink(pool, 1);
        EXPECT_LE(upstream.bytes(), 64 * k_mib);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

TEST(large_blocks, that_a_thread_has_cached_serve_small_ones_before_the_pool_grows) {
    pooled::pool pool;
    for (std::size_t mib = 1; mib <= 3; ++mib)
        test::held_blocks(pool, mib * k_mib - k_guard_bytes).take(1);
    std::size_t const before = pool.stats().upstream_bytes;
    test::held_blocks blocks(pool, 64 - k_guard_bytes, 8);
    blocks.take(5 * k_mib / 64);
    EXPECT_LE(pool.stats().upstream_bytes, before);
}

TEST(empty_slab, serves_another_class_at_once_in_a_bounded_pool) {
    test::counting_upstream upstream;
    pooled::pool pool{{.max_bytes = 64 * k_kib, .upstream = &upstream}};  // four slabs
    constexpr std::size_t k_bytes = 1024 - k_guard_bytes;
    test::held_blocks blocks(pool, k_bytes, 8);
    ASSERT_EQ(blocks.take_all(), 64U);
    ASSERT_EQ(pool.try_allocate(48, 8), nullptr);
    // The sixteen blocks of one slab.
    auto const slab_of = [](void* p) {
        return reinterpret_cast<std::uintptr_t>(p) / pooled::detail::k_granule_bytes;
    };
    auto const slab = slab_of(blocks[0]);
    std::size_t freed = 0;
    for (void*& p : blocks)
        if (slab_of(p) == slab) {
            pool.deallocate(p, k_bytes, 8);
            p = nullptr;
            ++freed;
        }
    ASSERT_EQ(freed, 16U);
    void* const other = pool.try_allocate(48, 8);
    EXPECT_NE(other, nullptr);
    EXPECT_EQ(slab_of(other), slab);
    pool.deallocate(other, 48, 8);
}

TEST(exhausted_pool, with_half_of_its_blocks_free_refuses_another_size_and_changes_nothing) {
    std::size_t const max = (test::k_sanitized ? 16 : 256) * k_mib;
    pooled::pool pool{{.max_bytes = max}};
    test::held_blocks blocks(pool, 48, 8);
    blocks.take_all();
    for (std::size_t i = 0; i < blocks.size(); i += 2)
        pool.deallocate(blocks[i], 48, 8);
    EXPECT_EQ(pool.try_allocate(1500), nullptr);
    auto const before = pool.stats();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i)
        ASSERT_EQ(pool.try_allocate(1500), nullptr);
    auto const took = std::chrono::steady_clock::now() - begin;
    auto const after = pool.stats();
    EXPECT_EQ(after.in_use, before.in_use);
    EXPECT_EQ(after.free, before.free) << "no block moved";
    EXPECT_EQ(after.upstream_calls, before.upstream_calls);
    EXPECT_LT(took, std::chrono::seconds(1)) << "version 0.1 took 134 ms each";
    EXPECT_TRUE(test::is_valid(pool));
    for (std::size_t i = 0; i < blocks.size(); i += 2)
        ASSERT_NE(blocks[i] = pool.try_allocate(48, 8), nullptr);
    EXPECT_EQ(pool.try_allocate(48, 8), nullptr);
}

TEST(pools, of_which_ten_thousand_came_and_went_leave_at_most_4_mib) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    auto const once = [] {
        pooled::pool pool;
        auto const a = pool.make_shared<int>(1);
        auto const b = pool.make_unique<int[]>(1000);
    };
    once();
    std::size_t const before = resident_bytes();
    for (int i = 0; i < 10'000; ++i)
        once();
    EXPECT_LE(resident_bytes(), before + 4 * k_mib);
}

TEST(pools, alive_at_once_and_then_gone_leave_at_most_4_mib) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    std::size_t const before = resident_bytes();
    {
        std::vector<std::unique_ptr<pooled::pool>> pools;
        for (int i = 0; i < 2'000; ++i) {
            pools.push_back(std::make_unique<pooled::pool>());
            pools.back()->deallocate(pools.back()->allocate(48), 48);
        }
    }
    // The checked build keeps the addresses of pools that are gone.
    EXPECT_LE(resident_bytes(), before + (POOLED_CHECKED != 0 ? 16 : 4) * k_mib);
}

TEST(trimmed_pool, gives_back_the_free_pages_of_slabs_in_use) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    std::mt19937 random(3);
    pooled::pool pool{{.release_unused_after = std::chrono::milliseconds(0)}};  // trim() alone does it
    std::size_t const base = resident_bytes();
    std::vector<test::raw_block> blocks;
    std::size_t total = 0;
    while (total < 200 * k_mib) {
        std::size_t const bytes = (std::size_t{16} << random() % 12) - k_guard_bytes;  // 16 B to 32 KiB
        blocks.push_back({pool.allocate(bytes), bytes, 16});
        std::memset(blocks.back().p, 1, bytes);
        total += bytes;
    }
    std::ranges::shuffle(blocks, random);
    std::size_t const kept = blocks.size() / 20;
    std::size_t live = 0;
    for (std::size_t i = 0; i < kept; ++i)
        live += blocks[i].bytes;
    for (std::size_t i = kept; i < blocks.size(); ++i)
        pool.deallocate(blocks[i].p, blocks[i].bytes);
    EXPECT_GT(pool.trim(), 100 * k_mib);
    std::size_t const index = blocks.capacity() * sizeof(test::raw_block);
    EXPECT_LE(resident_bytes() - base, live * 5 / 2 + index + 4 * k_mib) << "live: " << live;
    EXPECT_TRUE(test::is_valid(pool));
    for (std::size_t i = 0; i < kept; ++i) {
        auto const* const bytes = static_cast<unsigned char const*>(blocks[i].p);
        ASSERT_EQ(std::count(bytes, bytes + blocks[i].bytes, 1),
                  static_cast<std::ptrdiff_t>(blocks[i].bytes));
        pool.deallocate(blocks[i].p, blocks[i].bytes);
    }
}

// Slow calls, with pauses, until `done` or the deadline.
template <class Done>
bool within_deadline(pooled::pool& pool, Done done) {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        test::held_blocks(pool, 32'768 - k_guard_bytes).take(40);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

TEST(unused_memory, goes_back_by_itself) {
    test::counting_upstream upstream;
    pooled::pool pool{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(20)}};
    test::sleeper idle;
    idle.run([&] {
        test::held_blocks blocks(pool, 512);
        blocks.take(32 * k_mib / 512);
        test::held_blocks(pool, 100 * k_kib).take(40);
        pool.deallocate(pool.allocate(5 * k_mib), 5 * k_mib);
    });
    ASSERT_GE(upstream.most_bytes(), 32 * k_mib);
    // Slabs and large blocks go back at different moments.
    EXPECT_TRUE(within_deadline(
        pool, [&] { return upstream.bytes() <= 8 * k_mib && pool.stats().large_cached_bytes == 0; }))
        << upstream.bytes() << ", large blocks " << pool.stats().large_cached_bytes;
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(unused_memory, goes_back_by_itself_after_a_program_took_it_again_and_again) {
    test::counting_upstream upstream;
    pooled::pool pool{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(20)}};
    grow_and_shrink(pool, 10);
    EXPECT_TRUE(within_deadline(pool, [&] { return upstream.bytes() <= 8 * k_mib; })) << upstream.bytes();
    grow_and_shrink(pool, 1);
    EXPECT_LE(upstream.bytes(), 64 * k_mib) << "what it kept, it no longer does";
}

TEST(unused_memory, stays_when_the_option_says_never_and_when_it_is_reserved) {
    test::counting_upstream upstream;
    pooled::pool never{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(0)}};
    pooled::pool reserved{{.upstream = &upstream, .release_unused_after = std::chrono::milliseconds(1)}};
    for (pooled::pool* const one : {&never, &reserved})
        EXPECT_TRUE(within_deadline(*one, [rounds = 0]() mutable { return rounds++ != 0; }))
            << "its blocks need no new slab, which would be taken from the cached block";
    never.deallocate(never.allocate(5 * k_mib), 5 * k_mib);
    reserved.reserve_bytes(1000, 512);
    reserved.deallocate(reserved.allocate(5 * k_mib), 5 * k_mib);
    std::size_t const before = never.stats().upstream_bytes;
    std::size_t const reserved_before = reserved.stats().upstream_bytes;
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    EXPECT_TRUE(within_deadline(never, [&] { return std::chrono::steady_clock::now() > until; }));
    EXPECT_TRUE(within_deadline(
        reserved, [&] { return std::chrono::steady_clock::now() > until + std::chrono::milliseconds(100); }));
    EXPECT_GE(never.stats().upstream_bytes, before);
    EXPECT_GE(never.stats().large_cached_bytes, 5 * k_mib);
    EXPECT_GE(reserved.stats().upstream_bytes, reserved_before);
    EXPECT_GE(reserved.stats().large_cached_bytes, 5 * k_mib) << "a pool with a reservation keeps all it has";
}

TEST(threads, of_which_a_thousand_came_and_went_return_all_they_cached) {
    pooled::pool pool;
    int const rounds = test::k_sanitized ? 100 : 1000;
    for (int i = 0; i < rounds; ++i)
        std::thread([&] {
            std::list<test::held_blocks<pooled::pool>> blocks;
            for (std::size_t bytes = 16; bytes < 40'000; bytes += bytes / 2)
                blocks.emplace_back(pool, bytes).take(10);
        }).join();
    auto const s = pool.stats();
    EXPECT_EQ(s.threads, 0U);
    EXPECT_EQ(s.cached, 0U);
    EXPECT_EQ(s.in_use, 0U);
    EXPECT_EQ(s.remote_frees, 0U);
    EXPECT_LE(s.upstream_bytes, 4 * k_mib);
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(closed_pool, whose_id_another_one_gets_keeps_no_block_of_that_in_a_threads_cache) {
    test::sleeper other;
    auto closed = std::make_unique<pooled::pool>();
    auto const id = test::core_of(*closed).id();
    other.run([&] { closed->deallocate(closed->allocate(48), 48); });
    closed.reset();
    pooled::pool pool;
    ASSERT_EQ(test::core_of(pool).id(), id);
    for (std::size_t const bytes : {std::size_t{48}, 100 * k_kib, 300 * k_kib, 20 * k_mib}) {
        void* const p = pool.allocate(bytes);
        other.run([&] { pool.deallocate(p, bytes); });
        EXPECT_EQ(pool.stats().in_use, 0U) << bytes;
    }
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST(closed_pool, loses_a_threads_cache_of_it_at_the_threads_next_slow_call) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own memory is resident, too";
    test::sleeper other;
    pooled::pool lasting;
    std::size_t before = 0;
    for (int i = 0; i < 3'000; ++i) {
        if (i == 100) before = resident_bytes();
        auto pool = std::make_unique<pooled::pool>();
        other.run([&] { pool->deallocate(pool->allocate(48), 48); });
        pool.reset();
        // Another pool's slow call.
        other.run([&] {
            lasting.deallocate(lasting.allocate(100'000), 100'000);
            test::held_blocks(lasting, 32'768).take(10);
        });
    }
    EXPECT_LE(resident_bytes(), before + 4 * k_mib) << "3,000 caches of 3 KiB would be 9 MiB";
}

// A pool does not age: whatever order blocks were freed in, a structure that is built afterwards lies in memory as in a new
// pool. Structure is tested, not time.

constexpr std::size_t k_bytes = 48;
constexpr auto k_class = pooled::detail::class_for(k_bytes, 8);
constexpr std::size_t k_count = test::k_sanitized ? 20'000 : 200'000;

template <class Pool>
struct built : test::held_blocks<Pool> {
    built(Pool& pool, std::size_t count) : test::held_blocks<Pool>(pool, k_bytes, 8) { this->take(count); }
};

// Replaces blocks at random, then frees all but `kept` in a random order. Has these.
template <class Pool>
struct ageing : built<Pool> {
    ageing(Pool& pool, std::mt19937& random, std::size_t kept = 0) : built<Pool>(pool, k_count) {
        for (std::size_t i = 0; i < 5 * k_count; ++i) {
            void*& one = (*this)[random() % k_count];
            pool.deallocate(one, k_bytes, 8);
            one = pool.allocate(k_bytes, 8);
        }
        std::ranges::shuffle(*this, random);
        this->give_back(k_count - kept);
    }
};

// How many neighbours in the order of creation do not ascend within one slab, or are of two slabs.
std::size_t breaks_in(std::vector<void*> const& blocks) {
    using pooled::detail::k_slab_bytes;
    std::size_t breaks = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i) {
        auto const before = reinterpret_cast<std::uintptr_t>(blocks[i - 1]);
        auto const now = reinterpret_cast<std::uintptr_t>(blocks[i]);
        breaks += now / k_slab_bytes != before / k_slab_bytes || now < before ? 1 : 0;
    }
    return breaks;
}

// How often the next block lies elsewhere than in the same slab or in the one after it.
std::size_t jumps_in(std::vector<void*> const& blocks) {
    std::size_t jumps = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i) {
        auto const before = reinterpret_cast<std::uintptr_t>(blocks[i - 1]) / pooled::detail::k_slab_bytes;
        auto const now = reinterpret_cast<std::uintptr_t>(blocks[i]) / pooled::detail::k_slab_bytes;
        jumps += now - before > 1 ? 1 : 0;
    }
    return jumps;
}

template <class Pool>
class aged : public testing::Test {
protected:
    Pool pool;
    std::mt19937 random{1};
};
TYPED_TEST_SUITE(aged, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(aged, pool_has_no_slab_in_use_when_everything_is_free) {
    ageing(this->pool, this->random);
    auto const c = this->pool.stats().classes[k_class];
    EXPECT_EQ(c.in_use, 0U);
    EXPECT_LE(c.cached, 2U) << "a cache does not keep slabs when all the rest is free";
    EXPECT_LE(c.slab_bytes, c.cached * pooled::detail::k_slab_bytes)
        << "slabs whose blocks are cached, and no others";
    this->pool.trim();
    EXPECT_EQ(this->pool.stats().classes[k_class].slab_bytes, 0U);
    EXPECT_TRUE(test::is_valid(this->pool));
}

TYPED_TEST(aged, pool_builds_in_ascending_addresses_of_one_slab_after_another) {
    built fresh(this->pool, k_count);
    std::size_t const fresh_breaks = breaks_in(fresh);
    std::size_t const fresh_jumps = jumps_in(fresh);
    fresh.give_back();
    for (int round = 0; round < 3; ++round) {
        ageing(this->pool, this->random);
        built const blocks(this->pool, k_count);
        // What the thread had cached comes first.
        EXPECT_LE(breaks_in(blocks), fresh_breaks + 8);
        EXPECT_LE(jumps_in(blocks), fresh_jumps + fresh_breaks / 8 + 8) << "of " << fresh_breaks << " slabs";
    }
}

TYPED_TEST(aged, pool_builds_between_survivors_in_one_slab_after_another) {
    ageing const survivors(this->pool, this->random, k_count / 16);
    // What the thread had cached comes first, then what was freed last: a sixteenth of what was in use.
    std::size_t const at_most = pooled::detail::k_geometry[k_class].burst_blocks();
    std::size_t const in_use = survivors.size() + at_most;
    built const cached(this->pool, at_most + in_use / 16 + 1);
    built const blocks(this->pool, k_count - survivors.size() - cached.size());
    std::size_t const slabs = this->pool.stats().classes[k_class].slab_bytes / pooled::detail::k_slab_bytes;
    EXPECT_LE(jumps_in(blocks), slabs / 4) << "of " << slabs << " slabs";
}

TYPED_TEST(aged, pool_takes_no_more_memory_than_a_new_one) {
    built(this->pool, k_count);
    std::size_t const before = this->pool.stats().upstream_bytes;
    for (int i = 0; i < 3; ++i)
        ageing(this->pool, this->random);
    EXPECT_LE(this->pool.stats().upstream_bytes, before);
}

// Keeps its memory mapped and reads it.
class painted_upstream : public std::pmr::memory_resource {
public:
    [[nodiscard]] std::vector<std::pair<std::byte*, std::size_t>> const& regions() const { return m_regions; }
    ~painted_upstream() override {
        for (auto const& [p, bytes] : m_regions)
            ::operator delete(p, std::align_val_t{pooled::detail::k_granule_bytes});
    }

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        auto* const p = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{align}));
        std::memset(p, 0x5a, bytes);
        m_regions.emplace_back(p, bytes);
        return p;
    }
    void do_deallocate(void*, std::size_t, std::size_t) override {}  // kept: a test looks at it afterwards
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
    std::vector<std::pair<std::byte*, std::size_t>> m_regions;
};

TYPED_TEST(aged, pool_has_written_to_none_of_its_blocks) {
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    painted_upstream memory;
    {
        TypeParam painted{{.upstream = &memory}};
        painted.reserve_bytes(1000, 48);
        std::vector<std::pair<void*, std::size_t>> blocks;
        for (std::size_t i = 0; i < 30'000; ++i) {
            std::size_t const bytes = i % 500 == 0 ? 50'000 : 1 + i * 37 % 4000;
            blocks.emplace_back(painted.allocate(bytes), bytes);
            if (i % 3 == 0) {
                auto& one = blocks[this->random() % blocks.size()];
                painted.deallocate(one.first, one.second);
                one = blocks.back();
                blocks.pop_back();
            }
        }
        std::ranges::shuffle(blocks, this->random);
        for (auto const& [p, bytes] : blocks)
            painted.deallocate(p, bytes);
        painted.trim();
    }
    std::size_t written = 0;
    for (auto const& [p, bytes] : memory.regions())
        written += bytes - static_cast<std::size_t>(std::count(p, p + bytes, std::byte{0x5a}));
    EXPECT_EQ(written, 0U) << "neither a block in use nor a free one is the pool's to write to";
}

}  // namespace
