// SPDX-License-Identifier: BSL-1.0
// The central free list of one class: refills with what was flushed last and then with ascending addresses, and slabs that come from the
// heap and go back to it at once when they are empty.

#include "pooled/cache/central.hpp"

#include "pooled/cache/defer.hpp"

#include "support/counting_upstream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

class central_test : public testing::Test {
protected:
    static constexpr class_index k_class = class_for(1024, 8);
    static constexpr std::uint32_t k_per_slab = k_geometry[k_class].blocks_in(k_slab_bytes);
    static constexpr std::uint32_t k_pool_id = 60'002;  // no pool of this program has it

    central_test() {
        EXPECT_TRUE(heap.grow(k_class));
        EXPECT_TRUE(cache.reserve(16));
    }
    ~central_test() override {
        std::scoped_lock const lock(*list);
        list->retire(cache);
        EXPECT_TRUE(list->is_valid());
    }
    [[nodiscard]] void* refill() {
        std::scoped_lock const lock(*list);
        void* const p = list->refill(cache);
        EXPECT_TRUE(list->is_valid());
        return p;
    }
    // To the slabs, behind what was flushed last.
    void flush_to_slabs(std::vector<void*> const& blocks) {
        flush(blocks);
        std::scoped_lock const lock(*list);
        list->drain_recent();
    }
    void flush(std::vector<void*> const& blocks) {
        std::scoped_lock const lock(*list);
        list->flush(blocks);
        EXPECT_TRUE(list->is_valid());
    }
    [[nodiscard]] std::vector<void*> take(std::size_t count) {
        std::vector<void*> blocks;
        std::scoped_lock const lock(*list);
        for (std::size_t i = 0; i < count; ++i)
            if (void* const p = list->allocate_one(k_class)) blocks.push_back(p);
        EXPECT_TRUE(list->is_valid());
        return blocks;
    }

    test::counting_upstream memory;
    upstream from{&memory, 0, false};
    slab_heap heap{{.pool_id = k_pool_id,
                    .is_shared = true,
                    .has_small_slabs = false,
                    .chunk_bytes = 4 * k_slab_bytes,
                    .starts_small = false},
                   from};
    central::context pool{heap, k_pool_id, true};
    // Its address is in no page map: only slabs are.
    std::unique_ptr<central> list = std::make_unique<central>(pool, k_class);
    class_cache cache;
};

TEST_F(central_test, fills_half_of_a_cache_with_ascending_addresses_of_one_slab) {
    std::vector<void*> blocks{refill()};
    EXPECT_EQ(cache.held(), 7U);
    while (void* const p = cache.pop())
        blocks.push_back(p);
    ASSERT_EQ(blocks.size(), 8U);
    for (std::size_t i = 1; i < blocks.size(); ++i)
        EXPECT_EQ(address_of(blocks[i]), address_of(blocks[i - 1]) + 1024);
    EXPECT_EQ(list->outside(), 8U);
    EXPECT_EQ(list->free(), k_per_slab - 8);
    EXPECT_EQ(list->refills(), 1U);
    flush(blocks);
}

TEST_F(central_test, of_a_heap_that_starts_small_has_slabs_as_long_as_those_before) {
    slab_heap small_one({.pool_id = k_pool_id,
                         .is_shared = true,
                         .has_small_slabs = false,
                         .chunk_bytes = 16 * k_slab_bytes,
                         .starts_small = true},
                        from);
    central::context its_pool{small_one, k_pool_id, true};
    auto const its_list = std::make_unique<central>(its_pool, k_class);
    std::scoped_lock const lock(*its_list);
    std::vector<void*> blocks;
    std::vector<std::uint64_t> granules;
    while (granules.size() < 6) {
        void* const p = its_list->allocate_one(k_class);
        if (p == nullptr) {
            ASSERT_TRUE(small_one.grow(k_class));
            continue;
        }
        blocks.push_back(p);
        std::uint64_t const now = its_list->slab_bytes() / k_granule_bytes;
        if (granules.empty() || granules.back() != now) granules.push_back(now);
    }
    EXPECT_EQ(granules, (std::vector<std::uint64_t>{1, 2, 4, 8, 12, 16}));
    its_list->flush(blocks);
    EXPECT_EQ(its_list->slab_bytes(), 0U);
    blocks.assign(1, its_list->allocate_one(k_class));
    EXPECT_EQ(its_list->slab_bytes(), k_granule_bytes) << "it begins anew";
    its_list->flush(blocks);
}

TEST_F(central_test, gives_one_block_to_a_cache_without_an_array) {
    class_cache bare;
    std::scoped_lock const lock(*list);
    void* const p = list->refill(bare);
    EXPECT_NE(p, nullptr);
    EXPECT_EQ(bare.held(), 0U);
    list->flush({&p, 1});
    bare.add_net_taken(-bare.net_taken());
}

TEST_F(central_test, has_nothing_when_the_heap_has_no_free_slab) {
    auto const blocks = take(5 * k_per_slab);
    EXPECT_EQ(blocks.size(), 4 * k_per_slab);
    EXPECT_EQ(refill(), nullptr);
    EXPECT_EQ(list->free(), 0U);
    flush(blocks);
}

TEST_F(central_test, returns_a_slab_to_the_heap_as_soon_as_it_is_empty) {
    auto blocks = take(4 * k_per_slab);
    EXPECT_FALSE(heap.has_free(k_class));
    std::ranges::shuffle(blocks, std::mt19937(1));
    void* const last = blocks.back();
    blocks.pop_back();
    flush(blocks);
    EXPECT_EQ(list->slab_bytes(), k_slab_bytes) << "the slab of the last block";
    EXPECT_EQ(list->capacity(), k_per_slab);
    EXPECT_TRUE(heap.has_free(class_for(48, 8))) << "the others serve any class";
    flush({last});
    EXPECT_EQ(list->slab_bytes(), 0U);
    EXPECT_EQ(list->capacity(), 0U);
    EXPECT_EQ(list->free(), 0U);
    EXPECT_EQ(heap.release_chunks(), 4 * k_slab_bytes);
}

TEST_F(central_test, uses_the_slab_first_that_was_freed_into_last) {
    auto const blocks = take(4 * k_per_slab);
    flush_to_slabs({blocks[3]});
    flush_to_slabs({blocks[2 * k_per_slab]});
    EXPECT_EQ(take(2), (std::vector<void*>{blocks[2 * k_per_slab], blocks[3]}));
    flush(blocks);
}

TEST_F(central_test, continues_with_the_slab_after_it_in_memory) {
    auto blocks = take(4 * k_per_slab);
    std::ranges::sort(blocks);
    // One block of each slab becomes free, the lowest slab's last.
    std::vector<void*> kept;
    for (std::size_t const slab : {2U, 3U, 1U, 0U}) {
        flush_to_slabs({blocks[slab * k_per_slab]});
        kept.push_back(blocks[slab * k_per_slab]);
    }
    std::ranges::sort(kept);
    EXPECT_EQ(take(4), kept);
    flush(blocks);
}

TEST_F(central_test, takes_the_older_half_of_a_full_cache) {
    auto const blocks = take(17);
    for (void* const p : blocks)
        ASSERT_TRUE(cache.push(p));
    std::scoped_lock const lock(*list);
    list->flush_half(cache);
    EXPECT_EQ(cache.held(), 9U);
    EXPECT_EQ(list->flushes(), 1U);
    EXPECT_EQ(list->outside(), 9U);
    for (std::size_t i = 17; i-- != 8;)
        EXPECT_EQ(cache.pop(), blocks[i]);
    list->flush(std::vector<void*>(blocks.begin() + 8, blocks.end()));
}

TEST_F(central_test, is_drained_when_nearly_all_blocks_of_a_large_class_came_back) {
    constexpr std::uint32_t k_cached = k_geometry[k_class].cache_blocks;
    constexpr std::size_t k_large = std::size_t{64} * k_cached;
    EXPECT_FALSE(list->is_drained()) << "it was never large";
    while (memory.bytes() / 1024 < (k_large / k_per_slab + 2) * (k_per_slab + 1))
        ASSERT_TRUE(heap.grow(k_class));
    std::vector<void*> blocks = take(k_large);
    ASSERT_EQ(blocks.size(), k_large);
    EXPECT_FALSE(list->is_drained());
    std::vector<void*> const last(blocks.begin(), blocks.begin() + 2 * k_cached);
    void* const one_more = blocks[2 * k_cached];
    flush({blocks.begin() + 2 * k_cached + 1, blocks.end()});
    EXPECT_FALSE(list->is_drained());
    flush({one_more});
    EXPECT_TRUE(list->is_drained());
    void* const used = refill();
    EXPECT_FALSE(list->is_drained()) << "it is used again";
    flush(last);
    EXPECT_FALSE(list->is_drained()) << "it was not large since";
    flush({used});
}

TEST_F(central_test, was_not_large_with_fewer_blocks) {
    constexpr std::size_t k_large = std::size_t{64} * k_geometry[k_class].cache_blocks;
    constexpr std::size_t k_fewer = (k_large - 1) / k_per_slab * k_per_slab;
    while (memory.bytes() / 1024 < k_large + k_per_slab)
        ASSERT_TRUE(heap.grow(k_class));
    flush(take(k_fewer));
    EXPECT_FALSE(list->is_drained());
}

TEST_F(central_test, knows_how_many_requests_it_has_served_since_it_had_nothing) {
    auto const blocks = take(4 * k_per_slab);
    EXPECT_EQ(list->served(), 4 * k_per_slab);
    EXPECT_TRUE(take(1).empty());
    EXPECT_EQ(list->served(), 0U);
    flush(blocks);
}

// What was freed last is used first.

TEST_F(central_test, gives_out_the_block_that_was_flushed_last) {
    auto const blocks = take(4 * k_per_slab);
    flush({blocks[3]});
    flush({blocks[2 * k_per_slab], blocks[k_per_slab]});
    EXPECT_EQ(take(3), (std::vector<void*>{blocks[k_per_slab], blocks[2 * k_per_slab], blocks[3]}));
    flush(blocks);
}

TEST_F(central_test, fills_a_cache_with_the_newest_blocks_in_front_of_those_of_a_slab) {
    auto const blocks = take(4 * k_per_slab);
    flush_to_slabs({blocks[7], blocks[8], blocks[9], blocks[10], blocks[11], blocks[12]});
    flush({blocks[100], blocks[200]});
    std::vector<void*> filled{refill()};
    while (void* const p = cache.pop())
        filled.push_back(p);
    EXPECT_EQ(filled, (std::vector<void*>{blocks[200], blocks[100], blocks[7], blocks[8], blocks[9],
                                          blocks[10], blocks[11], blocks[12]}));
    flush(blocks);
}

TEST_F(central_test, keeps_the_half_of_a_cache_whose_thread_gets_its_blocks_from_another) {
    while (memory.bytes() / 1024 < 8 * k_per_slab)
        ASSERT_TRUE(heap.grow(k_class));
    auto const blocks = take(8 * k_per_slab);
    class_cache giver;
    ASSERT_TRUE(giver.reserve(256));
    std::size_t next = 0;
    for (bool const is_known : {false, true}) {  // that it frees more than it allocates
        while (giver.push_array(blocks[next]))
            ++next;
        std::scoped_lock const lock(*list);
        list->flush_half(giver);
        EXPECT_EQ(list->has_recent(), is_known);
    }
    EXPECT_EQ(refill(), blocks[next - 1]) << "the newest that was flushed";
    EXPECT_EQ(giver.pop(), blocks[255]) << "the oldest are kept";
    std::scoped_lock const lock(*list);
    EXPECT_TRUE(giver.push_array(blocks[255]));
    list->retire(giver);
    list->flush({blocks.data() + next, blocks.size() - next});
    list->flush({&blocks[next - 1], 1});
}

TEST_F(central_test, keeps_no_addresses_most_of_which_follow_one_another) {
    while (memory.bytes() / 1024 < 16 * k_per_slab)
        ASSERT_TRUE(heap.grow(k_class));
    auto const blocks = take(16 * k_per_slab);
    std::size_t const half = blocks.size() / 2;
    std::vector<void*> runs{blocks[0]};
    runs.insert(runs.end(), &blocks[half], &blocks[half + 15]);
    runs.insert(runs.end(), &blocks[20], &blocks[35]);
    runs.push_back(blocks[half + 40]);
    flush(runs);
    EXPECT_FALSE(list->has_recent());
    std::vector<void*> strays;
    for (std::size_t i = 0; i < 32; ++i)
        strays.push_back(blocks[100 + i * 10]);
    flush(strays);
    EXPECT_TRUE(list->has_recent());
    std::vector<void*> others(blocks);
    std::erase_if(others, [&](void* p) {
        return std::ranges::count(runs, p) != 0 || std::ranges::count(strays, p) != 0;
    });
    flush(others);
}

// An address that is kept keeps a slab from other classes.
TEST_F(central_test, keeps_a_slab_for_at_most_a_sixteenth_of_the_blocks_outside) {
    while (memory.bytes() / 1024 < 64 * k_per_slab)
        ASSERT_TRUE(heap.grow(k_class));
    auto blocks = take(64 * k_per_slab);
    std::ranges::shuffle(blocks, std::mt19937(1));
    while (!blocks.empty()) {
        flush({blocks.back()});
        blocks.pop_back();
        std::size_t const slabs = list->slab_bytes() / k_slab_bytes;
        ASSERT_LE(slabs, blocks.size() + blocks.size() / 16);
        ASSERT_LE(list->free(), list->capacity());
    }
    EXPECT_FALSE(list->has_recent());
    EXPECT_EQ(list->capacity(), 0U);
}

TEST_F(central_test, keeps_no_recent_block_when_all_others_came_back_whatever_their_order) {
    slab_heap one_chunk({.pool_id = k_pool_id,
                         .is_shared = true,
                         .has_small_slabs = false,
                         .chunk_bytes = 64 * k_slab_bytes,
                         .starts_small = false},
                        from);
    ASSERT_TRUE(one_chunk.grow(k_class));
    central::context its_pool{one_chunk, k_pool_id, true};
    auto const its_list = std::make_unique<central>(its_pool, k_class);
    std::scoped_lock const lock(*its_list);
    std::vector<void*> blocks;
    while (void* const p = its_list->allocate_one(k_class))
        blocks.push_back(p);
    std::vector<void*> apart;
    for (std::size_t i = 0; i < 32; ++i)
        apart.push_back(std::exchange(blocks[i * 100], nullptr));
    std::erase(blocks, nullptr);
    its_list->flush(apart);
    EXPECT_TRUE(its_list->has_recent());
    for (std::size_t i = 0; i < blocks.size(); i += 16)
        its_list->flush({blocks.data() + i, std::min<std::size_t>(16, blocks.size() - i)});
    EXPECT_FALSE(its_list->has_recent());
    EXPECT_EQ(its_list->capacity(), 0U);
    its_list->drain_recent();
}

TEST_F(central_test, takes_back_the_blocks_of_several_slabs_in_random_order) {
    while (memory.bytes() / 1024 < 4 * k_per_slab)
        ASSERT_TRUE(heap.grow(k_class));
    for (std::uint32_t seed = 0; seed < 8; ++seed) {
        auto blocks = take(4 * k_per_slab);
        ASSERT_EQ(blocks.size(), 4 * k_per_slab);
        std::shuffle(blocks.begin(), blocks.end(), std::mt19937(seed));
        for (std::size_t i = 0; i < blocks.size(); i += 25)
            flush({blocks.begin() + static_cast<std::ptrdiff_t>(i),
                   blocks.begin() + static_cast<std::ptrdiff_t>(std::min(i + 25, blocks.size()))});
        EXPECT_EQ(list->capacity(), 0U);
    }
}

TEST_F(central_test, sets_the_bits_of_recent_blocks_before_it_purges_or_reserves) {
    auto const blocks = take(4 * k_per_slab);
    std::vector<void*> const apart{blocks[0], blocks[2 * k_per_slab]};
    std::vector<void*> const others{blocks[1], blocks[3 * k_per_slab]};
    std::scoped_lock const lock(*list);
    list->flush(apart);
    ASSERT_TRUE(list->has_recent());
    list->purge();
    EXPECT_FALSE(list->has_recent());
    list->flush(others);
    ASSERT_TRUE(list->has_recent());
    {
        slab_heap::attempt attempt(heap, {k_class, k_class});
        EXPECT_EQ(list->reserve(attempt, 10), 4U);
    }
    EXPECT_FALSE(list->has_recent());
    for (int i = 0; i < 4; ++i)
        EXPECT_NE(list->allocate_one(k_class), nullptr);
    list->flush(blocks);
}

TEST_F(central_test, keeps_no_recent_block_at_the_bound) {
    auto const blocks = take(4 * k_per_slab);
    pool.bound_epoch.add(1);
    flush({blocks[3], blocks[2 * k_per_slab]});
    EXPECT_FALSE(list->has_recent());
    EXPECT_EQ(list->free(), 2U);
    EXPECT_EQ(take(2).size(), 2U);
    flush(blocks);
    pool.bound_epoch.add(1);
}

// Misuse that the heap finds in every build.

class central_death_test : public central_test {
protected:
    central_death_test() {
        g_pool_names = [](std::uint32_t id) noexcept { return id == k_pool_id ? "packets" : "other"; };
    }
    ~central_death_test() override { g_pool_names = m_names; }

private:
    pool_names m_names = g_pool_names;
};

// A batch that returns the last blocks in use, and then one of them again, or an address between them.
TEST_F(central_death_test, says_what_is_wrong_also_when_the_slab_has_become_empty) {
    auto const blocks = take(2);
    EXPECT_DEATH(flush({blocks[0], blocks[1], blocks[0]}), "into pool 'packets': the block is free already");
    EXPECT_DEATH(flush({blocks[0], blocks[1], static_cast<std::byte*>(blocks[0]) + 16}),
                 "into pool 'packets': no block starts there");
    flush(blocks);
}

TEST_F(central_death_test, says_what_is_wrong_also_in_random_order) {
    auto const blocks = take(4);
    constexpr class_index k_48 = class_for(48, 8);
    central small(pool, k_48);
    std::scoped_lock const lock(small);
    void* const of_48 = small.allocate_one(k_48);
    ASSERT_NE(of_48, nullptr);
    std::vector<void*> const all{blocks[2], blocks[0], blocks[3], blocks[1]};
    auto const with = [](std::vector<void*> some, void* one) {
        some.push_back(one);
        return some;
    };
    EXPECT_DEATH(flush(with({all[0], all[1]}, all[0])), "into pool 'packets': the block is free already");
    EXPECT_DEATH(flush(with(all, all[0])), "into pool 'packets': the block is free already");
    EXPECT_DEATH(flush(with(all, static_cast<std::byte*>(all[0]) + 16)),
                 "into pool 'packets': no block starts there");
    EXPECT_DEATH(flush(with({all[0], all[1]}, of_48)), "into pool 'packets': ");
    std::byte other[64];
    EXPECT_DEATH(flush(with({all[0], all[1]}, other)), "into pool 'packets': the address is of no pool");
    small.flush({&of_48, 1});
    flush(all);
}

// Their bits are set later; whoever freed them is known only now.
TEST_F(central_death_test, looks_at_addresses_before_it_keeps_them) {
    while (memory.bytes() / 1024 < 32 * k_per_slab)
        ASSERT_TRUE(heap.grow(k_class));
    auto blocks = take(32 * k_per_slab);
    ASSERT_EQ(blocks.size(), 32 * k_per_slab);
    flush({blocks.back(), blocks.front()});
    ASSERT_TRUE(list->has_recent());
    std::byte other[64];
    EXPECT_DEATH(flush({other, blocks[100]}), "into pool 'packets': the address is of no pool");
    flush({blocks.begin() + 1, blocks.end() - 1});
}
TEST_F(central_death_test, keeps_no_large_block_twice) {
    constexpr class_index k_large_one = large_class_for(60'000, 16);
    central large(pool, k_large_one);
    std::scoped_lock const lock(large);
    std::array<void*, 2> blocks{};
    for (void*& one : blocks)
        while ((one = large.allocate_one({k_large_one})) == nullptr)
            ASSERT_TRUE(heap.grow(k_large_one));
    void* const twice[] = {blocks[0], blocks[0]};
    EXPECT_DEATH(large.flush({twice, 2}), "into pool 'packets': the block is free already");
    large.flush({blocks.data(), 1});
    ASSERT_TRUE(large.has_recent());
    EXPECT_DEATH(large.flush({blocks.data(), 1}), "into pool 'packets': the block is free already");
    large.flush({blocks.data() + 1, 1});
    large.drain_recent();
}

TEST_F(central_death_test, reports_an_address_behind_the_end_of_a_short_slab) {
    upstream tiny_source(&memory, 1000, false);
    slab_heap tiny({.pool_id = k_pool_id,
                    .is_shared = true,
                    .has_small_slabs = true,
                    .chunk_bytes = k_granule_bytes,
                    .starts_small = false},
                   tiny_source);
    constexpr class_index k_48 = class_for(48, 8);
    ASSERT_TRUE(tiny.grow(k_48));
    central::context tiny_pool{tiny, k_pool_id, true};
    central small(tiny_pool, k_48);
    std::scoped_lock const lock(small);
    void* const p = small.allocate_one(k_48);
    void* const behind = static_cast<std::byte*>(p) + 1008;
    EXPECT_DEATH(small.flush({&behind, 1}), "into pool 'packets': no block starts there");
    small.flush({&p, 1});
}

// The ring of addresses that were flushed last: the newest are popped, the oldest are drained. The addresses are made up.

using pooled::detail::recent_blocks;
using pooled::detail::span;

std::vector<void*> addresses(std::uintptr_t first, std::size_t count) {
    std::vector<void*> all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(reinterpret_cast<void*>(first + i));  // NOLINT: never read
    return all;
}
std::vector<void*> pop(recent_blocks& from, std::uint32_t most) {
    std::vector<void*> popped(most);
    popped.resize(from.pop(popped.data(), most));
    return popped;
}
std::vector<void*> drain(recent_blocks& from, std::size_t kept) {
    std::vector<void*> drained;
    from.drain(kept,
               [&](span<void* const> some) { drained.insert(drained.end(), some.begin(), some.end()); });
    return drained;
}

TEST(recent_blocks, keeps_its_addresses_when_it_gets_more_room) {
    recent_blocks recent;
    recent.reserve(1);
    std::size_t const capacity = recent.capacity();
    recent.push(addresses(1, capacity));
    EXPECT_EQ(drain(recent, capacity / 2), addresses(1, capacity / 2));
    recent.push(addresses(capacity + 1, capacity / 2));  // around the ring's end
    recent.reserve(recent_blocks::k_most);
    EXPECT_EQ(recent.capacity(), recent_blocks::k_most);
    EXPECT_EQ(drain(recent, 0), addresses(capacity / 2 + 1, capacity));
    recent.reserve(1);
    EXPECT_EQ(recent.capacity(), recent_blocks::k_most) << "it does not shrink";
}

TEST(recent_blocks, has_room_for_a_bounded_number) {
    recent_blocks recent;
    recent.reserve(~std::size_t{0});
    EXPECT_EQ(recent.capacity(), recent_blocks::k_most);
    recent.push(addresses(1, recent_blocks::k_most));
    recent.clear();
    EXPECT_EQ(recent.count(), 0U);
}

TEST(recent_blocks, is_what_a_queue_with_two_ends_says) {
    std::mt19937 random(3);
    recent_blocks recent;
    recent.reserve(1);
    std::deque<void*> model;
    std::uintptr_t next = 1;
    for (int step = 0; step < 20'000; ++step) {
        std::size_t const count = random() % 60;
        switch (random() % 3) {
        case 0:
            for (void* const p : drain(recent, count)) {
                ASSERT_EQ(p, model.front());
                model.pop_front();
            }
            ASSERT_LE(model.size(), count);
            break;
        case 1: {
            std::vector<void*> const popped = pop(recent, static_cast<std::uint32_t>(count));
            for (std::size_t i = popped.size(); i-- != 0; model.pop_back())
                ASSERT_EQ(popped[i], model.back());
            break;
        }
        default:
            if (recent.count() + count > recent.capacity()) break;
            for (void* const p : addresses(next, count))
                model.push_back(p);
            recent.push(addresses(next, count));
            next += count;
        }
        ASSERT_EQ(recent.count(), model.size());
    }
}

}  // namespace
