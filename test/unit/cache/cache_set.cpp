// SPDX-License-Identifier: BSL-1.0
// All caches of one pool: what a thread's slow path does to its cache, and what happens to all caches at once.

#include "pooled/cache/cache_set.hpp"

#include "pooled/cache/at_bound.hpp"
#include "pooled/cache/defer.hpp"
#include "pooled/cache/steal.hpp"

#include "stress/common.hpp"
#include "support/counting_upstream.hpp"
#include "support/in_child.hpp"
#include "support/no_metadata.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

POOLED_BEGIN_NAMESPACE
namespace detail {
template <>
struct record_access::of<struct of_cache_test> {
    static bound_slots& slots_of(cache_set& set) { return set.m_slots; }
    static bool are_barred(cache_set const& set) {
        return set.m_are_slots_barred.load(std::memory_order_relaxed);
    }
    static deferred_list& deferred_of(cache_set& set, class_index c) { return set.m_pool.deferred[c]; }
};
}  // namespace detail
POOLED_END_NAMESPACE

namespace {

using namespace pooled::detail;

bound_slots& slots_of(cache_set& set) { return record_access::of<of_cache_test>::slots_of(set); }
template <class Then>
bool steal_all(cache_set& set, Then&& then) {
    return set.with_all([&] { return set.collect_all(), then(); });
}
deferred_list& deferred_of(cache_set& set, class_index c) {
    return record_access::of<of_cache_test>::deferred_of(set, c);
}

class cache_set_test : public testing::Test {
protected:
    static constexpr class_index k_class = class_for(48, 8);
    static constexpr class_index k_other = class_for(1500, 8);
    static constexpr std::uint32_t k_pool_id = 60'003;  // no pool of this program has it

    cache_set_test() {
        EXPECT_TRUE(platform::has_heavy_barrier());
        EXPECT_TRUE(heap.grow(k_class));
        std::scoped_lock const lock(set);
        for (std::size_t i = 0; i < 2; ++i) {
            caches[i].owner = &owners[i];
            set.link(caches[i]);
        }
    }
    ~cache_set_test() override {
        std::scoped_lock const lock(set);
        while (thread_cache* const cache = set.first())
            set.retire(*cache);
    }
    // As the slow and the fast path of its owner do.
    [[nodiscard]] std::vector<void*> take(thread_cache& cache, class_index c, std::size_t count) {
        std::vector<void*> blocks;
        for (std::size_t i = 0; i < count; ++i) {
            void* const cached = cache.classes[c].pop();
            blocks.push_back(cached != nullptr ? cached : set.allocate(c, &cache));
        }
        return blocks;
    }
    void enter_bound() {
        std::scoped_lock const lock(set);
        set.enter_bound();
    }
    bool leave_bound() {
        std::scoped_lock const lock(set);
        return set.leave_bound();
    }
    // All blocks of a pool that is at its bound from now on.
    [[nodiscard]] std::vector<void*> fill_to_the_bound() {
        enter_bound();
        std::vector<void*> all;
        while (void* const p = set.allocate(k_class, &caches[0]))
            all.push_back(p);
        EXPECT_GT(all.size(), 100U);
        return all;
    }
    void give_back(thread_cache& cache, class_index c, std::vector<void*> const& blocks) {
        for (void* const p : blocks)
            EXPECT_TRUE(cache.classes[c].push(p) || set.deallocate(c, &cache, p));
    }

    test::counting_upstream memory;
    upstream from{&memory, 0, false};
    slab_heap heap{{.pool_id = k_pool_id,
                    .is_shared = true,
                    .has_small_slabs = false,
                    .chunk_bytes = 16 * k_slab_bytes,
                    .starts_small = false},
                   from};
    std::array<thread_state, 2> owners{};
    std::array<thread_cache, 2> caches;
    cache_set set{heap, k_pool_id, true};
};

TEST_F(cache_set_test, lets_the_array_of_a_class_grow_as_it_is_used) {
    thread_cache& cache = caches[0];
    std::vector<void*> blocks{set.allocate(k_class, &cache)};
    EXPECT_EQ(cache.classes[k_class].capacity(), thread_cache::k_first_capacity);
    auto const more = take(cache, k_class, 1000);
    EXPECT_EQ(cache.classes[k_class].capacity(), k_geometry[k_class].cache_blocks);
    EXPECT_EQ(cache.classes[k_other].capacity(), 0U) << "a class that is not used has no array";
    give_back(cache, k_class, more);
    give_back(cache, k_class, blocks);
    EXPECT_LE(cache.classes[k_class].held(), k_geometry[k_class].burst_blocks() + 1);
}

TEST_F(cache_set_test, caches_more_for_a_thread_that_frees_what_it_allocated) {
    constexpr std::uint32_t k_most = k_geometry[k_class].burst_blocks();
    class_cache const& mine = caches[0].classes[k_class];
    ASSERT_TRUE(heap.grow(k_class));
    auto const blocks = take(caches[0], k_class, 2 * k_most);
    ASSERT_EQ(blocks.size(), 2 * k_most);
    EXPECT_EQ(mine.capacity(), k_geometry[k_class].cache_blocks) << "nothing was freed yet";
    give_back(caches[0], k_class, blocks);
    EXPECT_EQ(mine.capacity(), k_most);
    EXPECT_EQ(caches[0].array_bytes, k_most * k_geometry[k_class].block_bytes);
    EXPECT_GE(mine.held(), k_most / 2) << "the next burst finds them";
}

TEST_F(cache_set_test, caches_the_usual_number_of_what_others_allocated) {
    std::uint32_t const usual = k_geometry[k_class].cache_blocks;
    class_cache const& mine = caches[0].classes[k_class];
    ASSERT_TRUE(heap.grow(k_class));
    std::size_t const burst = 2 * k_geometry[k_class].burst_blocks();
    give_back(caches[0], k_class, take(caches[0], k_class, burst));
    ASSERT_GT(mine.capacity(), usual);
    for (int i = 0; i < 3; ++i)
        give_back(caches[0], k_class, take(caches[1], k_class, burst));
    EXPECT_EQ(mine.capacity(), usual);
    EXPECT_EQ(caches[0].array_bytes, usual * k_geometry[k_class].block_bytes);
    EXPECT_LE(mine.held(), usual + 1);
    EXPECT_TRUE(mine.is_valid());
}

TEST_F(cache_set_test, gives_an_array_to_who_frees_before_it_allocates) {
    auto const blocks = take(caches[0], k_class, 2);
    class_cache& receiver = caches[1].classes[k_class];
    ASSERT_FALSE(caches[1].push(k_class, blocks[0]));
    EXPECT_TRUE(set.deallocate(k_class, &caches[1], blocks[0]));
    EXPECT_EQ(receiver.capacity(), thread_cache::k_first_capacity);
    EXPECT_EQ(receiver.pop(), blocks[0]);
    EXPECT_TRUE(receiver.push_array(blocks[0])) << "as operator delete does";
    EXPECT_TRUE(caches[1].push(k_class, blocks[1]));
}

TEST_F(cache_set_test, gives_an_array_to_who_uses_a_class_again_that_was_drained) {
    class_cache& mine = caches[0].classes[k_class];
    ASSERT_TRUE(heap.grow(k_class));
    give_back(caches[0], k_class, take(caches[0], k_class, 64 * k_geometry[k_class].cache_blocks));
    ASSERT_EQ(mine.capacity(), 0U);
    void* const block = mine.pop();
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(set.deallocate(k_class, &caches[0], block));
    EXPECT_NE(mine.capacity(), 0U) << "otherwise each operator delete takes the slow path";
}

TEST_F(cache_set_test, uses_what_a_stopped_owner_has_cached) {
    auto const blocks = take(caches[0], k_class, 1);
    ASSERT_TRUE(caches[0].classes[k_class].push(blocks[0]));
    std::size_t const held = caches[0].classes[k_class].held();
    EXPECT_EQ(set.allocate(k_class, &caches[0]), blocks[0])
        << "its gate was shut: it comes here, and has blocks";
    EXPECT_EQ(caches[0].classes[k_class].held(), held - 1);
    EXPECT_TRUE(set.deallocate(k_class, &caches[0], blocks[0]));
    EXPECT_EQ(caches[0].classes[k_class].held(), held);
}

TEST_F(cache_set_test, steals_all_classes_at_one_moment) {
    for (thread_cache& cache : caches) {
        give_back(cache, k_class, take(cache, k_class, 100));
        give_back(cache, k_other, take(cache, k_other, 10));
    }
    std::scoped_lock const lock(set);
    bool const could_enter = steal_all(set, [&] { return caches[0].gate.enter() || caches[1].gate.enter(); });
    EXPECT_FALSE(could_enter);
    EXPECT_EQ(set[k_class].outside() + set[k_other].outside(), 0U);
}

TEST_F(cache_set_test, steals_from_those_who_took_no_slow_path_since_the_last_time) {
    give_back(caches[0], k_class, take(caches[0], k_class, 100));
    give_back(caches[1], k_class, take(caches[1], k_class, 100));
    std::scoped_lock const lock(set);
    caches[0].slow_calls.add(1);
    caches[1].slow_calls.add(1);
    set.steal_from_idle();
    EXPECT_NE(caches[0].classes[k_class].held(), 0U);
    EXPECT_NE(caches[1].classes[k_class].held(), 0U);
    caches[1].slow_calls.add(1);
    set.steal_from_idle();
    EXPECT_EQ(caches[0].classes[k_class].held(), 0U);
    EXPECT_NE(caches[1].classes[k_class].held(), 0U) << "it is busy";
    set.steal_from_idle();
    EXPECT_EQ(caches[1].classes[k_class].held(), 0U);
}

TEST_F(cache_set_test, gives_back_what_an_owner_did_not_need_lately) {
    give_back(caches[0], k_class, take(caches[0], k_class, 600));
    give_back(caches[0], k_other, take(caches[0], k_other, 10));
    set.flush_unused(caches[0]);
    set.flush_unused(caches[0]);
    EXPECT_LE(caches[0].classes[k_class].held(), 1U) << "the block freed last";
    EXPECT_LE(caches[0].classes[k_other].held(), 1U);
    EXPECT_LE(set[k_class].outside(), 1U);
}

// Both count the bytes of large blocks that the cache has.
TEST_F(cache_set_test, returns_no_large_block_while_another_thread_may_steal_it) {
    constexpr class_index k_large_one = large_class_for(300'000, 16);
    thread_cache& cache = caches[0];
    ASSERT_TRUE(heap.grow(k_large_one));
    void* const block = set.allocate(k_large_one, &cache);
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(cache.push(k_large_one, block));
    {
        std::scoped_lock const lock(set);
        std::thread([&] { set.flush_unused(cache); }).join();
        EXPECT_EQ(cache.classes[k_large_one].held(), 1U);
    }
    set.flush_unused(cache);
    EXPECT_EQ(cache.classes[k_large_one].held(), 0U);
    EXPECT_EQ(cache.large_bytes, 0U);
}

TEST_F(cache_set_test, waits_for_no_thread_that_has_the_lock_of_a_class) {
    auto const blocks = take(caches[0], k_class, 2000);
    set[k_class].lock();  // as a thread that was preempted there
    give_back(caches[0], k_class, blocks);
    EXPECT_EQ(caches[0].classes[k_class].net_taken(), caches[0].classes[k_class].held());
    std::vector<void*> again =
        take(caches[1], k_class, 3000);  // those that were freed, and of slabs that are new to the class
    set.retire_classes(caches[0]);
    set[k_class].unlock();
    EXPECT_EQ(set[k_class].outside(), 3000 + caches[1].classes[k_class].held());
    give_back(caches[1], k_class, again);
    std::sort(again.begin(), again.end());
    EXPECT_NE(again.front(), nullptr);
    EXPECT_EQ(std::unique(again.begin(), again.end()), again.end());
    std::scoped_lock const lock(set);
    steal_all(set, [] { return true; });
    EXPECT_EQ(set[k_class].outside(), 0U);
    EXPECT_TRUE(set[k_class].is_valid());
    EXPECT_TRUE(heap.is_valid());
    EXPECT_EQ(heap.free_bytes(), 16 * k_slab_bytes) << "a slab that was deferred has returned";
}

TEST_F(cache_set_test, waits_for_no_thread_that_has_the_lock_of_large_blocks) {
    constexpr class_index k_large_one = large_class_for(60'000, 16);
    std::array<void*, 8> blocks{};
    for (void*& one : blocks)
        while ((one = set.allocate({k_large_one}, &caches[0])) == nullptr)
            ASSERT_TRUE(heap.grow(k_large_one));
    set[k_large_one].lock();
    for (void* const one : blocks)
        EXPECT_TRUE(caches[0].push(k_large_one, one) || set.deallocate(k_large_one, &caches[0], one));
    for (void*& one : blocks)
        while ((one = set.allocate({k_large_one}, &caches[1])) == nullptr)
            ASSERT_TRUE(heap.grow(k_large_one)) << "it has the heap grow";
    set[k_large_one].unlock();
    for (void* const one : blocks)
        EXPECT_TRUE(caches[1].push(k_large_one, one) || set.deallocate(k_large_one, &caches[1], one));
    std::scoped_lock const lock(set);
    steal_all(set, [] { return true; });
    EXPECT_EQ(set[k_large_one].outside(), 0U);
    EXPECT_EQ(caches[0].large_bytes + caches[1].large_bytes, 0U);
    EXPECT_TRUE(heap.is_valid());
}

// As a thread does that frees what another one allocated, while a third one was preempted with the lock.
TEST_F(cache_set_test, hands_large_blocks_over_without_the_lock_of_their_class) {
    for (class_index const c : {large_class_for(60'000, 16), large_class_for(1'000'000, 16)}) {
        std::array<void*, 24> blocks{};
        for (void*& one : blocks)
            while ((one = set.allocate({c}, &caches[0])) == nullptr)
                ASSERT_TRUE(heap.grow(c));
        EXPECT_FALSE(set.hand_over(c, caches[0], blocks[0]))
            << "a thread that allocates such blocks keeps it";
        auto const give = [&](void* one) {
            return caches[1].push(c, one) || set.hand_over(c, caches[1], one);
        };
        std::size_t given = 0;
        for (; given != 20; ++given)
            EXPECT_TRUE(give(blocks[given]) || set.deallocate(c, &caches[1], blocks[given]));
        set[c].lock();
        set[c].adopt();
        EXPECT_EQ(set[c].handed(), 0U) << "who has the lock has what was handed over";
        for (; given != blocks.size(); ++given)
            EXPECT_TRUE(give(blocks[given]));
        if (c >= k_inlined_classes) {
            void* const one = set.take_handed(c, caches[0]);
            EXPECT_NE(one, nullptr) << "four of 1 MiB are a batch";
            EXPECT_TRUE(give(one));
            caches[1].classes[c].add_net_taken(1);
            caches[0].classes[c].add_net_taken(-1);
        }
        std::uint32_t const handed = set[c].handed();
        set[c].unlock();
        EXPECT_GT(handed, 0U);
        EXPECT_LE(handed * std::size_t{k_geometry[c].block_bytes},
                  handed_blocks::k_batches * handed_blocks::k_most_bytes);
        EXPECT_EQ(set[c].outside(), handed + caches[0].classes[c].held() + caches[1].classes[c].held());
        EXPECT_EQ(caches[1].classes[c].net_frees(), blocks.size());

        std::size_t const free_bytes = heap.free_bytes();
        std::vector<void*> again(set[c].free() + handed + caches[0].classes[c].held());
        for (void*& one : again)
            ASSERT_NE(one = set.allocate({c}, &caches[0]), nullptr);
        EXPECT_EQ(heap.free_bytes(), free_bytes) << "what was handed over is used before other memory";
        for (void* const one : again)
            EXPECT_TRUE(set.deallocate(c, &caches[0], one));
        std::sort(again.begin(), again.end());
        EXPECT_EQ(std::unique(again.begin(), again.end()), again.end());
        std::scoped_lock const lock(set);
        steal_all(set, [] { return true; });
        EXPECT_EQ(set[c].outside(), 0U);
        EXPECT_TRUE(set[c].is_valid() && heap.is_valid());
    }
}

TEST_F(cache_set_test, gives_memory_to_other_classes_that_was_handed_over) {
    constexpr class_index c = large_class_for(300'000, 16);
    std::array<void*, 16> blocks{};
    for (void*& one : blocks)
        while ((one = set.allocate({c}, &caches[0])) == nullptr)
            ASSERT_TRUE(heap.grow(c));
    for (void* const one : blocks)
        EXPECT_TRUE(caches[1].push(c, one) || set.hand_over(c, caches[1], one) ||
                    set.deallocate(c, &caches[1], one));
    EXPECT_GT(set[c].handed(), 0U);
    EXPECT_GE(set.recent_bytes(), set[c].handed() * std::size_t{k_geometry[c].block_bytes});
    set.drain_recent();
    EXPECT_EQ(set.recent_bytes(), 0U);
    EXPECT_EQ(set[c].outside(), caches[1].classes[c].held());
    EXPECT_GT(set.end_handed(c), 0U);
    EXPECT_EQ(set.end_handed(c), 0U) << "none since then";
}

TEST_F(cache_set_test, knows_of_free_blocks_that_were_deferred_after_the_last_look) {
    std::vector<void*> blocks = take(caches[0], k_class, 2000);
    set[k_class].lock();
    EXPECT_TRUE(set[k_class].defer_half(caches[0].classes[k_class], blocks.back()));
    EXPECT_FALSE(set[k_class].has_nothing()) << "otherwise a request at the bound fails falsely";
    blocks.pop_back();
    set[k_class].unlock();
    EXPECT_FALSE(set[k_class].has_nothing());
    give_back(caches[0], k_class, blocks);
}

TEST_F(cache_set_test, counts_the_blocks_of_a_slab_before_it_has_the_lock_of_the_class) {
    auto const first = take(caches[0], k_class, 1);
    set[k_class].lock();
    std::uint64_t const before = set[k_class].capacity();
    std::uint64_t const bytes = set[k_class].slab_bytes();
    auto const more =
        take(caches[1], k_class, before + 1);  // their owners may free them before anybody settles
    EXPECT_EQ(set[k_class].capacity(), 3 * before);
    EXPECT_EQ(set[k_class].slab_bytes(), 3 * bytes);
    set[k_class].unlock();
    EXPECT_EQ(set[k_class].capacity(), 3 * before);
    give_back(caches[1], k_class, more);
    give_back(caches[0], k_class, first);
    std::scoped_lock const lock(set);
    steal_all(set, [] { return true; });
    EXPECT_EQ(set[k_class].capacity(), 0U);
    EXPECT_EQ(set[k_class].slab_bytes(), 0U);
    EXPECT_GE(set[k_class].note_high_water(0), before + 1);
    EXPECT_LE(set[k_class].note_high_water(0), 3 * before);
}

TEST_F(cache_set_test, keeps_the_count_of_remote_frees_when_others_take_what_an_ended_thread_deferred) {
    auto const blocks = take(caches[0], k_class, 2000);
    caches[0].classes[k_class].add_net_taken(-caches[0].classes[k_class].net_taken());  // another's blocks
    std::uint32_t const held = caches[0].classes[k_class].held();
    give_back(caches[0], k_class, blocks);
    std::uint64_t const frees = caches[0].classes[k_class].net_frees();
    ASSERT_EQ(frees, 2000 + held);
    set[k_class].lock();
    set.retire_classes(caches[0]);
    auto const again = take(caches[1], k_class, 3000);  // all of these, and a slab
    set[k_class].unlock();
    set.retire_classes(caches[0]);  // as its thread's end does then
    EXPECT_EQ(set[k_class].retired_remote_frees(), frees);
    give_back(caches[1], k_class, again);
}

TEST_F(cache_set_test, leaves_an_ended_thread_no_array_and_nothing_deferred_that_has_no_block) {
    auto const first = take(caches[0], k_class, 100);
    class_cache& mine = caches[0].classes[k_class];
    auto const rest = take(caches[0], k_class, mine.held());
    ASSERT_GT(mine.capacity(), 0U);
    ASSERT_EQ(mine.held(), 0U);
    set[k_class].lock();
    set.retire_classes(caches[0]);
    EXPECT_FALSE(set[k_class].has_deferred());
    EXPECT_EQ(mine.capacity(), 0U);
    set[k_class].unlock();
    give_back(caches[1], k_class, first);
    give_back(caches[1], k_class, rest);
}

TEST_F(cache_set_test, knows_what_it_did_not_need_since_it_deferred_half) {
    auto const blocks = take(caches[0], k_class, 2000);
    class_cache& mine = caches[0].classes[k_class];
    auto const rest = take(caches[0], k_class, mine.held());
    ASSERT_EQ(mine.least_held(), 0U);
    set[k_class].lock();
    give_back(caches[0], k_class, blocks);
    EXPECT_GE(mine.least_held(), mine.capacity() / 2 - 1);
    set[k_class].unlock();
    give_back(caches[0], k_class, rest);
}

TEST_F(cache_set_test, changes_nothing_when_there_is_no_memory_to_defer) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer needs memory of its own";
    if (!test::can_end_metadata()) GTEST_SKIP() << "the address space has no limit here";
    auto const blocks = take(caches[0], k_class, 100);
    EXPECT_EQ(test::in_child([&] {
                  central& list = set[k_class];
                  class_cache& mine = caches[0].classes[k_class];
                  class_cache none;
                  std::uint32_t const held = mine.held();
                  std::size_t const free = heap.free_bytes();
                  list.lock();
                  test::end_metadata();
                  for (std::uint32_t room = 1; room <= k_slab_bytes / 48; ++room)  // pieces that are left
                      while (deferred_blocks::make(room) != nullptr) {}
                  return !list.defer_half(mine, blocks.back()) && !list.defer_all(mine) &&
                         !set.retire_classes(caches[0]) && mine.held() == held &&
                         list.refill_deferred(none, {k_class}) == nullptr && heap.free_bytes() == free &&
                         !list.has_deferred();
              }),
              0);
    give_back(caches[0], k_class, blocks);
}

TEST_F(cache_set_test, settles_in_time_what_was_deferred_when_the_lock_was_about_to_be_free) {
    std::vector<void*> blocks = take(caches[0], k_class, 2000);
    EXPECT_TRUE(set[k_class].defer_half(caches[0].classes[k_class], blocks.back()));
    blocks.pop_back();
    set.drain_recent();  // as once in a period, and by a thread that looks for a free slab
    EXPECT_FALSE(set[k_class].has_deferred());
    give_back(caches[0], k_class, blocks);
}

TEST_F(cache_set_test, keeps_all_owners_out_while_it_is_at_the_bound) {
    thread_cache late;
    late.owner = &t_state();
    {
        std::scoped_lock const lock(set);
        set.enter_bound();
        set.link(late);
        set.steal(k_class, 1);  // resumes nobody
    }
    for (thread_cache* const cache : {&caches[0], &caches[1], &late})
        EXPECT_FALSE(cache->gate.enter());
    std::scoped_lock const lock(set);
    set.leave_bound();
    for (thread_cache* const cache : {&caches[0], &caches[1], &late}) {
        EXPECT_TRUE(cache->gate.enter());
        cache->gate.leave();
    }
    set.retire(late);
}

TEST_F(cache_set_test, has_no_block_in_any_cache_while_it_is_at_the_bound) {
    for (thread_cache& cache : caches)
        give_back(cache, k_class, take(cache, k_class, 100));
    std::uint32_t const epoch = set.bound_epoch();
    EXPECT_FALSE(set.is_at_bound());
    enter_bound();
    enter_bound();
    EXPECT_TRUE(set.is_at_bound());
    EXPECT_NE(set.bound_epoch(), epoch);
    EXPECT_EQ(set[k_class].outside(), 0U);
    void* const p = set.allocate(k_class, &caches[0]);
    EXPECT_EQ(set[k_class].outside(), 1U) << "none in advance";
    EXPECT_TRUE(set.deallocate(k_class, &caches[1], p));
    EXPECT_EQ(caches[1].classes[k_class].held(), 0U);
    EXPECT_EQ(set.allocate(k_class, nullptr), p) << "for any thread";
    EXPECT_TRUE(set.deallocate(k_class, &caches[1], p));
    EXPECT_TRUE(set.deallocate(k_class, &caches[0], set.allocate(k_class, &caches[0])));
    EXPECT_EQ(caches[0].classes[k_class].net_frees(), 0U) << "its own block";
    set.try_drain_slots();
    EXPECT_EQ(set[k_class].outside(), 0U);
    EXPECT_FALSE(caches[0].gate.enter());
    leave_bound();
    leave_bound();
    EXPECT_FALSE(set.is_at_bound());
    ASSERT_TRUE(caches[0].gate.enter());
    caches[0].gate.leave();
    give_back(caches[0], k_class, take(caches[0], k_class, 100));
    EXPECT_NE(set[k_class].outside(), 0U) << "caches are used again";
    EXPECT_EQ(caches[1].classes[k_class].net_frees(), 2U) << "it freed blocks for other threads";
}

TEST(bound_slots_test, are_not_taken_for_untouched_however_often_a_block_came_and_went) {
    bound_slots slots;
    bound_slots::view seen;
    constexpr class_index k_class = class_for(48, 8);
    ASSERT_EQ(slots.pop(k_class, seen), nullptr);
    EXPECT_TRUE(slots.were_empty(seen));
    alignas(64) std::byte block[64];
    for (int i = 0; i < 10'000; ++i) {
        bound_slots::view unused;
        ASSERT_NE(slots.push(k_class, block), 0U);
        ASSERT_EQ(slots.pop(k_class, unused), block);
        ASSERT_FALSE(slots.were_empty(seen)) << i;
    }
}

TEST(bound_slots_test, are_not_taken_for_empty_when_a_block_was_deferred_instead) {
    bound_slots slots;
    bound_slots::view seen;
    constexpr class_index k_class = class_for(48, 8);
    ASSERT_EQ(slots.pop(k_class, seen), nullptr);
    slots.enter_deferral();
    EXPECT_FALSE(slots.were_empty(seen));
    ASSERT_EQ(slots.pop(k_class, seen), nullptr);
    slots.end_deferred(slots.deferrals());
    ASSERT_EQ(slots.pop(k_class, seen), nullptr);
    EXPECT_FALSE(slots.were_empty(seen)) << "another thread has it in its hands";
    slots.leave_deferral();
    ASSERT_EQ(slots.pop(k_class, seen), nullptr);
    EXPECT_FALSE(slots.were_empty(seen)) << "it may have come to its list after that was looked at";
    slots.end_deferred(slots.deferrals());
    EXPECT_FALSE(slots.were_empty(seen)) << "the list may have been looked at before";
    ASSERT_EQ(slots.pop(k_class, seen), nullptr);
    EXPECT_TRUE(slots.were_empty(seen));
}

// Their addresses lie in metadata, which no bound counts.
TEST_F(cache_set_test, defers_a_block_at_the_bound_for_sixteen_bytes) {
    constexpr std::size_t k_threads = 3;
    constexpr std::size_t k_each = 2000;
    auto const all = fill_to_the_bound();
    std::size_t const each = std::min(k_each, all.size() / k_threads);
    set[k_class].lock();
    stress::on_threads(k_threads, [&](std::size_t index) {
        for (std::size_t i = index * each; i < (index + 1) * each; ++i)
            EXPECT_TRUE(set.deallocate(k_class, nullptr, all[i]));
    });
    std::size_t blocks = 0;
    std::size_t bytes = 0;
    deferred_blocks* const taken = deferred_of(set, k_class).take_all();
    for (deferred_blocks* one = taken; one != nullptr; one = one->next) {
        blocks += one->count;
        bytes += (sizeof(deferred_blocks) + one->room * sizeof(void*) + 127) / 128 * 128;
    }
    deferred_of(set, k_class).put_back(taken);
    EXPECT_GE(blocks + bound_slots::k_count, k_threads * each);
    EXPECT_LE(bytes, 16 * blocks);
    set[k_class].unlock();
    for (std::size_t i = k_threads * each; i < all.size(); ++i)
        EXPECT_TRUE(set.deallocate(k_class, nullptr, all[i]));
    EXPECT_TRUE(leave_bound());
    EXPECT_EQ(set[k_class].outside(), 0U);
}

// A thread that was preempted has the lock of their class; they are a slab that another class needs.
TEST_F(cache_set_test, finds_what_was_deferred_at_the_bound) {
    auto all = fill_to_the_bound();
    set[k_class].lock();
    for (void* const p : all)
        EXPECT_TRUE(set.deallocate(k_class, &caches[1], p));
    for (std::size_t i = 0; i < bound_slots::k_count; ++i) {
        bound_slots::view unused;
        if (void* const p = slots_of(set).pop(k_class, unused)) all.push_back(p);
    }
    EXPECT_TRUE(set[k_class].has_deferred());
    std::atomic<bool> is_over{false};
    void* other = nullptr;
    std::thread searcher([&] {
        other = set.allocate(k_other, &caches[0]);
        is_over = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(is_over) << "what is free is not known";
    set[k_class].unlock();
    searcher.join();
    ASSERT_NE(other, nullptr);
    EXPECT_TRUE(set.deallocate(k_other, &caches[0], other));
    for (std::size_t i = all.size(); i-- != 0 && set[k_class].outside() != 0;)
        EXPECT_TRUE(set.deallocate(k_class, &caches[1], all[i]));
    EXPECT_TRUE(leave_bound());
    EXPECT_EQ(set[k_class].outside() + set[k_other].outside(), 0U);
}

// A thread has it in its hands just while another one takes the locks of all classes.
TEST_F(cache_set_test, finds_what_comes_back_at_the_bound_while_it_takes_all_locks) {
    auto const all = fill_to_the_bound();
    for (int round = 0; round < 20; ++round) {
        deferred_blocks* const batch = deferred_blocks::make(deferred_blocks::k_few);
        ASSERT_NE(batch, nullptr);
        batch->put(all.back());
        slots_of(set).enter_deferral();
        set[k_exact].lock();  // the last one
        void* found = nullptr;
        std::thread searcher([&] { found = set.allocate(k_class, &caches[1]); });
        auto const has_it = [&] {
            if (!record_access::of<of_cache_test>::are_barred(set)) return false;
            bool const is_free = set[k_class].try_lock();
            if (is_free) set[k_class].unlock();
            return !is_free;
        };
        while (!has_it())
            std::this_thread::yield();
        deferred_of(set, k_class).push(*batch);
        slots_of(set).leave_deferral();
        set[k_exact].unlock();
        searcher.join();
        ASSERT_EQ(found, all.back()) << round;
        caches[1].classes[k_class].add_net_taken(-1);
    }
    for (void* const p : all)
        EXPECT_TRUE(set.deallocate(k_class, &caches[1], p));
    EXPECT_TRUE(leave_bound());
    EXPECT_EQ(set[k_class].outside(), 0U);
}

TEST_F(cache_set_test, finds_every_free_block_at_the_bound) {
    auto const all = fill_to_the_bound();
    for (std::size_t free : {1U, 2U, 70U}) {  // in a slot; and in slabs; and a whole slab for another class
        for (std::size_t i = 0; i < free; ++i)
            EXPECT_TRUE(set.deallocate(k_class, &caches[1], all[i]));
        for (std::size_t i = 0; i < free; ++i)
            EXPECT_NE(set.allocate(k_class, &caches[i % 2]), nullptr);
        EXPECT_EQ(set.allocate(k_class, &caches[0]), nullptr);
    }
    for (void* const p : all)
        EXPECT_TRUE(set.deallocate(k_class, &caches[1], p));
    void* const other = set.allocate(k_other, &caches[0]);
    EXPECT_NE(other, nullptr) << "a block in a slot keeps no slab from another class";
    EXPECT_TRUE(set.deallocate(k_other, &caches[0], other));
    leave_bound();
    EXPECT_EQ(set[k_class].outside(), 0U);
    EXPECT_EQ(set[k_other].outside(), 0U);
}

TEST_F(cache_set_test, sets_the_bits_of_recent_blocks_when_other_classes_may_need_their_slabs) {
    auto const blocks = take(caches[0], k_class, 600);
    auto const flush_two = [&] {
        std::scoped_lock const lock(set[k_class]);
        std::vector<void*> const apart{blocks[0], blocks[500]};
        set[k_class].flush(apart);
        EXPECT_TRUE(set[k_class].has_recent());
    };
    flush_two();
    set.drain_recent();
    EXPECT_FALSE(set[k_class].has_recent());
    for (int i = 0; i < 2; ++i)
        EXPECT_NE(set.allocate(k_class, nullptr), nullptr);
    flush_two();
    {
        std::scoped_lock const lock(set);
        steal_all(set, [] { return true; });
    }
    EXPECT_FALSE(set[k_class].has_recent());
    for (int i = 0; i < 2; ++i)
        EXPECT_NE(set.allocate(k_class, nullptr), nullptr);
    give_back(caches[0], k_class, blocks);
}

}  // namespace
