// SPDX-License-Identifier: BSL-1.0

// Plan: a thread has the lock of one size class after the other, or of the heap, for long, as one that is preempted there. Others create,
// exchange and free blocks, begin and end, trim, count and fork meanwhile: they go round the lock (cache/defer.hpp, heap/apart.hpp). Each
// block has its owner's mark.

#include "pooled/pool.hpp"

#include "stress/common.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/no_metadata.hpp"
#include "support/preempted_holder.hpp"
#include "support/resident_pages.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#ifdef __linux__
#include <pthread.h>
#include <sys/resource.h>
#endif

POOLED_BEGIN_NAMESPACE
namespace detail {
template <>
struct record_access::of<struct of_this_test> {
    static slab_heap& heap_of(cache_set& caches) { return caches.m_pool.heap; }
    static void end_reservations(slab_heap& heap) { heap.end_reservations(); }
    // As a thread in allocate_apart() that does not run.
    static slab* begin_apart(slab_heap& heap) {
        heap.m_apart.fetch_add(slab_heap::k_begins_apart);
        return heap.m_left_spans.take_all();
    }
    static void end_apart(slab_heap& heap, slab* left) {
        EXPECT_TRUE(left == nullptr || heap.m_left_spans.push_first(*left));
        heap.m_apart.fetch_sub(1);
    }
    // The calling thread ends, and is preempted when it has left its cache of the pool, before it tells the lock's holder so.
    template <class Preempted>
    static void leave_cache(pool_core& core, Preempted&& preempted) {
        thread_cache& cache = *t_state().find(core.id());
        registry::forget(t_state(), cache);
        core.caches().as_outsider([&] {
            cache.gate.leave();
            core.caches().m_ended.push(cache);
            preempted();
            core.caches().tell_holder();
        });
    }
    template <class Of>
    static detail::mutex& lock_of(Of& one) {
        return one.m_mutex;
    }
    static std::size_t free_pieces(metadata_arena& arena, std::size_t bytes) {
        std::size_t free = 0;
        for (auto const& r : arena.m_regions[arena.list_of(arena.piece_bytes(bytes))])
            free += r.capacity - r.live;
        return free;
    }
};
}  // namespace detail
POOLED_END_NAMESPACE

namespace {

using namespace stress;
using namespace pooled::detail;

constexpr std::size_t k_sizes[] = {16, 64, 1504, 20'000, 60'000, 300'000, 4U << 20};
constexpr auto k_long = std::chrono::milliseconds(12);  // three times as long as a thread waits

slab_heap& heap_of(pooled::pool& pool) {
    return record_access::of<of_this_test>::heap_of(test::core_of(pool).caches());
}

// While it exists, a thread always has the lock of one of these classes, or of the heap.
class lock_holder {
public:
    explicit lock_holder(pooled::pool& pool)
        : m_thread([this, &heap = heap_of(pool), &caches = test::core_of(pool).caches()] {
              for (std::size_t i = 0; !m_stop; ++i) {
                  hold(caches[class_of(k_sizes[i % std::size(k_sizes)])]);
                  if (i % 2 == 0) hold(heap);
              }
          }) {}
    ~lock_holder() {
        m_stop = true;
        m_thread.join();
    }
    lock_holder(lock_holder const&) = delete;
    lock_holder& operator=(lock_holder const&) = delete;

private:
    template <class Lock>
    static void hold(Lock& lock) {
        scoped_lock const held(lock);
        std::this_thread::sleep_for(k_long);
    }
    static class_index class_of(std::size_t bytes) {
        return bytes <= 32'768 ? class_for(bytes, 8) : large_class_for(bytes, 8);
    }
    std::atomic<bool> m_stop{false};
    std::thread m_thread;
};

class preempted_holder : public test::preempted_holder {
public:
    explicit preempted_holder(pooled::pool& pool)
        : preempted_holder(test::core_of(pool).caches()[class_for(64, 8)]) {}
    template <class Lock>
    explicit preempted_holder(Lock& held) : test::preempted_holder(held) {}
};

class a_lock_of_a_class : public testing::Test {
protected:
    ~a_lock_of_a_class() override { EXPECT_EQ(g_damaged.exchange(0), 0U) << "a block had two owners"; }

    // More than a thread caches, so that it refills and flushes.
    void use(std::uint64_t seed) {
        dice r(seed);
        std::vector<block> mine;
        std::size_t const bytes = k_sizes[r.below(std::size(k_sizes))];
        for (std::size_t i = 0; i < 3'000'000 / (bytes + 1000) + 2; ++i) {
            mine.push_back(allocate(pool, bytes));
            if (i % 8 == 0) mine.back() = exchanged.swap(mine.back(), r.below(64));
        }
        for (block const& b : mine)
            deallocate(pool, b);
    }
    void expect_nothing_lost() {
        exchanged.drain([&](block b) { deallocate(pool, b); });
        EXPECT_TRUE(test::is_valid(pool));
        pooled::pool_stats const s = pool.stats();
        EXPECT_EQ(s.in_use, 0U);
        for (pooled::size_class_stats const& one : s.classes) {
            EXPECT_LE(one.high_water, 1'000'000U) << "a count wrapped";
            EXPECT_LE(one.slab_bytes, s.upstream_bytes);
        }
        pool.trim();
        EXPECT_EQ(pool.stats().upstream_bytes, 0U) << "a block or a slab was lost";
    }

    pooled::pool pool{{.name = "locked", .chunk_bytes = 512U << 10}};
    exchange<> exchanged;
};

TEST_F(a_lock_of_a_class, that_is_held_for_long_loses_and_shares_no_block) {
    {
        lock_holder const holder(pool);
        std::size_t turn = 0;
        repeatedly const maintenance([&] {
            if (++turn % 3 == 0) pool.trim();
            if (turn % 3 == 1) {
                EXPECT_TRUE(test::is_valid(pool));
            }
            EXPECT_LE(pool.stats().in_use, 1'000'000U);
        });
        for (std::size_t round = 0; round < scaled(12, 6); ++round)
            on_threads(3, [&](std::size_t i) {
                for (std::size_t k = 0; k < 8; ++k)
                    use(round * 64 + i * 8 + k);
            });
    }
    expect_nothing_lost();
}

TEST_F(a_lock_of_a_class, that_is_held_for_long_hides_no_free_block_from_a_bounded_pool) {
    constexpr std::size_t k_threads = 3;
    constexpr std::size_t k_each = 700;
    pooled::pool bounded{{.name = "bounded", .max_bytes = k_threads * k_each * 64 + (128U << 10)}};
    std::atomic<std::size_t> refused{0};
    {
        lock_holder const holder(bounded);
        on_threads(k_threads, [&](std::size_t) {
            std::vector<block> mine;
            for (std::size_t round = 0; round < scaled(2000, 200); ++round) {
                while (mine.size() != k_each) {
                    mine.push_back(allocate(bounded, 64));
                    if (mine.back().p == nullptr) ++refused;
                }
                for (block const& b : mine)
                    deallocate(bounded, b);
                mine.clear();
            }
        });
    }
    EXPECT_EQ(refused, 0U) << "there was room for all";
    EXPECT_EQ(bounded.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(bounded));
}

TEST_F(a_lock_of_a_class, that_is_held_for_long_keeps_no_pool_from_its_end) {
    for (std::size_t round = 0; round < scaled(24, 8); ++round) {
        auto mine = std::make_unique<pooled::pool>(pooled::pool_options{.name = "short-lived"});
        std::pmr::memory_resource* const resource = mine->resource();
        auto holder = std::make_unique<lock_holder>(*mine);
        std::vector<void*> out(3);
        std::atomic<std::size_t> left{out.size()};
        std::vector<std::thread> threads;
        for (void*& one : out)
            threads.emplace_back([&] {
                std::vector<void*> all;
                for (std::size_t i = 0; i < 3000; ++i)
                    all.push_back(mine->allocate(64));
                one = all.back();
                all.pop_back();
                for (void* const p : all)
                    mine->deallocate(p, 64);
                --left;
                while (left.load() != 0)
                    std::this_thread::yield();
            });
        for (std::thread& one : threads)
            one.join();
        holder.reset();
        mine.reset();
        for (void* const one : out)
            resource->deallocate(one, 64);
    }
}

// Such a thread has no cache any more, and no array: each of its calls meets the lock.
TEST_F(a_lock_of_a_class, that_is_held_all_the_time_stops_no_thread_that_has_ended) {
    constexpr std::size_t k_huge = 64U << 20;
    std::vector<block> mine;
    for (std::size_t i = 0; i < 12; ++i)
        mine.push_back(allocate(pool, 64));
    void* huge = pool.allocate(k_huge);
    central* const locked[] = {&test::core_of(pool).caches()[class_for(64, 8)],
                               &test::core_of(pool).caches()[k_exact]};
    for (central* const one : locked)
        one->lock();
    std::thread([&] {
        deallocate(pool, allocate(pool, 1504));
        g_registry.end_thread(&t_state());
        for (block const& b : mine)
            deallocate(pool, b);
        for (block& b : mine)
            b = allocate(pool, 64);
        pool.deallocate(huge, k_huge);
        huge = pool.allocate(k_huge + 1);
        pool.deallocate(pool.allocate(k_huge + 2), k_huge + 2);
    }).join();
    for (central* const one : locked)
        one->unlock();
    EXPECT_EQ(pool.stats().in_use, mine.size() + 1);
    pool.deallocate(huge, k_huge + 1);
    for (block const& b : mine)
        deallocate(pool, b);
    expect_nothing_lost();
}

// Three granules are free, of which a slab of two may be taken, but none of four, the usual length: what is found must be what is taken.
TEST(a_lock_of_a_small_pools_class, that_is_held_stops_no_thread_that_finds_a_span_for_a_short_slab) {
    constexpr std::size_t k_bytes = 2 * k_granule_bytes;
    constexpr std::size_t k_free = 3 * k_granule_bytes;
    pooled::pool pool;
    std::array<void*, 4> others{};
    for (void*& one : others)  // the last two of a chunk of eight granules
        one = pool.allocate(k_free);
    void* const first = pool.allocate(k_bytes);  // and the rest of it
    std::thread([&] { pool.deallocate(std::exchange(others[2], nullptr), k_free); }).join();
    test::preempted_holder holder(test::core_of(pool).caches()[class_for(k_bytes, 8)]);
    void* const second = pool.allocate(k_bytes);
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(pool.stats().upstream_bytes, 16 * k_granule_bytes) << "that span serves";
    for (void* const one : {first, second})
        pool.deallocate(one, k_bytes);
    for (void* const one : others)
        pool.deallocate(one, k_free);
    EXPECT_TRUE(test::is_valid(pool));
}

// Their slabs come from the heap, and return to it.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_all_the_time_stops_no_thread) {
    heap_of(pool).lock();
    std::thread([&] {
        for (std::uint64_t seed = 0; seed < 24; ++seed)
            use(seed);
        exchanged.drain([&](block b) { deallocate(pool, b); });
    }).join();
    heap_of(pool).unlock();
    expect_nothing_lost();
}

// Nor one that has no cache, where the system has no barrier.
TEST_F(a_lock_of_a_class, that_is_held_all_the_time_stops_no_thread_without_a_cache) {
    platform::heavy_barrier();
    g_is_barrier_refused.store(true, std::memory_order_relaxed);
    preempted_holder holder(pool);
    std::atomic<bool> is_over{false};
    std::thread trims([&] {
        while (!is_over)
            static_cast<void>(pool.trim());
    });
    on_threads(3, [&](std::size_t) {
        std::vector<block> mine;
        for (std::size_t i = 0; i < 12; ++i) {
            mine.push_back(allocate(pool, 64));
            mine.back() = exchanged.swap(mine.back(), i);
        }
        for (block const& b : mine)
            deallocate(pool, b);
    });
    is_over = true;
    trims.join();
    EXPECT_TRUE(holder.leave());
    g_is_barrier_refused.store(false, std::memory_order_relaxed);
    expect_nothing_lost();
}

TEST_F(a_lock_of_a_class, that_is_held_all_the_time_stops_neither_counts_nor_trim) {
    std::vector<block> mine;
    for (std::size_t i = 0; i < 1000; ++i)
        mine.push_back(allocate(pool, k_sizes[i % std::size(k_sizes)]));
    preempted_holder holder(pool);
    EXPECT_EQ(pool.stats().in_use, mine.size());
    for (block const& b : mine)
        deallocate(pool, b);
    std::thread([&] {  // ends while another one trims
        std::thread trims([&] { EXPECT_GT(pool.trim(), 0U); });
        use(1);
        trims.join();
    })
        .join();
    EXPECT_LE(pool.stats().in_use, 3'000U) << "what was freed meanwhile, and waits for the lock";
    EXPECT_TRUE(holder.leave());
    expect_nothing_lost();
}

// Nor who frees blocks of that class, more than a thread caches.
TEST_F(a_lock_of_a_class,
       that_is_held_all_the_time_stops_no_free_while_another_thread_would_report_exhaustion) {
    constexpr std::size_t k_large = std::size_t{64} << 10;
    pooled::pool bounded{{.max_bytes = 16 * k_large}};
    std::vector<block> mine;
    for (std::size_t i = 0; i < 5'000; ++i)
        mine.push_back(allocate(bounded, 64));
    preempted_holder holder(bounded);
    std::atomic<bool> is_over{false};
    std::thread greedy([&] {
        std::vector<void*> all;
        while (void* const p = bounded.try_allocate(k_large))
            all.push_back(p);
        is_over = true;
        for (void* const p : all)
            bounded.deallocate(p, k_large);
    });
    std::this_thread::sleep_for(k_long);  // it waits
    for (block const& b : mine)
        deallocate(bounded, b);
    EXPECT_FALSE(is_over);
    EXPECT_TRUE(holder.leave());
    greedy.join();
    EXPECT_EQ(bounded.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(bounded));
}

// Nor other threads that begin and end, nor other pools.
TEST_F(a_lock_of_a_class, that_is_held_all_the_time_stops_only_who_reports_exhaustion_or_destroys_the_pool) {
    constexpr std::size_t k_large = std::size_t{64} << 10;
    auto bounded = std::make_unique<pooled::pool>(pooled::pool_options{.max_bytes = 16 * k_large});
    deallocate(*bounded, allocate(*bounded, 64));
    auto const others = [&] {
        for (int i = 0; i < 5; ++i) {
            std::thread([&] {
                if (bounded != nullptr) bounded->deallocate(bounded->allocate(48), 48);
                use(2);
                pooled::pool another;
                another.deallocate(another.allocate(48), 48);
            }).join();
            std::this_thread::sleep_for(std::chrono::milliseconds(6));  // a waiting thread looks again
        }
    };
    std::atomic<bool> is_over{false};
    {
        preempted_holder holder(*bounded);
        std::thread greedy([&] {
            std::vector<void*> all;
            while (void* const p = bounded->try_allocate(k_large))
                all.push_back(p);
            is_over = true;
            for (void* const p : all)
                bounded->deallocate(p, k_large);
        });
        others();
        EXPECT_FALSE(is_over) << "what the class has free is not known";
        EXPECT_TRUE(holder.leave());
        greedy.join();
    }
    EXPECT_EQ(bounded->stats().in_use, 0U);
    preempted_holder holder(*bounded);
    std::thread destroyer([&, last = std::move(bounded)]() mutable {
        last.reset();
        is_over = false;
    });
    others();
    EXPECT_TRUE(is_over);
    EXPECT_TRUE(holder.leave());
    destroyer.join();
    EXPECT_FALSE(is_over);
}

// Of pools near and far (cache/thread_cache.hpp).
TEST_F(a_lock_of_a_class,
       or_the_registrys_that_is_held_all_the_time_stops_no_thread_and_no_pool_that_begins) {
    std::vector<std::unique_ptr<pooled::pool>> pools;
    preempted_holder holder(record_access::of<of_this_test>::lock_of(g_registry));
    for (std::size_t i = 0; i < 40; ++i)
        pools.push_back(std::make_unique<pooled::pool>());
    for (std::uint64_t seed = 0; seed < 4; ++seed)
        std::thread([&] {
            use(seed);
            for (auto const& one : pools)
                one->deallocate(one->allocate(48), 48);
        }).join();
    EXPECT_TRUE(holder.leave());
    for (auto const& one : pools)
        EXPECT_EQ(one->stats().threads, 0U);
    expect_nothing_lost();
}

// Near and far, with a block in use at its end and without, and local.
TEST_F(a_lock_of_a_class, or_the_registrys_that_is_held_all_the_time_stops_no_pool_that_ends) {
    constexpr std::size_t k_bytes = 48;
    std::vector<std::unique_ptr<pooled::pool>> pools;
    for (std::size_t i = 0; i < 40; ++i) {
        pools.push_back(std::make_unique<pooled::pool>());
        pools.back()->deallocate(pools.back()->allocate(k_bytes), k_bytes);
    }
    auto local = std::make_unique<pooled::local_pool>();
    auto incremental =
        std::make_unique<pooled::pool>(pooled::pool_options{.teardown = pooled::teardown::incremental});
    auto kept = pools.back()->make_shared<int>(1);
    auto deferred = incremental->make_rc<int>(2);
    preempted_holder holder(record_access::of<of_this_test>::lock_of(g_registry));
    local.reset();
    pools.clear();
    kept.reset();
    std::thread([&, last = std::move(deferred)]() mutable { last.reset(); }).join();
    incremental.reset();
    EXPECT_TRUE(holder.leave());
    std::make_unique<pooled::pool>()->trim();
}

TEST_F(a_lock_of_a_class,
       or_of_the_list_of_caches_that_is_held_all_the_time_stops_neither_counts_nor_reserve_nor_trim) {
    std::vector<block> mine;
    for (std::size_t i = 0; i < 1000; ++i)
        mine.push_back(allocate(pool, 64));
    std::uint64_t const high_water = pool.stats().high_water;
    deallocate(pool, mine.back());
    mine.pop_back();
    {
        preempted_holder holder(test::core_of(pool).caches());
        EXPECT_GE(pool.stats().in_use, mine.size());
        EXPECT_LE(pool.stats().in_use, 3'000U) << "with what threads have cached";
        pool.reserve_bytes(5'000, 64);
        pool.trim();
        EXPECT_TRUE(holder.leave());
    }
    EXPECT_EQ(pool.stats().in_use, mine.size());
    EXPECT_EQ(pool.stats().high_water, high_water);
    for (block const& b : mine)
        deallocate(pool, b);
    expect_nothing_lost();
}

TEST_F(a_lock_of_a_class, that_is_held_all_the_time_stops_nobody_else_while_one_checks_the_pool) {
    preempted_holder holder(pool);
    std::thread checks([&] { EXPECT_TRUE(test::is_valid(pool)); });
    for (int i = 0; i < 5; ++i) {
        std::thread([&] { use(1); }).join();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a waiting thread looks again
    }
    EXPECT_TRUE(holder.leave());
    checks.join();
    expect_nothing_lost();
}

TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_all_the_time_makes_a_pool_take_no_more_than_it_needs) {
    std::vector<block> mine;
    heap_of(pool).lock();
    std::thread([&] {
        for (std::size_t i = 0; i < 64U << 10; ++i)
            mine.push_back(allocate(pool, 64));
    }).join();
    EXPECT_LE(pool.stats().upstream_bytes, 2 * mine.size() * 64);
    heap_of(pool).unlock();
    for (block const& b : mine)
        deallocate(pool, b);
    expect_nothing_lost();
}

// Each call of the system may wait for a thread that is preempted in a page fault. Slabs of three lengths, in turn.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_all_the_time_lets_a_pool_ask_upstream_seldom) {
    constexpr std::array<std::size_t, 3> k_in_turn{20'000, 1'000, 40'000};
    test::counting_upstream upstream;
    pooled::pool counted{{.upstream = &upstream}};
    std::vector<void*> mine;
    std::size_t bytes = 0;
    heap_of(counted).lock();
    std::thread([&] {
        for (std::size_t i = 0; i < 600; ++i) {
            std::size_t const size = k_in_turn[i % k_in_turn.size()];
            mine.push_back(counted.allocate(size));
            bytes += size;
        }
    }).join();
    EXPECT_LE(upstream.allocations(), 60U);
    EXPECT_LE(counted.stats().upstream_bytes, bytes + bytes / 2);
    heap_of(counted).unlock();
    for (std::size_t i = 0; i < mine.size(); ++i)
        counted.deallocate(mine[i], k_in_turn[i % k_in_turn.size()]);
    EXPECT_TRUE(test::is_valid(counted));
}

// Each span that it is divided into has a record to be written, and goes to the lock's holder.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_lets_a_small_slab_begin_a_huge_chunk_at_once) {
    pooled::pool mine{{.name = "huge chunks", .chunk_bytes = std::size_t{256} << 20}};
    slab_heap& heap = heap_of(mine);
    heap.lock();
    std::thread([&] {
        ASSERT_NE(heap.grow(block_request(0, 16, 16)), 0U);
        slab* const first = heap.allocate(block_request(0, 16, 16));
        ASSERT_NE(first, nullptr);
        std::size_t begun = 0;
        for (slab const& one : first->owner->records())
            begun += one.owner != nullptr ? 1U : 0U;
        EXPECT_GT(begun, 8U);
        EXPECT_LE(begun, 100U);
        heap.deallocate(*first);
    }).join();
    heap.unlock();
    EXPECT_TRUE(test::is_valid(mine));
}

// The pool has `count` more blocks without a call to upstream, of which those of another size take none. Frees all.
void expect_reserved(pooled::pool& of, test::counting_upstream& upstream, std::vector<void*> all,
                     std::size_t count, std::size_t bytes) {
    std::vector<void*> others;
    while (others.size() != 4'000)
        others.push_back(of.allocate(1'504));
    std::size_t const calls = upstream.allocations();
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(of.allocate(bytes));
    EXPECT_EQ(upstream.allocations(), calls) << bytes;
    for (void* const p : all)
        of.deallocate(p, bytes);
    for (void* const p : others)
        of.deallocate(p, 1'504);
    EXPECT_TRUE(test::is_valid(of));
    of.trim();
    EXPECT_EQ(upstream.bytes(), 0U);
}

TEST_F(a_lock_of_a_class, that_is_held_all_the_time_stops_no_reserve) {
    constexpr std::size_t k_count = 30'000;
    constexpr std::size_t k_used = 1'000;
    test::counting_upstream upstream;
    pooled::pool mine{{.upstream = &upstream}};
    std::vector<void*> all;
    for (std::size_t i = 0; i < k_used; ++i)
        all.push_back(mine.allocate(64));
    preempted_holder holder(mine);
    for (int turn = 0; turn < 2; ++turn)
        mine.reserve_bytes(k_count, 64);
    EXPECT_LE(upstream.most_bytes(), 2 * k_count * 64 + (4U << 20));
    EXPECT_TRUE(holder.leave());
    EXPECT_TRUE(test::is_valid(mine));
    expect_reserved(mine, upstream, all, k_count, 64);
}

// Of two classes: what one has free counts only if that of the other is known, too.
TEST_F(a_lock_of_a_class, that_is_held_leaves_the_blocks_of_two_classes_uncounted) {
    constexpr std::array<std::size_t, 2> k_both{64, 96};
    constexpr std::size_t k_count = 1'000;
    for (std::size_t const locked : k_both) {
        test::counting_upstream upstream;
        pooled::pool mine{{.chunk_bytes = k_slab_bytes, .upstream = &upstream}};
        std::vector<std::pair<void*, std::size_t>> all;
        for (std::size_t const bytes : k_both)
            for (std::size_t i = 0; i < 4 * k_count; ++i)
                all.emplace_back(mine.allocate(bytes, 8), bytes);
        for (std::size_t i = 0; i < all.size(); i += 2)
            mine.deallocate(all[i].first, all[i].second, 8);
        mine.trim();
        std::size_t const before = upstream.bytes();
        preempted_holder holder(test::core_of(mine).caches()[class_for(locked, 8)]);
        class_index const other = class_for(k_both[1], 8);
        EXPECT_TRUE(test::core_of(mine).reserve({class_for(k_both[0], 8), k_both[0], 8}, other, k_count));
        EXPECT_GE(upstream.bytes(), before + k_count * k_both[1]);
        EXPECT_TRUE(holder.leave());
        EXPECT_TRUE(test::is_valid(mine));
        for (std::size_t i = 1; i < all.size(); i += 2)
            mine.deallocate(all[i].first, all[i].second, 8);
    }
}

// Its memory comes from upstream then; and nobody else gets it.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_all_the_time_stops_no_reserve) {
    constexpr std::size_t k_huge = std::size_t{40} << 20;
    for (std::size_t const bytes : {std::size_t{64}, std::size_t{20'000}, k_huge}) {
        test::counting_upstream upstream;
        pooled::pool mine{{.upstream = &upstream}};
        std::size_t const count = bytes == k_huge ? 3 : 5'000;
        std::vector<void*> all{mine.allocate(bytes)};
        preempted_holder holder(heap_of(mine));
        std::thread([&] { mine.reserve_bytes(count, bytes); }).join();
        EXPECT_LE(upstream.most_bytes(), (count + 2) * bytes * 5 / 4 + (6U << 20));
        EXPECT_TRUE(holder.leave());
        EXPECT_TRUE(test::is_valid(mine));
        expect_reserved(mine, upstream, all, count, bytes);
    }
}

// Neither where the pages of memory that was free before would have to be touched.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_all_the_time_stops_no_reserve_that_touches_its_pages) {
    constexpr std::size_t k_count = 5'000;
    pooled::pool mine{{.name = "touched", .touch_reserved = true}};
    slab_heap& heap = heap_of(mine);
    constexpr class_index c = class_for(1'504, 16);
    slab_heap::attempt by(heap, {c, c});
    ASSERT_TRUE(
        heap.reserve(by, heap.span_for(c), [&] { return heap.claim(by, heap.span_for(c), k_count); }));
    {
        preempted_holder holder(heap);
        std::thread([&] { EXPECT_FALSE(heap.touch(by)); }).join();
        mine.reserve_bytes(k_count, 1'504);
        EXPECT_TRUE(holder.leave());
    }
    EXPECT_TRUE(heap.touch(by));
    by.settle();
    EXPECT_TRUE(test::is_valid(mine));
    EXPECT_GE(mine.stats().upstream_bytes, 2 * k_count * 1'504);
}

// By a thread that ends all reservations, one of which was settled meanwhile: some of its spans are in no chunk of the heap yet.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_keeps_no_span_of_a_reservation_that_is_ended) {
    slab_heap& heap = heap_of(pool);
    span_request const what = heap.span_for(class_for(1'504, 16));
    slab_heap::attempt by(heap, {what.c, what.c});
    heap.lock();
    std::thread([&] {
        EXPECT_TRUE(heap.reserve(by, what, [&] { return heap.claim(by, what, 5'000); }));
        by.settle();
    }).join();
    record_access::of<of_this_test>::end_reservations(heap);
    heap.unlock();
    EXPECT_FALSE(heap.has_reservations());
    expect_nothing_lost();
}

// Another thread's work() ends when the holder leaves, and not before.
template <class Work>
void expect_wait(preempted_holder& holder, Work const& work) {
    std::atomic<bool> has_ended{false};
    std::thread working([&] {
        work();
        has_ended = true;
    });
    std::this_thread::sleep_for(k_long);
    EXPECT_FALSE(has_ended);
    EXPECT_TRUE(holder.leave());
    working.join();
}

// What is refused without the lock may fit once the lock's next holder knows what is free: a chunk returns to upstream first.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_refuses_no_reserve_for_which_a_free_chunk_makes_room) {
    pooled::pool mine{{.max_bytes = std::size_t{1} << 20, .chunk_bytes = std::size_t{256} << 10}};
    void* const p = mine.allocate(200'000);
    preempted_holder holder(heap_of(mine));
    std::thread([&] { mine.deallocate(p, 200'000); }).join();
    expect_wait(holder, [&] { EXPECT_NO_THROW(mine.reserve_bytes(1, 900'000)); });
    EXPECT_TRUE(test::is_valid(mine));
}

// A thread that is preempted while it looks for a span has all that were left in its hands.
TEST_F(a_lock_of_a_class, of_the_heap_that_was_held_hides_nothing_that_is_reserved) {
    constexpr std::size_t k_count = 5'000;
    test::counting_upstream upstream;
    pooled::pool mine{{.upstream = &upstream}};
    std::vector<void*> all{mine.allocate(64)};
    preempted_holder holder(heap_of(mine));
    std::thread([&] { mine.reserve_bytes(k_count, 64); }).join();
    slab* const left = record_access::of<of_this_test>::begin_apart(heap_of(mine));
    EXPECT_TRUE(holder.leave());
    std::size_t const calls = upstream.allocations();
    while (all.size() != 1 + k_count)
        all.push_back(mine.allocate(64));
    EXPECT_EQ(upstream.allocations(), calls);
    record_access::of<of_this_test>::end_apart(heap_of(mine), left);
    for (void* const p : all)
        mine.deallocate(p, 64);
    EXPECT_TRUE(test::is_valid(mine));
}

// It would put spans back whose records are gone.
TEST_F(a_lock_of_a_class, of_the_heap_detaches_no_chunk_of_which_a_thread_without_it_has_spans) {
    test::counting_upstream memory;
    upstream from{&memory, 0, false};
    slab_heap heap({.pool_id = 60'000,
                    .is_shared = true,
                    .has_small_slabs = false,
                    .chunk_bytes = std::size_t{1} << 20,
                    .starts_small = false},
                   from);
    heap.lock();
    std::thread([&] { EXPECT_NE(heap.grow(block_request(0, 16, 16)), 0U); }).join();
    slab* const left = record_access::of<of_this_test>::begin_apart(heap);
    heap.unlock();
    intrusive_list<chunk> all;
    upstream::call under_way(from);
    EXPECT_FALSE(heap.detach_all(all, under_way));
    record_access::of<of_this_test>::end_apart(heap, left);
    EXPECT_TRUE(heap.detach_all(all, under_way));
    EXPECT_NE(heap.return_chunks(all, under_way, slab_heap::refused::abandon), 0U);
}

#ifdef __linux__
// No more memory than is asked for, each page of which is resident.
TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_all_the_time_lets_a_reserve_touch_what_it_takes) {
    if (!test::can_count_resident_pages()) GTEST_SKIP();
    constexpr std::size_t k_count = 5'000;
    pooled::pool mine{{.name = "touched", .touch_reserved = true}};
    std::vector<void*> all{mine.allocate(1'504)};
    std::uint64_t const before = mine.stats().upstream_bytes;
    preempted_holder holder(heap_of(mine));
    std::thread([&] { mine.reserve_bytes(k_count, 1'504); }).join();
    EXPECT_TRUE(holder.leave());
    EXPECT_LE(mine.stats().upstream_bytes - before, k_count * 1'504 + (3U << 20));
    std::size_t resident = 0;
    while (all.size() != 1 + k_count) {
        all.push_back(mine.allocate(1'504));
        auto* const page =
            static_cast<std::byte*>(all.back()) - address_of(all.back()) % platform::k_page_bytes;
        resident += test::resident_pages(page, platform::k_page_bytes);
    }
    EXPECT_GE(resident + 100, k_count);
    for (void* const p : all)
        mine.deallocate(p, 1'504);
    EXPECT_TRUE(test::is_valid(mine));
}

// The unwinding of a cancelled thread is no failure of upstream. glibc unwinds with libgcc, which ends a program of libc++ and libunwind.
#ifdef __GLIBCXX__
TEST_F(a_lock_of_a_class, that_is_held_lets_a_thread_be_cancelled_that_reserves) {
    test::counting_upstream books;
    std::atomic<bool> may_return{true};
    std::atomic<bool> is_in{false};
    test::hooked_upstream upstream(books, [&](std::size_t) {
        for (is_in = !may_return; !may_return;)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a cancellation point
    });
    pooled::pool mine{{.upstream = &upstream}};
    mine.deallocate(mine.allocate(64), 64);
    preempted_holder holder(mine);
    may_return = false;
    pthread_t thread{};
    auto const reserve = [](void* of) -> void* {
        static_cast<pooled::pool*>(of)->reserve_bytes(100'000, 64);
        return nullptr;
    };
    ASSERT_EQ(::pthread_create(&thread, nullptr, reserve, &mine), 0);
    while (!is_in)
        std::this_thread::yield();
    ::pthread_cancel(thread);
    void* result = nullptr;
    EXPECT_EQ(::pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    EXPECT_TRUE(holder.leave());
    EXPECT_TRUE(test::is_valid(mine));
}
#endif
#endif

TEST_F(a_lock_of_a_class, that_is_held_stops_a_reserve_that_would_be_refused_without_its_blocks) {
    pooled::pool mine{{.max_bytes = std::size_t{2} << 20}};
    std::vector<void*> all;
    while (void* const p = mine.try_allocate(64))
        all.push_back(p);
    for (std::size_t const freed : {std::size_t{0}, std::size_t{5'000}}) {
        for (std::size_t i = 0; i < freed; ++i, all.pop_back())
            mine.deallocate(all.back(), 64);
        preempted_holder holder(mine);
        expect_wait(holder, [&] {
            if (freed != 0)
                EXPECT_NO_THROW(mine.reserve_bytes(freed, 64));
            else
                EXPECT_THROW(mine.reserve_bytes(1, 64), pooled::exhausted);
        });
        EXPECT_TRUE(test::is_valid(mine));
        preempted_holder heaps(heap_of(mine));
        expect_wait(heaps, [&] { EXPECT_THROW(mine.reserve_bytes(20'000, 64), pooled::exhausted); });
        EXPECT_TRUE(test::is_valid(mine));
    }
    for (void* const p : all)
        mine.deallocate(p, 64);
}

TEST_F(a_lock_of_a_class, that_is_held_stops_a_reserve_for_which_upstream_has_no_memory) {
    bool has_memory = true;
    test::counting_upstream books;
    test::hooked_upstream upstream(books, [&](std::size_t) {
        if (!has_memory) throw std::bad_alloc();
    });
    {
        pooled::pool fresh{{.chunk_bytes = 1U << 20, .upstream = &upstream}};
        void* const one = fresh.allocate(64);
        has_memory = false;
        preempted_holder holder(heap_of(fresh));
        expect_wait(holder, [&] { EXPECT_NO_THROW(fresh.reserve_bytes(100, 1'504)) << "spans are free"; });
        fresh.deallocate(one, 64);
        has_memory = true;
    }
    pooled::pool mine{{.upstream = &upstream}};
    auto const fill = [&mine](std::size_t bytes) {
        std::vector<void*> all;
        while (void* const p = mine.try_allocate(bytes))
            all.push_back(p);
        return all;
    };
    void* const first = mine.allocate(64);
    has_memory = false;
    auto all = fill(64);
    all.push_back(first);
    auto const others = fill(1'504);
    ASSERT_GE(all.size(), 500U);
    for (int i = 0; i < 400; ++i, all.pop_back())
        mine.deallocate(all.back(), 64);
    {
        preempted_holder holder(mine);
        expect_wait(holder, [&] { EXPECT_NO_THROW(mine.reserve_bytes(300, 64)) << "so many are free"; });
    }
    preempted_holder holder(heap_of(mine));
    expect_wait(holder, [&] { EXPECT_NO_THROW(mine.reserve_bytes(300, 64)) << "so many are free"; });
    EXPECT_TRUE(test::is_valid(mine));
    for (void* const p : all)
        mine.deallocate(p, 64);
    for (void* const p : others)
        mine.deallocate(p, 1'504);
}

TEST_F(a_lock_of_a_class, of_the_heap_that_is_held_all_the_time_stops_no_trim) {
    deallocate(pool, allocate(pool, 64));
    ASSERT_NE(heap_of(pool).grow(block_request(k_exact, std::size_t{4} << 20, 16)), 0U);
    std::uint64_t const before = pool.stats().upstream_bytes;
    preempted_holder holder(heap_of(pool));
    pool.trim();
    EXPECT_TRUE(holder.leave());
    pool.trim();
    EXPECT_LE(pool.stats().upstream_bytes, before - (4U << 20));
    expect_nothing_lost();
}

// What was left to the lock's holder is used again.
TEST_F(a_lock_of_a_class,
       of_the_heap_that_is_held_all_the_time_lets_no_pool_grow_that_is_used_again_and_again) {
    constexpr std::size_t k_bytes = 20'000;
    heap_of(pool).lock();
    std::uint64_t first = 0;
    std::thread([&] {
        std::vector<void*> mine(200);
        for (int round = 0; round < 10; ++round) {
            for (void*& p : mine)
                p = pool.allocate(k_bytes);
            for (void* const p : mine)
                pool.deallocate(p, k_bytes);
            if (round == 1) first = pool.stats().upstream_bytes;
        }
    }).join();
    EXPECT_LE(pool.stats().upstream_bytes, first + first / 8);
    heap_of(pool).unlock();
    expect_nothing_lost();
}

// As upstream that has no memory in one piece.
class pieces final : public std::pmr::memory_resource {
    static constexpr std::size_t k_most_bytes = k_slab_bytes / 4;
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        if (bytes > k_most_bytes || ++m_calls > 200) throw std::bad_alloc();
        return ::operator new(bytes, std::align_val_t{align});
    }
    void do_deallocate(void* p, std::size_t, std::size_t align) override {
        ::operator delete(p, std::align_val_t{align});
    }
    [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
        return this == &other;
    }
    int m_calls = 0;
};

TEST_F(a_lock_of_a_class,
       of_the_heap_that_is_held_all_the_time_leaves_the_short_pieces_of_an_upstream_usable) {
    pieces upstream;
    pooled::pool cut{{.upstream = &upstream}};
    preempted_holder holder(heap_of(cut));
    void* p = nullptr;
    EXPECT_NO_THROW(p = cut.allocate(64));
    EXPECT_TRUE(holder.leave());
    if (p != nullptr) cut.deallocate(p, 64);
    EXPECT_EQ(cut.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(cut));
}

// A pool at its bound.
class a_full_pool : public testing::Test {
protected:
    static constexpr std::size_t k_bytes = 1000;
    static constexpr class_index k_class = class_for(k_bytes, 16);
    a_full_pool() {
        while (void* const p = pool.try_allocate(k_bytes))
            all.push_back(p);
        m_count = all.size();
    }
    ~a_full_pool() override {
        for (void* const p : all)
            pool.deallocate(p, k_bytes);
    }
    void give_back(std::size_t count) {
        for (; count != 0; --count, all.pop_back())
            pool.deallocate(all.back(), k_bytes);
    }
    // Frees all blocks while the heap's lock is held, and is then a thread that has in its hands what was left. Until end_apart().
    [[nodiscard]] slab* give_back_to_a_thread_that_looks() {
        preempted_holder holder(heap_of(pool));
        give_back(all.size());
        slab* const left = record_access::of<of_this_test>::begin_apart(heap_of(pool));
        EXPECT_TRUE(holder.leave());
        return left;
    }
    [[nodiscard]] cache_set& caches() { return test::core_of(pool).caches(); }

    pooled::pool pool{{.max_bytes = 1U << 20}};
    std::vector<void*> all;
    std::size_t m_count = 0;
};

TEST_F(a_full_pool, serves_and_takes_back_blocks_while_the_lock_of_its_caches_is_held) {
    give_back(100);
    preempted_holder holder(caches());
    for (int i = 0; i < 20'000; ++i) {  // often enough to look whether it still is at its bound
        void* const p = pool.try_allocate(k_bytes);
        ASSERT_NE(p, nullptr);
        pool.deallocate(p, k_bytes);
    }
    EXPECT_TRUE(holder.leave());
}

// More than there are slots; and all are found again.
TEST_F(a_full_pool, takes_back_blocks_while_the_lock_of_their_class_is_held) {
    std::size_t const count = all.size();
    preempted_holder holder(caches()[k_class]);
    give_back(100);
    EXPECT_TRUE(holder.leave());
    while (void* const p = pool.try_allocate(k_bytes))
        all.push_back(p);
    EXPECT_EQ(all.size(), count);
    EXPECT_EQ(pool.stats().in_use, count);
}

// A block that was deferred just when the lock became free: later ones do not follow it.
TEST_F(a_full_pool, defers_no_block_beside_a_lock_that_is_free) {
    central& list = caches()[k_class];
    class_cache none;
    ASSERT_TRUE(list.defer_half(none, all.back()));
    all.pop_back();
    give_back(100);
    EXPECT_FALSE(list.has_deferred());
    EXPECT_EQ(pool.stats().in_use, all.size());
}

// For another class, too: its last block is at first nowhere but in a list that nobody has locked.
TEST_F(a_full_pool, finds_what_was_deferred_before_it_reports_exhaustion) {
    for (std::size_t const blocks : {1U, 3U, 60U}) {
        preempted_holder holder(caches()[k_class]);
        give_back(all.size());
        std::promise<std::size_t> count;
        std::thread searcher([&] {  // it waits for that lock
            std::vector<void*> got;
            while (void* const p = pool.try_allocate(blocks * k_bytes))
                got.push_back(p);
            count.set_value(got.size());
            for (void* const p : got)
                pool.deallocate(p, blocks * k_bytes);
        });
        EXPECT_TRUE(holder.leave());
        EXPECT_GE(count.get_future().get() * blocks * k_bytes, (1U << 20) * 3 / 4) << blocks;
        searcher.join();
        while (void* const p = pool.try_allocate(k_bytes))
            all.push_back(p);
        EXPECT_GT(all.size(), 900U);
    }
}

// Also for blocks of another class, and those that would have longer slabs otherwise.
TEST_F(a_full_pool, serves_what_was_freed_while_the_lock_of_the_heap_is_held) {
    pooled::pool larger{{.max_bytes = k_small_pool_bytes}};
    for (auto const& [full, other] : {std::pair{&pool, std::size_t{15'000}}, {&larger, 20'000}}) {
        std::vector<void*> mine;
        auto const fill = [&] {
            while (void* const p = full->try_allocate(k_bytes))
                mine.push_back(p);
            return mine.size();
        };
        give_back(all.size());
        std::size_t const count = fill();
        preempted_holder holder(heap_of(*full));
        for (void* const p : mine)
            full->deallocate(p, k_bytes);
        mine.clear();
        void* const one = full->try_allocate(other);
        EXPECT_NE(one, nullptr);
        while (mine.size() < count / 2)
            mine.push_back(full->allocate(k_bytes));
        EXPECT_TRUE(holder.leave());
        full->deallocate(one, other);
        EXPECT_GE(fill(), count);
        EXPECT_TRUE(test::is_valid(*full));
        for (void* const p : mine)
            full->deallocate(p, k_bytes);
    }
}

TEST_F(a_full_pool, reports_no_exhaustion_while_a_thread_looks_at_what_was_left) {
    slab* const left = give_back_to_a_thread_that_looks();
    ASSERT_NE(left, nullptr);
    std::atomic<bool> begins{false};
    std::thread needs_all([&] {
        begins = true;
        while (void* const p = pool.try_allocate(k_bytes))
            all.push_back(p);
    });
    while (!begins)
        std::this_thread::yield();
    std::this_thread::sleep_for(k_long);  // else it might not have looked yet
    record_access::of<of_this_test>::end_apart(heap_of(pool), left);
    needs_all.join();
    EXPECT_EQ(all.size(), m_count);
}

TEST_F(a_full_pool, is_reserved_although_a_thread_looks_at_what_was_left) {
    slab* const left = give_back_to_a_thread_that_looks();
    ASSERT_NE(left, nullptr);
    std::atomic<bool> is_over{false};
    std::thread reserves([&] {
        EXPECT_NO_THROW(pool.reserve_bytes(m_count, k_bytes));
        is_over = true;
    });
    for (int i = 0; i < 10 && !is_over; ++i)
        std::this_thread::sleep_for(k_long);  // else it might not have looked yet
    record_access::of<of_this_test>::end_apart(heap_of(pool), left);
    reserves.join();
}

// Each block that no class serves has its own size.
TEST(a_full_pool_of_large_blocks, gives_no_shorter_one_that_was_freed_while_their_lock_is_held) {
    constexpr std::size_t k_shorter = std::size_t{272} << 10;
    constexpr std::size_t k_longer = std::size_t{528} << 10;
    pooled::pool pool{{.max_bytes = 1U << 20}};
    void* const shorter = pool.allocate(k_shorter);
    void* const longer = pool.allocate(k_longer);
    EXPECT_EQ(pool.try_allocate(k_longer), nullptr);
    preempted_holder holder(test::core_of(pool).caches()[k_exact]);
    pool.deallocate(shorter, k_shorter);
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(pool.try_allocate(k_longer), nullptr);
    pool.deallocate(longer, k_longer);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

// Neither from a thread that has no cache.
TEST_F(a_full_pool, takes_back_blocks_of_a_thread_that_has_ended_while_the_lock_of_their_class_is_held) {
    std::size_t const count = all.size();
    preempted_holder holder(caches()[k_class]);
    std::thread([&] {
        g_registry.end_thread(&t_state());
        give_back(100);
        for (int i = 0; i < 50; ++i)
            all.push_back(pool.try_allocate(k_bytes));
        give_back(50);
    }).join();
    EXPECT_TRUE(holder.leave());
    while (void* const p = pool.try_allocate(k_bytes))
        all.push_back(p);
    EXPECT_EQ(all.size(), count);
}

TEST_F(a_full_pool, serves_what_was_freed_while_the_lock_of_its_class_is_held) {
    std::size_t const count = all.size();
    preempted_holder holder(caches()[k_class]);
    for (int round = 0; round < 3; ++round) {
        give_back(100);
        while (all.size() != count) {
            all.push_back(pool.try_allocate(k_bytes));
            ASSERT_NE(all.back(), nullptr);
        }
    }
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(pool.stats().in_use, count);
}

TEST_F(a_full_pool, gives_a_slab_of_another_class_while_the_lock_of_a_class_is_held) {
    constexpr std::size_t k_large = 60'000;
    give_back(200);
    void* const large = pool.try_allocate(k_large);
    ASSERT_NE(large, nullptr);
    while (void* const p = pool.try_allocate(k_bytes))
        all.push_back(p);
    preempted_holder holder(caches()[k_class]);
    pool.deallocate(large, k_large);
    for (int i = 0; i < 12; ++i)
        all.push_back(pool.try_allocate(k_bytes));
    EXPECT_TRUE(holder.leave());
    for (std::size_t i = all.size() - 12; i < all.size(); ++i)
        EXPECT_NE(all[i], nullptr);
}

// What another class has deferred may be its last block; but a block that is freed meanwhile comes first.
TEST_F(a_full_pool, serves_one_class_while_the_lock_of_another_one_is_held_that_has_deferred) {
    constexpr std::size_t k_other = 2000;
    give_back(100);
    std::vector<void*> others;
    while (void* const p = pool.try_allocate(k_other))
        others.push_back(p);
    ASSERT_FALSE(others.empty());
    while (void* const p = pool.try_allocate(k_bytes))
        all.push_back(p);
    preempted_holder holder(caches()[k_class]);
    give_back(100);
    std::promise<void*> served;
    std::thread searcher([&] { served.set_value(pool.try_allocate(k_other)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it waits
    pool.deallocate(others.back(), k_other);
    others.back() = served.get_future().get();
    EXPECT_TRUE(holder.leave());
    searcher.join();
    EXPECT_NE(others.back(), nullptr);
    for (void* const p : others)
        pool.deallocate(p, k_other);
}

// The blocks that are reserved are in the list of their class.
TEST(a_reserved_pool, takes_more_memory_instead_of_waiting_for_a_holder_that_does_not_run) {
    constexpr std::size_t k_count = 1'000;
    pooled::pool reserved;
    reserved.reserve_bytes(k_count, 64, 8);
    std::vector<void*> all{reserved.allocate(64, 8)};
    preempted_holder holder(reserved);
    while (all.size() != k_count)
        all.push_back(reserved.allocate(64, 8));
    EXPECT_TRUE(holder.leave());
    for (void* const p : all)
        reserved.deallocate(p, 64, 8);
}

#ifdef __linux__
// In a pool that was reserved, a thread does not sleep for the holder of a lock; but once it is known not to run, nobody spins for long.
TEST(a_reserved_pool, neither_sleeps_nor_spins_again_and_again_beside_a_holder_that_does_not_run) {
    if (test::k_sanitized || POOLED_CHECKED) GTEST_SKIP() << "the build is slow";
    constexpr std::size_t k_bytes = 1000;
    for (bool const is_heap : {false, true}) {
        pooled::pool reserved{{.max_bytes = 1U << 20}};
        reserved.reserve_bytes(500, k_bytes);
        std::vector<void*> mine;
        while (void* const p = reserved.try_allocate(k_bytes))
            mine.push_back(p);
        auto const times = [](rusage& r) { ::getrusage(RUSAGE_THREAD, &r); };
        rusage before{};
        rusage after{};
        auto const free_all = [&] {
            times(before);
            for (void* const p : mine)
                reserved.deallocate(p, k_bytes);
            times(after);
        };
        if (is_heap) {
            preempted_holder holder(heap_of(reserved));
            free_all();
            EXPECT_TRUE(holder.leave());
        } else {
            preempted_holder holder(test::core_of(reserved).caches()[class_for(k_bytes, 16)]);
            free_all();
            EXPECT_TRUE(holder.leave());
        }
        EXPECT_LE(after.ru_nvcsw - before.ru_nvcsw, 2) << "it slept; heap: " << is_heap;
        auto const us = [](timeval const& t) { return t.tv_sec * 1'000'000L + t.tv_usec; };
        EXPECT_LT(us(after.ru_utime) - us(before.ru_utime), 50L * static_cast<long>(mine.size()))
            << "it spun; heap: " << is_heap;
        EXPECT_EQ(reserved.stats().in_use, 0U);
    }
}
#endif

// A block that was on its way from a slot to its list came to a list whose slabs were upstream's again.
TEST_F(a_full_pool, discards_no_block_on_its_way_to_its_list) {
    for (int round = 0; round < 40; ++round) {
        give_back(2);
        caches()[k_class].lock();
        std::thread searcher([&] { static_cast<void>(pool.try_allocate(3 * k_bytes)); });
        while (!caches().are_slots_draining())
            std::this_thread::yield();
        caches()[k_class].unlock();
        test::core_of(pool).discard();
        searcher.join();
        test::core_of(pool).discard();
        ASSERT_TRUE(test::is_valid(pool));
        all.clear();
        while (void* const p = pool.try_allocate(k_bytes))
            all.push_back(p);
        ASSERT_GT(all.size(), 900U);
    }
}

TEST_F(a_lock_of_a_class, that_is_held_all_the_time_hides_no_block_that_was_handed_over) {
    constexpr std::size_t k_large = 300'000;
    constexpr class_index c = large_class_for(k_large, 1);
    std::vector<void*> mine(40);
    for (void*& p : mine)
        p = pool.allocate(k_large);
    std::promise<void> is_counted;
    std::promise<void> are_free;
    std::thread other([&] {
        for (void* const p : mine)
            pool.deallocate(p, k_large);
        are_free.set_value();
        is_counted.get_future().wait();
    });
    are_free.get_future().wait();
    preempted_holder holder(test::core_of(pool).caches()[c]);
    pooled::size_class_stats const beside = pool.stats().classes[c];
    EXPECT_TRUE(holder.leave());
    is_counted.set_value();
    other.join();
    EXPECT_EQ(beside.in_use, 0U);
    expect_nothing_lost();
}

// What other threads free counts as left free, of each class, although it is handed over.
TEST_F(a_lock_of_a_class, is_not_needed_to_return_what_was_handed_over) {
    constexpr std::size_t k_each = std::size_t{13} << 20;
    std::vector<std::pair<void*, std::size_t>> mine;
    for (class_index c = k_first_large; c < k_class_count; ++c)
        for (std::size_t i = 0; i < k_each / k_geometry[c].block_bytes; ++i)
            mine.emplace_back(pool.allocate(k_geometry[c].block_bytes - 64), k_geometry[c].block_bytes - 64);
    constexpr std::size_t k_kept = std::size_t{64} << 20;
    EXPECT_GT(pool.stats().upstream_bytes, 4 * k_kept);
    std::thread([&] {
        for (auto const& [p, bytes] : mine)
            pool.deallocate(p, bytes);
        EXPECT_LE(pool.stats().upstream_bytes, k_kept + k_each);
    }).join();
    expect_nothing_lost();
}

// That of the list of caches.
TEST_F(a_lock_of_a_class, of_the_caches_that_is_held_all_the_time_stops_no_thread_that_first_uses_the_pool) {
    preempted_holder holder(test::core_of(pool).caches());
    std::promise<void> is_over;
    std::thread user([&] {
        use(1);
        exchanged.drain([&](block b) { deallocate(pool, b); });
        is_over.set_value();
    });
    is_over.get_future().wait();
    EXPECT_TRUE(holder.leave());
    user.join();
    expect_nothing_lost();
}

// A thread that has caches of pools near and far, and ends when it is told to.
class ending_thread {
public:
    explicit ending_thread(std::function<void()> use)
        : m_thread([this, use] {
              use();
              m_has_caches.set_value();
              m_may_end.get_future().wait();
          }) {
        m_has_caches.get_future().wait();
    }
    void end() {
        m_may_end.set_value();
        m_thread.join();
    }

private:
    std::promise<void> m_has_caches;
    std::promise<void> m_may_end;
    std::thread m_thread;
};

TEST_F(a_lock_of_a_class, of_the_caches_that_is_held_all_the_time_stops_no_thread_that_ends) {
    std::array<std::optional<ending_thread>, 3> threads;
    for (auto& one : threads)
        one.emplace([&] { use(1); });
    preempted_holder holder(test::core_of(pool).caches());
    for (auto& one : threads)
        one->end();
    EXPECT_TRUE(holder.leave());
    EXPECT_EQ(pool.stats().threads, 0U) << "the lock's holder retires their caches";
    exchanged.drain([&](block b) { deallocate(pool, b); });
    expect_nothing_lost();
}

TEST_F(a_lock_of_a_class, of_the_caches_has_nobody_before_what_ended_threads_left_is_done) {
    cache_set& caches = test::core_of(pool).caches();
    std::promise<void> has_left;
    std::promise<void> may_go_on;
    std::thread ends([&] {
        deallocate(pool, allocate(pool, 64));
        record_access::of<of_this_test>::leave_cache(test::core_of(pool), [&] {
            has_left.set_value();
            may_go_on.get_future().wait();
        });
    });
    has_left.get_future().wait();
    {
        scoped_lock const lock(caches);
        EXPECT_EQ(caches.count(), 0U);
    }
    may_go_on.set_value();
    ends.join();
    expect_nothing_lost();
}

// While another thread looks into its cache, as one that was preempted there.
TEST_F(a_lock_of_a_class, of_the_caches_that_is_held_by_a_thread_that_stopped_all_stops_no_thread_that_ends) {
    cache_set& caches = test::core_of(pool).caches();
    ending_thread thread([&] { use(1); });
    std::promise<void> is_over;
    std::promise<void> may_resume;
    std::thread thief([&] {
        scoped_lock const lock(caches);
        EXPECT_TRUE(caches.stop());
        is_over.set_value();
        EXPECT_EQ(may_resume.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
        caches.resume();
    });
    is_over.get_future().wait();
    thread.end();
    may_resume.set_value();
    thief.join();
    EXPECT_EQ(caches.count(), 0U);
    exchanged.drain([&](block b) { deallocate(pool, b); });
    expect_nothing_lost();
}

TEST_F(a_lock_of_a_class, or_the_registrys_that_is_held_all_the_time_stops_no_thread_that_ends) {
    constexpr std::size_t k_bytes = 1000;
    std::vector<std::unique_ptr<pooled::pool>> pools;
    for (std::size_t i = 0; i < 40; ++i)
        pools.push_back(std::make_unique<pooled::pool>(pooled::pool_options{.max_bytes = 1U << 20}));
    std::vector<void*> all;
    ending_thread thread([&] {
        for (auto const& one : pools)
            one->deallocate(one->allocate(k_bytes), k_bytes);
        while (void* const p = pools.front()->try_allocate(k_bytes))  // now it is at its bound
            all.push_back(p);
    });
    {
        preempted_holder holder(record_access::of<of_this_test>::lock_of(g_registry));
        preempted_holder near_one(test::core_of(*pools.front()).caches());
        preempted_holder far_one(test::core_of(*pools.back()).caches());
        thread.end();
        EXPECT_TRUE(holder.leave());
        EXPECT_TRUE(near_one.leave());
        EXPECT_TRUE(far_one.leave());
    }
    for (auto const& one : pools)
        EXPECT_EQ(one->stats().threads, 0U);
    for (void* const p : all)
        pools.front()->deallocate(p, k_bytes);
    for (auto const& one : pools) {
        EXPECT_EQ(one->stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(*one));
    }
    ending_thread([&] { pools.back()->deallocate(pools.back()->allocate(k_bytes), k_bytes); }).end();
}

// Each pool is destroyed while threads that have used it end.
TEST_F(a_lock_of_a_class, is_left_nothing_by_threads_that_end_after_their_pool) {
    for (std::size_t round = 0; round < scaled(500, 100); ++round) {
        auto mine = std::make_unique<pooled::pool>();
        std::atomic<std::size_t> ready{0};
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < 3; ++i)
            threads.emplace_back([&] {
                mine->deallocate(mine->allocate(64), 64);
                ++ready;
            });
        while (ready != threads.size())
            std::this_thread::yield();
        mine.reset();
        for (std::thread& one : threads)
            one.join();
    }
}

// That of the library's own records, which all pools share.
TEST_F(a_lock_of_a_class, of_the_metadata_that_is_held_all_the_time_stops_nobody) {
    std::vector<block> kept;
    preempted_holder holder(record_access::of<of_this_test>::lock_of(g_metadata));
    std::thread([&] {
        for (std::uint64_t seed = 0; seed < 12; ++seed)
            use(seed);
        for (std::size_t const bytes : k_sizes)
            for (std::size_t i = 0; i < (8U << 20) / bytes; ++i)
                kept.push_back(allocate(pool, bytes));
        pooled::pool another;
        another.deallocate(another.allocate(64), 64);
        exchanged.drain([&](block b) { deallocate(pool, b); });
    }).join();
    EXPECT_TRUE(holder.leave());
    for (block const& b : kept)
        deallocate(pool, b);
    expect_nothing_lost();
}

TEST(the_metadata, that_was_reserved_stays_after_a_thread_did_without_its_lock) {
    constexpr std::size_t k_bytes = 9000;
    g_metadata.reserve(k_bytes, 10);
    std::array<void*, 2> apart{};
    preempted_holder holder(record_access::of<of_this_test>::lock_of(g_metadata));
    for (void*& one : apart)
        ASSERT_NE(one = g_metadata.try_allocate(k_bytes), nullptr);
    EXPECT_TRUE(holder.leave());
    void* const reserved = g_metadata.try_allocate(k_bytes);
    for (void* const one : {apart[0], apart[1], reserved})
        g_metadata.deallocate(one, k_bytes);
    EXPECT_GE(record_access::of<of_this_test>::free_pieces(g_metadata, k_bytes), 10U);
}

// Without memory, nothing can be deferred; the cache was freed while it still was in the list.
TEST_F(a_lock_of_a_class, that_is_held_in_a_child_without_memory_keeps_no_cache_of_a_thread_of_before) {
    if (test::k_sanitized || !test::can_end_metadata()) GTEST_SKIP() << "a sanitizer needs memory of its own";
    std::promise<void> has_cache;
    std::promise<void> may_end;
    std::thread other([&] {
        deallocate(pool, allocate(pool, 64));
        has_cache.set_value();
        may_end.get_future().wait();
    });
    has_cache.get_future().wait();
    EXPECT_EQ(test::in_child([&] {
                  central& list = test::core_of(pool).caches()[class_for(64, 8)];
                  std::promise<void> is_held;
                  std::thread holder([&] {
                      scoped_lock const held(list);
                      is_held.set_value();
                      std::this_thread::sleep_for(10 * k_long);
                  });
                  is_held.get_future().wait();
                  test::end_metadata();
                  auto const threads = pool.stats().threads;
                  holder.join();
                  return threads == 0 ? 0 : 1;
              }),
              0);
    may_end.set_value();
    other.join();
}

TEST_F(a_lock_of_a_class, that_is_held_for_long_at_a_fork_leaves_the_child_all_blocks) {
    if (POOLED_STRESS_TSAN) GTEST_SKIP() << "ThreadSanitizer cannot follow a fork of a process with threads";
    {
        lock_holder const holder(pool);
        std::atomic<std::uint64_t> seed{0};
        repeatedly const one([&] { use(++seed); });
        repeatedly const two([&] { use(++seed); });
        for (std::size_t i = 0; i < scaled(30, 10); ++i)
            EXPECT_EQ(test::in_child([&] {
                          for (std::size_t bytes : k_sizes) {
                              std::vector<block> mine;
                              for (std::size_t n = 0; n < 300 && n * bytes < (8U << 20); ++n)
                                  mine.push_back(allocate(pool, bytes));
                              for (block const& b : mine)
                                  deallocate(pool, b);
                          }
                          pool.trim();
                          return g_damaged == 0 && test::is_valid(pool) ? 0 : 1;
                      }),
                      0)
                << i;
    }
    expect_nothing_lost();
}

}  // namespace
