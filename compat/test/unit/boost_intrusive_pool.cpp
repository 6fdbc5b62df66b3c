// SPDX-License-Identifier: BSL-1.0
// memorypool::boost_intrusive_pool: what its users know from the original: names, counts, growth, bounds, recycling, clear.
// And its items.

#include "compat/test/unit/boost_intrusive_pool.hpp"

#include "support/possible_alignment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using memorypool::RECYCLE_METHOD_CUSTOM_FUNCTION;
using memorypool::RECYCLE_METHOD_DESTROY_FUNCTION;
using memorypool::RECYCLE_METHOD_NONE;
using test::intrusive_handle;
using test::intrusive_item;
using test::intrusive_pool;
using test::take;

using boost_intrusive_pool = test::intrusive_pool_test;

TEST_F(boost_intrusive_pool, constants_have_the_values_of_the_original) {
    EXPECT_EQ(BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE, 64);
    EXPECT_EQ(BOOST_INTRUSIVE_POOL_INCREASE_STEP, 64);
    EXPECT_EQ(BOOST_INTRUSIVE_POOL_NO_MAX_SIZE, 0);
    EXPECT_EQ(RECYCLE_METHOD_NONE, memorypool::recycle_method_e{});
}

TEST_F(boost_intrusive_pool, default_constructed_has_nothing_and_gives_nothing) {
    intrusive_pool pool;
    EXPECT_TRUE(pool.empty());
    EXPECT_FALSE(pool.is_bounded());
    EXPECT_FALSE(pool.is_limited());
    EXPECT_FALSE(pool.is_memory_exhausted());
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_EQ(pool.max_size(), 0U);
    EXPECT_EQ(pool.unused_count(), 0U);
    EXPECT_EQ(pool.inuse_count(), 0U);
    EXPECT_EQ(pool.enlarge_steps_done(), 0U);
    EXPECT_EQ(pool.allocate(), nullptr);
    EXPECT_EQ(pool.allocate_through_init(1), nullptr);
    pool.clear();
    pool.check();
    EXPECT_EQ(log.constructed(), 0);
}

TEST_F(boost_intrusive_pool, items_are_constructed_with_the_pool_and_destroyed_with_it) {
    {
        intrusive_pool pool(10);
        EXPECT_EQ(log.alive(), 10);
        EXPECT_EQ(pool.capacity(), 10U);
        EXPECT_EQ(pool.unused_count(), 10U);
        EXPECT_TRUE(pool.empty()) << "nothing is in use";
        for (int i = 0; i < 100; ++i)
            EXPECT_NE(pool.allocate(), nullptr);
        EXPECT_EQ(log.constructed(), 10) << "items are not constructed anew between uses";
    }
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(boost_intrusive_pool, counts_tell_what_is_in_use) {
    intrusive_pool pool(4);
    intrusive_handle a = pool.allocate();
    intrusive_handle const b = pool.allocate();
    EXPECT_NE(a, b);
    EXPECT_EQ(pool.inuse_count(), 2U);
    EXPECT_EQ(pool.unused_count(), 2U);
    intrusive_handle copy = a;
    a.reset();
    EXPECT_EQ(pool.inuse_count(), 2U);
    copy.reset();
    EXPECT_EQ(pool.inuse_count(), 1U);
    EXPECT_EQ(pool.unused_count(), 3U);
    EXPECT_EQ(pool.capacity(), 4U);
}

TEST_F(boost_intrusive_pool, item_freed_last_is_taken_next) {
    intrusive_pool pool(64);
    auto handles = take(pool, 10);
    intrusive_item* const seventh = handles[7].get();
    intrusive_item* const third = handles[3].get();
    handles[7].reset();
    handles[3].reset();
    EXPECT_EQ(pool.allocate().get(), third);
    intrusive_handle const again = pool.allocate();
    EXPECT_EQ(again.get(), third);
    EXPECT_EQ(pool.allocate().get(), seventh);
}

TEST_F(boost_intrusive_pool, grows_by_a_step_when_the_last_free_item_is_taken) {
    intrusive_pool pool(4, 3);
    auto handles = take(pool, 3);
    EXPECT_EQ(pool.unused_count(), 1U);
    EXPECT_EQ(pool.enlarge_steps_done(), 1U) << "the initial items are a step";
    handles.push_back(pool.allocate());
    EXPECT_EQ(pool.unused_count(), 3U);
    EXPECT_EQ(pool.capacity(), 7U);
    EXPECT_EQ(pool.enlarge_steps_done(), 2U);
    EXPECT_EQ(log.constructed(), 7);
    for (auto& more : take(pool, 3))
        handles.push_back(std::move(more));
    EXPECT_EQ(pool.unused_count(), 3U);
    EXPECT_EQ(pool.capacity(), 10U);
    EXPECT_EQ(pool.enlarge_steps_done(), 3U);
    EXPECT_FALSE(pool.is_limited() || pool.is_memory_exhausted());
}

// However items went and came before.
TEST_F(boost_intrusive_pool, never_has_no_free_item_while_it_may_grow) {
    for (std::size_t const initial : {1U, 2U, 5U, 64U, 700U}) {
        for (std::size_t const step : {1U, 2U, 31U, 64U, 1000U}) {
            intrusive_pool pool(initial, step);
            std::vector<intrusive_handle> handles;
            std::size_t capacity = initial;
            for (int i = 0; i < 3000; ++i) {
                bool const is_last = pool.unused_count() == 1;
                handles.push_back(pool.allocate());
                capacity += is_last ? step : 0;
                ASSERT_EQ(pool.capacity(), capacity);
                ASSERT_EQ(pool.unused_count(), capacity - handles.size());
                ASSERT_EQ(pool.inuse_count(), handles.size());
                ASSERT_TRUE(!is_last || pool.unused_count() == step);
                if (i % 7 == 0)
                    handles.erase(handles.end() - static_cast<std::ptrdiff_t>(handles.size() / 3 + 1),
                                  handles.end());
            }
            EXPECT_EQ(log.alive(), static_cast<std::int64_t>(capacity));
            pool.check();
        }
    }
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(boost_intrusive_pool, never_gives_an_item_twice) {
    intrusive_pool pool(3, 5);
    auto const handles = take(pool, 1000);
    std::set<intrusive_item*> seen;
    for (auto const& handle : handles)
        EXPECT_TRUE(seen.insert(handle.get()).second);
}

TEST_F(boost_intrusive_pool, bounded_gives_null_when_all_items_are_in_use) {
    intrusive_pool pool(3, 0);
    EXPECT_TRUE(pool.is_bounded());
    EXPECT_TRUE(pool.is_limited());
    EXPECT_EQ(pool.max_size(), 3U);
    EXPECT_FALSE(pool.is_memory_exhausted());
    auto handles = take(pool, 3);
    EXPECT_FALSE(pool.empty());
    EXPECT_TRUE(pool.is_memory_exhausted());
    EXPECT_EQ(pool.allocate(), nullptr);
    EXPECT_EQ(pool.allocate_through_init(1), nullptr);
    EXPECT_EQ(pool.allocate_through_function([](intrusive_item&) { FAIL() << "there is no item"; }), nullptr);
    handles.pop_back();
    EXPECT_FALSE(pool.is_memory_exhausted());
    EXPECT_NE(pool.allocate(), nullptr);
    EXPECT_EQ(log.constructed(), 3);
}

// A thread caches few items of a small pool, since another one has to stop its cache to find them.
TEST_F(boost_intrusive_pool, list_knows_the_bound_by_which_caches_are_sized) {
    using stock = memorypool::detail::item_stock<intrusive_item>;
    auto const bound = [](std::size_t initial, std::size_t step, std::size_t most) {
        stock& one = stock::create(initial, step, most, memorypool::RECYCLE_METHOD_NONE, nullptr);
        std::size_t const b = one.bound();
        one.close();
        return b;
    };
    EXPECT_EQ(bound(64, 0, 0), 64);
    EXPECT_EQ(bound(10, 5, 64), 64);
    EXPECT_EQ(bound(10, 5, 0), static_cast<std::size_t>(-1));
}

TEST_F(boost_intrusive_pool, growth_is_cut_to_what_max_size_leaves) {
    intrusive_pool pool(4, 4, 10);
    EXPECT_FALSE(pool.is_bounded());
    EXPECT_TRUE(pool.is_limited());
    EXPECT_EQ(pool.max_size(), 10U);
    auto handles = take(pool, 8);
    EXPECT_EQ(pool.capacity(), 10U);
    EXPECT_EQ(pool.unused_count(), 2U);
    EXPECT_EQ(pool.enlarge_steps_done(), 3U);
    EXPECT_FALSE(pool.is_memory_exhausted());
    for (auto& more : take(pool, 2))
        handles.push_back(std::move(more));
    EXPECT_EQ(pool.unused_count(), 0U);
    EXPECT_TRUE(pool.is_memory_exhausted());
    EXPECT_EQ(pool.allocate(), nullptr);
    EXPECT_EQ(log.constructed(), 10);
    EXPECT_EQ(pool.enlarge_steps_done(), 3U);
}

TEST_F(boost_intrusive_pool, allocate_through_init_passes_its_arguments_on) {
    struct takes_what_it_gets : memorypool::boost_intrusive_pool_item {
        void init(std::unique_ptr<int> owned, int& seen) {
            number = std::move(owned);
            ++seen;
        }
        std::unique_ptr<int> number;
    };
    memorypool::boost_intrusive_pool<takes_what_it_gets> pool(1);
    int seen = 0;
    auto const it = pool.allocate_through_init(std::make_unique<int>(7), seen);
    EXPECT_EQ(*it->number, 7);
    EXPECT_EQ(seen, 1);

    intrusive_pool plain(1);
    EXPECT_EQ(plain.allocate_through_init(3)->value, 3);
    EXPECT_EQ(plain.allocate_through_init(3, 4)->value, 7);
    EXPECT_EQ(plain.allocate()->value, 7) << "items stay as their last user left them";
}

TEST_F(boost_intrusive_pool, allocate_through_function_calls_it_with_the_item) {
    intrusive_pool pool(1);
    auto const it = pool.allocate_through_function([](intrusive_item& fresh) { fresh.value = 5; });
    EXPECT_EQ(it->value, 5);
    EXPECT_EQ(it->use_count(), 1U);
    std::function<void(intrusive_item&)> const function = [](intrusive_item& fresh) { fresh.value = 6; };
    EXPECT_EQ(pool.allocate_through_function(function)->value, 6);
}

TEST_F(boost_intrusive_pool, is_assigned_from_a_list_of_sizes) {
    static_assert(std::has_virtual_destructor_v<intrusive_pool>);
    intrusive_pool pool;
    pool = {64, 32};
    EXPECT_EQ(pool.capacity(), 64U);
    intrusive_pool const other = 5;
    EXPECT_EQ(other.capacity(), 5U);
}

TEST_F(boost_intrusive_pool, init_returns_whether_there_was_memory) {
    intrusive_pool pool;
    EXPECT_TRUE(pool.init());
    EXPECT_EQ(pool.capacity(), 64U);
    EXPECT_TRUE(pool.init(3));
    EXPECT_FALSE(pool.init(std::size_t{1} << 46));
    EXPECT_EQ(pool.capacity(), 3U) << "the pool is as before";
}

struct with_members : memorypool::boost_intrusive_pool_item {
    void init() { seen.push_back(use_count()); }
    void prepare() { seen.push_back(use_count()); }
    void clean() { seen.push_back(use_count()); }
    void destroy() override { seen.push_back(use_count()); }
    std::vector<std::size_t> seen;
};

TEST_F(boost_intrusive_pool, functions_may_be_any_callable) {
    using pool_type = memorypool::boost_intrusive_pool<with_members>;
    pool_type pool(1, 0, 0, RECYCLE_METHOD_CUSTOM_FUNCTION, &with_members::clean);
    auto it = pool.allocate_through_function(&with_members::prepare);
    EXPECT_EQ(it->seen.size(), 1U);
    it.reset();
    pool_type::allocate_function const function = &with_members::prepare;
    it = pool.allocate_through_function(function);
    EXPECT_EQ(it->seen.size(), 3U);
    pool.set_recycle_method(RECYCLE_METHOD_CUSTOM_FUNCTION, [](with_members& gone) { gone.seen.clear(); });
    it.reset();
    it = pool.allocate_through_function(std::bind_front(&with_members::prepare));
    EXPECT_EQ(it->seen.size(), 1U);
}

TEST_F(boost_intrusive_pool, use_count_is_zero_in_every_hook) {
    memorypool::boost_intrusive_pool<with_members> pool(1, 0, 0, RECYCLE_METHOD_DESTROY_FUNCTION);
    with_members* const it = pool.allocate_through_init().get();
    pool.set_recycle_method(RECYCLE_METHOD_CUSTOM_FUNCTION, &with_members::clean);
    {
        auto const again = pool.allocate_through_function(&with_members::prepare);
        EXPECT_EQ(again->use_count(), 1U);
        EXPECT_EQ(again->m_boost_intrusive_pool_refcount, 1U);
    }
    EXPECT_EQ(it->seen, std::vector<std::size_t>(4, 0U)) << "init, destroy, function, recycle function";
}

TEST_F(boost_intrusive_pool, init_may_make_handles_of_its_item) {
    struct shy : memorypool::boost_intrusive_pool_item {
        void init(boost::intrusive_ptr<shy>* keep) {
            { boost::intrusive_ptr<shy> const self(this); }
            EXPECT_EQ(use_count(), 0U);
            if (keep != nullptr) *keep = boost::intrusive_ptr<shy>(this);
        }
    };
    memorypool::boost_intrusive_pool<shy> pool(2, 0);
    EXPECT_EQ(pool.allocate_through_init(nullptr)->use_count(), 1U);
    EXPECT_EQ(pool.inuse_count(), 0U);
    boost::intrusive_ptr<shy> kept;
    auto const it = pool.allocate_through_init(&kept);
    EXPECT_EQ(it, kept);
    EXPECT_EQ(it->use_count(), 2U);
    EXPECT_EQ(pool.inuse_count(), 1U);
}

TEST_F(boost_intrusive_pool, destroy_is_called_once_when_the_last_handle_goes) {
    intrusive_pool pool(4, 4, 0, RECYCLE_METHOD_DESTROY_FUNCTION);
    intrusive_handle a = pool.allocate();
    intrusive_item* const it = a.get();
    intrusive_handle b = a;
    a.reset();
    EXPECT_EQ(it->destroy_calls, 0);
    b.reset();
    EXPECT_EQ(it->destroy_calls, 1);
    EXPECT_EQ(pool.allocate().get(), it);
    EXPECT_EQ(it->destroy_calls, 2);
    EXPECT_EQ(log.destroyed(), 0) << "destroy() is not the destructor";
}

TEST_F(boost_intrusive_pool, custom_function_is_called_once_when_the_last_handle_goes) {
    std::vector<int> seen;
    intrusive_pool pool(4, 4, 0, RECYCLE_METHOD_CUSTOM_FUNCTION,
                        [&seen](intrusive_item& it) { seen.push_back(std::exchange(it.value, -1)); });
    intrusive_item* const it = pool.allocate_through_init(3).get();
    EXPECT_EQ(seen, std::vector<int>{3});
    EXPECT_EQ(pool.allocate().get(), it);
    EXPECT_EQ(seen, (std::vector<int>{3, -1}));
    EXPECT_EQ(it->destroy_calls, 0);
}

TEST_F(boost_intrusive_pool, recycle_method_can_be_changed) {
    intrusive_pool pool(1);
    intrusive_item* const it = pool.allocate().get();
    pool.set_recycle_method(RECYCLE_METHOD_DESTROY_FUNCTION);
    static_cast<void>(pool.allocate());
    EXPECT_EQ(it->destroy_calls, 1);
    int calls = 0;
    pool.set_recycle_method(RECYCLE_METHOD_CUSTOM_FUNCTION, [&calls](intrusive_item&) { ++calls; });
    static_cast<void>(pool.allocate());
    pool.set_recycle_method(RECYCLE_METHOD_NONE);
    static_cast<void>(pool.allocate());
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(it->destroy_calls, 1);
}

TEST_F(boost_intrusive_pool, recycle_function_may_use_the_pool) {
    intrusive_pool pool(2, 2);
    int depth = 0;
    pool.set_recycle_method(RECYCLE_METHOD_CUSTOM_FUNCTION, [&](intrusive_item&) {
        if (++depth < 10) static_cast<void>(pool.allocate());
        EXPECT_GE(pool.inuse_count(), 1U) << "the item is not free yet";
    });
    static_cast<void>(pool.allocate());
    EXPECT_EQ(depth, 10);
    EXPECT_EQ(pool.inuse_count(), 0U);
}

TEST_F(boost_intrusive_pool, recycle_function_may_keep_the_item) {
    intrusive_handle kept;
    intrusive_pool pool(2, 0, 0, RECYCLE_METHOD_CUSTOM_FUNCTION,
                        [&kept](intrusive_item& it) { kept = intrusive_handle(&it); });
    intrusive_item* const it = pool.allocate().get();
    ASSERT_EQ(kept.get(), it);
    EXPECT_EQ(kept->use_count(), 1U);
    EXPECT_EQ(pool.inuse_count(), 1U);
    pool.set_recycle_method(RECYCLE_METHOD_NONE);
    kept.reset();
    EXPECT_EQ(pool.inuse_count(), 0U);
    pool.check();
}

TEST_F(boost_intrusive_pool, clear_destroys_free_items_and_lets_the_others_live) {
    intrusive_pool pool(8, 4);
    auto old = take(pool, 3);
    old[1]->value = 9;
    pool.clear();
    EXPECT_EQ(log.alive(), 3);
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_EQ(pool.unused_count(), 0U);
    EXPECT_EQ(pool.inuse_count(), 0U) << "they are no longer the pool's";
    EXPECT_EQ(pool.enlarge_steps_done(), 0U);
    EXPECT_TRUE(pool.empty());
    EXPECT_FALSE(pool.is_memory_exhausted());
    EXPECT_EQ(old[1]->value, 9);
    old.clear();
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(pool.capacity(), 0U);
}

TEST_F(boost_intrusive_pool, cleared_grows_again_by_a_step) {
    intrusive_pool pool(8, 3);
    auto const old = take(pool, 2);
    pool.clear();
    auto const fresh = take(pool, 1);
    EXPECT_NE(fresh[0], nullptr);
    EXPECT_EQ(pool.capacity(), 3U);
    EXPECT_EQ(pool.unused_count(), 2U);
    EXPECT_EQ(pool.inuse_count(), 1U);
    EXPECT_EQ(pool.enlarge_steps_done(), 1U);
    pool.check();
}

TEST_F(boost_intrusive_pool, bounded_or_limited_counts_only_its_own_items_after_clear) {
    for (bool const is_bounded : {true, false}) {
        intrusive_pool pool(is_bounded ? 6 : 4, is_bounded ? 0 : 4, 6);
        auto const old = take(pool, 6);
        EXPECT_EQ(pool.allocate(), nullptr);
        pool.clear();
        EXPECT_FALSE(pool.is_memory_exhausted());
        auto const fresh = take(pool, 6);
        EXPECT_NE(fresh[5], nullptr);
        EXPECT_EQ(pool.capacity(), 6U);
        EXPECT_EQ(pool.allocate(), nullptr);
        EXPECT_EQ(log.alive(), 12);
    }
}

TEST_F(boost_intrusive_pool, items_from_before_clear_are_still_recycled_once) {
    intrusive_pool pool(4, 4, 0, RECYCLE_METHOD_CUSTOM_FUNCTION, [](intrusive_item& it) { it.value += 100; });
    intrusive_handle old = pool.allocate_through_init(1);
    int seen = 0;
    pool.set_recycle_method(RECYCLE_METHOD_CUSTOM_FUNCTION,
                            [&seen](intrusive_item& it) { seen += it.value; });
    pool.clear();
    old.reset();
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(pool.capacity(), 0U);
}

TEST_F(boost_intrusive_pool, clear_again_and_again_leaks_nothing) {
    auto const before = test::blocks_in_use();
    {
        intrusive_pool pool(100, 7);
        std::vector<intrusive_handle> some;
        for (int i = 0; i < 50; ++i) {
            auto handles = take(pool, 150);
            some.push_back(handles[static_cast<std::size_t>(i)]);
            handles.clear();
            pool.clear();
            pool.check();
        }
        EXPECT_EQ(log.alive(), 50);
        some.erase(some.begin(), some.begin() + 25);
        pool.clear();
        EXPECT_EQ(log.alive(), 25);
    }
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(test::blocks_in_use(), before);
}

// memorypool::boost_intrusive_pool_item: what an item costs, how its handles count, and which classes can be items.

using memorypool::boost_intrusive_pool_item;
using test::intrusive_handle;
using test::intrusive_item;
using test::intrusive_pool;
using test::take;

using boost_intrusive_pool_item_of_a_pool = test::intrusive_pool_test;

template <std::size_t Bytes>
struct payload : boost_intrusive_pool_item {
    std::array<char, Bytes> buffer;
};

// The memory that the default pool has for as many items as fill many slabs.
template <std::size_t Bytes>
double bytes_beyond_the_payload() {
    constexpr std::size_t k_items = std::min((std::size_t{16} << 20) / Bytes, std::size_t{100'000});
    pooled::default_pool().trim();
    auto const taken = [] {
        auto const now = pooled::default_pool().stats();
        std::uint64_t bytes = 0;
        for (auto const& one : now.classes)
            bytes += one.slab_bytes;
        return bytes;
    };
    auto const before = taken();
    memorypool::boost_intrusive_pool<payload<Bytes>> const pool(k_items, 0);
    return static_cast<double>(taken() - before) / k_items - Bytes;
}

TEST(boost_intrusive_pool_item_size, is_24_bytes_beyond_the_payload) {
    EXPECT_EQ(sizeof(boost_intrusive_pool_item), 24U);
    EXPECT_EQ(sizeof(payload<1024>), 1024U + 24U);
}

TEST(boost_intrusive_pool_item_size, in_memory_is_at_most_an_eighth_and_24_bytes_beyond_the_payload) {
    auto const expect = [](std::size_t payload, double beyond) {
        EXPECT_LE(beyond, 24 + 0.12 * static_cast<double>(payload)) << payload;
        EXPECT_GE(beyond, 24) << payload;
    };
    expect(16, bytes_beyond_the_payload<16>());
    expect(48, bytes_beyond_the_payload<48>());
    expect(1024, bytes_beyond_the_payload<1024>());
    expect(1500, bytes_beyond_the_payload<1500>());
    expect(2048, bytes_beyond_the_payload<2048>());
    expect(4096, bytes_beyond_the_payload<4096>());
    expect(9000, bytes_beyond_the_payload<9000>());
    expect(17400, bytes_beyond_the_payload<17400>());
}

TEST_F(boost_intrusive_pool_item_of_a_pool, counts_its_handles) {
    intrusive_pool pool(2);
    intrusive_handle a = pool.allocate();
    EXPECT_EQ(a->use_count(), 1U);
    {
        intrusive_handle const b = a;
        EXPECT_EQ(a->use_count(), 2U);
        boost::intrusive_ptr<boost_intrusive_pool_item> const base = b;
        boost::intrusive_ptr<intrusive_item const> const constant = b;
        EXPECT_EQ(a->use_count(), 4U);
    }
    EXPECT_EQ(a->use_count(), 1U);
    intrusive_handle const moved = std::move(a);
    EXPECT_EQ(moved->use_count(), 1U);
    intrusive_handle const from_pointer(moved.get());
    EXPECT_EQ(moved->use_count(), 2U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, goes_back_through_a_handle_of_any_type) {
    intrusive_pool pool(1, 0);
    boost::intrusive_ptr<boost_intrusive_pool_item> base = pool.allocate();
    base.reset();
    boost::intrusive_ptr<intrusive_item const> constant = pool.allocate();
    ASSERT_NE(constant, nullptr);
    constant.reset();
    EXPECT_EQ(pool.unused_count(), 1U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, knows_that_it_is_in_one) {
    intrusive_pool pool(1);
    EXPECT_TRUE(pool.allocate()->is_in_memory_pool());
    intrusive_handle const plain(new intrusive_item);
    EXPECT_FALSE(plain->is_in_memory_pool());
    intrusive_item const on_the_stack;
    EXPECT_FALSE(on_the_stack.is_in_memory_pool());
    EXPECT_EQ(on_the_stack.use_count(), 0U);
    plain->check();
    on_the_stack.check();
}

TEST_F(boost_intrusive_pool_item_of_a_pool, has_the_public_members_of_the_original) {
    intrusive_pool pool(1);
    intrusive_handle const a = pool.allocate();
    EXPECT_EQ(a->m_boost_intrusive_pool_next, nullptr);
    EXPECT_NE(a->m_boost_intrusive_pool_owner, nullptr);
    EXPECT_EQ(a->m_boost_intrusive_pool_refcount, 1U);
    intrusive_handle const plain(new intrusive_item);
    EXPECT_EQ(plain->m_boost_intrusive_pool_owner, nullptr);
    EXPECT_EQ(plain->m_boost_intrusive_pool_refcount, 1U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, made_by_new_is_deleted_as_what_it_is) {
    struct derived : intrusive_item {
        std::string text = "long enough to be allocated by the string itself, so that a leak is seen";
    };
    boost::intrusive_ptr<boost_intrusive_pool_item> base(new derived);
    base.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, copies_are_items_of_their_own) {
    intrusive_pool pool(2);
    intrusive_handle const a = pool.allocate_through_init(5);
    intrusive_handle const second = a;
    intrusive_item const copy = *a;
    EXPECT_EQ(copy.value, 5);
    EXPECT_EQ(copy.use_count(), 0U);
    EXPECT_FALSE(copy.is_in_memory_pool());

    intrusive_handle const b = pool.allocate();
    *b = *a;
    EXPECT_EQ(b->value, 5);
    EXPECT_EQ(b->use_count(), 1U);
    EXPECT_EQ(a->use_count(), 2U);
    EXPECT_EQ(pool.inuse_count(), 2U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, may_make_a_handle_of_itself_in_its_destructor) {
    struct curious : boost_intrusive_pool_item {
        ~curious() override { boost::intrusive_ptr<curious> const self(this); }
    };
    { boost::intrusive_ptr<curious> const plain(new curious); }
}

struct before {
    virtual ~before() = default;
    std::uint64_t a = 1;
    std::uint64_t b = 2;
};
struct second_base : before, boost_intrusive_pool_item {
    int value = 3;
};
struct virtual_base : virtual boost_intrusive_pool_item {
    int value = 4;
};
struct diamond : virtual_base, before {
    int more = 5;
};
struct alignas(256) aligned : boost_intrusive_pool_item {
    int value = 6;
};
struct alignas(test::possible_alignment(16384)) very_aligned : boost_intrusive_pool_item {
    int value = 6;
};
struct large : boost_intrusive_pool_item {
    std::array<char, 100'000> buffer;
};
struct half_an_arena : boost_intrusive_pool_item {
    std::array<char, 16'000> buffer;
};
struct empty_item : boost_intrusive_pool_item {};

template <class Item>
class items_of_class : public testing::Test {};
using item_classes = testing::Types<second_base, virtual_base, diamond, aligned, very_aligned, large,
                                    half_an_arena, empty_item>;
TYPED_TEST_SUITE(items_of_class, item_classes);

TYPED_TEST(items_of_class, every_shape_are_pooled) {
    auto const blocks = test::blocks_in_use();
    {
        memorypool::boost_intrusive_pool<TypeParam> pool(3, 5, 0, memorypool::RECYCLE_METHOD_CUSTOM_FUNCTION,
                                                         [](TypeParam& it) { it.check(); });
        for (int round = 0; round < 3; ++round) {
            auto handles = take(pool, 40);
            for (auto const& it : handles) {
                EXPECT_EQ(reinterpret_cast<std::uintptr_t>(it.get()) % alignof(TypeParam), 0U);
                EXPECT_EQ(it->use_count(), 1U);
                EXPECT_TRUE(it->is_in_memory_pool());
            }
            EXPECT_EQ(pool.inuse_count(), 40U);
            pool.check();
            handles.resize(static_cast<std::size_t>(round));
            if (round == 1) pool.clear();
            pool.check();
        }
    }
    EXPECT_EQ(test::blocks_in_use(), blocks);
}

TEST(boost_intrusive_pool_item_construction, leaves_what_the_constructor_does_not_write) {
    struct untouched : boost_intrusive_pool_item {
        untouched() {}  // NOLINT: writes nothing on purpose
        unsigned char buffer[256];
    };
    struct implicit : boost_intrusive_pool_item {
        unsigned char buffer[256];
    };
    auto const count_zeros = [](auto& pool) {
        auto handles = take(pool, 50);
        for (auto const& it : handles)
            for (unsigned char& byte : it->buffer)
                byte = 0xA5;
        handles.clear();
        pool.clear();  // the blocks return to the default pool
        std::size_t zeros = 0;
        for (auto const& it : take(pool, 50)) {
            unsigned char* bytes = it->buffer;
            asm volatile(""
                         : "+r"(bytes)
                         :
                         : "memory");  // the compiler must not know that they were not written
            for (int i = 0; i < 256; ++i)
                zeros += bytes[i] == 0 ? 1 : 0;
        }
        return zeros;
    };
    memorypool::boost_intrusive_pool<untouched> a(50, 0);
    memorypool::boost_intrusive_pool<implicit> b(50, 0);
    // A few bytes of a block are the default pool's while it is free.
    EXPECT_LT(count_zeros(a), 200U);
    EXPECT_LT(count_zeros(b), 200U);
}

TEST(boost_intrusive_pool_memory,
     of_a_large_pool_goes_back_to_the_system_at_its_end_and_of_a_small_one_stays) {
    using packet = payload<4096>;
    auto const bytes = [] { return pooled::default_pool().stats().upstream_bytes; };
    pooled::default_pool().trim();
    auto const before = bytes();
    auto const stays = [&](std::size_t items) {
        { memorypool::boost_intrusive_pool<packet> const pool(items, 0); }
        return bytes() - before;
    };
    EXPECT_GT(stays(2'000), 2'000U * 4096 / 2);
    EXPECT_LT(stays(20'000), std::uint64_t{20'000} * 4096 / 10);
    boost::intrusive_ptr<packet> last;
    {
        memorypool::boost_intrusive_pool<packet> pool(20'000, 0);
        last = pool.allocate();
    }
    last.reset();
    EXPECT_LT(bytes() - before, std::uint64_t{20'000} * 4096 / 10) << "an item outlived its pool";
}

}  // namespace
