// SPDX-License-Identifier: BSL-1.0
// memorypool: items outlive their pool, pools move and start again, and nothing leaks.

#include "unit/compat/boost_intrusive_pool.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using memorypool::RECYCLE_METHOD_CUSTOM_FUNCTION;
using memorypool::RECYCLE_METHOD_DESTROY_FUNCTION;
using test::intrusive_handle;
using test::intrusive_item;
using test::intrusive_pool;
using test::take;

static_assert(std::is_nothrow_move_constructible_v<intrusive_pool>);
static_assert(std::is_nothrow_move_assignable_v<intrusive_pool>);
static_assert(std::is_nothrow_default_constructible_v<intrusive_pool>);

class boost_intrusive_pool_lifetime : public testing::Test {
protected:
    boost_intrusive_pool_lifetime() : blocks(test::blocks_in_use()) {}
    ~boost_intrusive_pool_lifetime() override {
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(test::blocks_in_use(), blocks) << "memory was left behind";
    }
    std::uint64_t blocks;
    test::life_log log;
    test::life_log::scope scope{log};
};

TEST_F(boost_intrusive_pool_lifetime, items_in_use_outlive_the_pool) {
    std::optional<intrusive_pool> pool(std::in_place, 10, 10);
    auto handles = take(*pool, 15);
    handles.resize(12);
    for (std::size_t i = 0; i < handles.size(); ++i)
        handles[i]->value = static_cast<int>(i);
    pool.reset();
    EXPECT_EQ(log.alive(), 12);
    for (std::size_t i = 0; i < handles.size(); ++i) {
        EXPECT_EQ(handles[i]->value, static_cast<int>(i));
        EXPECT_TRUE(handles[i]->is_in_memory_pool());
    }
    auto copies = handles;
    handles.clear();
    EXPECT_EQ(log.alive(), 12);
    copies.pop_back();
    EXPECT_EQ(log.alive(), 11);
}

TEST_F(boost_intrusive_pool_lifetime, items_dropped_by_another_thread_after_the_pool_has_gone_are_destroyed) {
    std::optional<intrusive_pool> pool(std::in_place, 4, 4);
    auto handles = take(*pool, 40);
    pool.reset();
    std::thread([&handles] { handles.clear(); }).join();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(boost_intrusive_pool_lifetime, destroy_is_called_after_the_pool_has_gone_but_not_the_pools_function) {
    struct told : memorypool::boost_intrusive_pool_item {
        void destroy() override { ++*calls; }
        int* calls = nullptr;
    };
    int destroy_calls = 0;
    int function_calls = 0;
    boost::intrusive_ptr<told> a;
    boost::intrusive_ptr<told> b;
    {
        memorypool::boost_intrusive_pool<told> first(2, 2, 0, RECYCLE_METHOD_DESTROY_FUNCTION);
        a = first.allocate();
        a->calls = &destroy_calls;
        memorypool::boost_intrusive_pool<told> second(2, 2, 0, RECYCLE_METHOD_CUSTOM_FUNCTION,
                                                      [&](told&) { ++function_calls; });
        b = second.allocate();
        b->calls = &destroy_calls;
        static_cast<void>(second.allocate());
        EXPECT_EQ(function_calls, 1);
    }
    a.reset();
    EXPECT_EQ(destroy_calls, 1);
    b.reset();
    EXPECT_EQ(function_calls, 1);
    EXPECT_EQ(destroy_calls, 1);
}

// A list through the pool's own items, as parsers build them.
struct node : memorypool::boost_intrusive_pool_item, test::counted<8> {
    boost::intrusive_ptr<node> next;
};

TEST_F(boost_intrusive_pool_lifetime, items_may_hold_handles_of_their_own_pool) {
    std::optional<memorypool::boost_intrusive_pool<node>> pool(std::in_place, 4, 4);
    auto const list = [&pool](int length) {
        boost::intrusive_ptr<node> head;
        for (int i = 0; i < length; ++i) {
            auto fresh = pool->allocate();
            fresh->next = std::move(head);
            head = std::move(fresh);
        }
        return head;
    };
    auto kept = list(20);
    static_cast<void>(list(20));  // a free item holds the second, and so on
    EXPECT_EQ(pool->inuse_count(), 39U);
    pool->check();
    pool->clear();
    EXPECT_EQ(log.alive(), 20);
    static_cast<void>(list(10));
    pool.reset();
    EXPECT_EQ(log.alive(), 20);
}

TEST_F(boost_intrusive_pool_lifetime, moved_pool_keeps_its_items) {
    intrusive_pool a(4, 2);
    auto handles = take(a, 3);
    intrusive_pool b(std::move(a));
    EXPECT_EQ(b.capacity(), 4U);
    EXPECT_EQ(b.inuse_count(), 3U);
    EXPECT_EQ(a.capacity(), 0U);  // NOLINT: a moved pool is one that needs init()
    EXPECT_EQ(a.allocate(), nullptr);
    handles.clear();
    EXPECT_EQ(b.unused_count(), 4U);

    a.init(2);
    auto const of_a = take(a, 1);
    a = std::move(b);
    EXPECT_EQ(a.capacity(), 4U);
    EXPECT_EQ(log.alive(), 5) << "a's former item in use, and b's";
    intrusive_pool& same = a;
    a = std::move(same);
    EXPECT_EQ(a.capacity(), 4U);
}

TEST_F(boost_intrusive_pool_lifetime, init_again_begins_anew) {
    intrusive_pool pool(10, 5, 20, RECYCLE_METHOD_DESTROY_FUNCTION);
    auto old = take(pool, 12);
    pool.init(3, 0);
    EXPECT_EQ(log.alive(), 12 + 3);
    EXPECT_EQ(pool.capacity(), 3U);
    EXPECT_EQ(pool.inuse_count(), 0U);
    EXPECT_TRUE(pool.is_bounded());
    EXPECT_TRUE(pool.is_limited());
    EXPECT_EQ(pool.enlarge_steps_done(), 1U);
    intrusive_item* const it = pool.allocate().get();
    EXPECT_EQ(it->destroy_calls, 0) << "the method is the new one";
    old.clear();
    EXPECT_EQ(log.alive(), 3);
    EXPECT_EQ(pool.unused_count(), 3U);
}

TEST_F(boost_intrusive_pool_lifetime, many_pools_of_one_thread_do_not_mix_their_items) {
    std::vector<intrusive_pool> pools;
    for (int i = 0; i < 100; ++i)
        pools.emplace_back(3, 2);
    std::vector<std::vector<intrusive_handle>> handles(pools.size());
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < pools.size(); ++i) {
            handles[i].push_back(pools[i].allocate());
            if (round % 3 == 2) handles[i].erase(handles[i].begin());
        }
    }
    for (std::size_t i = 0; i < pools.size(); ++i) {
        EXPECT_EQ(pools[i].inuse_count(), handles[i].size());
        pools[i].check();
    }
    // Some are destroyed, others get their addresses.
    for (std::size_t i = 0; i < pools.size(); i += 2)
        pools[i].init(2, 1);
    for (auto& pool : pools) {
        auto const more = take(pool, 5);
        pool.check();
    }
    handles.clear();
    for (auto& pool : pools)
        EXPECT_EQ(pool.inuse_count(), 0U);
}

TEST_F(boost_intrusive_pool_lifetime, a_thread_that_ends_gives_back_what_it_cached) {
    intrusive_pool pool(100, 0);
    auto keep = take(pool, 1);
    for (int round = 0; round < 10; ++round)
        std::thread([&pool] { auto const handles = take(pool, 50); }).join();
    EXPECT_EQ(pool.unused_count(), 99U);
    auto const all = take(pool, 99);
    EXPECT_NE(all.back(), nullptr);
    EXPECT_EQ(pool.allocate(), nullptr);
    pool.check();
}

TEST_F(boost_intrusive_pool_lifetime, free_items_in_other_threads_caches_are_found) {
    intrusive_pool pool(1000, 0);
    auto mine = take(pool, 1);
    std::optional<std::vector<intrusive_handle>> theirs;
    // The other thread stays: what it freed lies in its cache.
    std::thread other([&] {
        theirs = take(pool, 999);
        theirs.reset();
        auto const rest = take(pool, 999);
        EXPECT_NE(rest.back(), nullptr);
    });
    other.join();
    auto const rest = take(pool, 999);
    EXPECT_NE(rest.back(), nullptr);
    EXPECT_EQ(pool.allocate(), nullptr);
}

// The thread's own list of pools is gone by then.
TEST_F(boost_intrusive_pool_lifetime, items_can_be_taken_and_dropped_in_thread_local_destructors) {
    static intrusive_pool* shared = nullptr;
    intrusive_pool pool(10, 10);
    shared = &pool;
    struct late {
        ~late() {
            log_scope.emplace(*log);
            auto const more = take(*shared, 30);
            handle.reset();
        }
        test::life_log* log = nullptr;
        std::optional<test::life_log::scope> log_scope;
        intrusive_handle handle;
    };
    std::thread([this] {
        static thread_local late at_end;
        at_end.log = &log;
        at_end.handle = shared->allocate();
    }).join();
    EXPECT_EQ(pool.inuse_count(), 0U);
    pool.check();
}

TEST_F(boost_intrusive_pool_lifetime, pools_come_and_go_while_a_thread_lives) {
    std::vector<intrusive_handle> kept;
    for (int i = 0; i < 200; ++i) {
        intrusive_pool pool(5, 5);
        auto const handles = take(pool, 7);
        if (i % 10 == 0) kept.push_back(handles[3]);
    }
    EXPECT_EQ(log.alive(), 20);
}

}  // namespace
