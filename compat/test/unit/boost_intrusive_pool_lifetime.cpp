// SPDX-License-Identifier: BSL-1.0
// memorypool: items outlive their pool, pools move and start again, nothing leaks; and what it does with bad input, and with
// constructors, init functions and recycle functions that throw.

#include "compat/test/unit/boost_intrusive_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using memorypool::RECYCLE_METHOD_CUSTOM_FUNCTION;
using memorypool::RECYCLE_METHOD_DESTROY_FUNCTION;
using memorypool::RECYCLE_METHOD_NONE;
using test::constructor_failed;
using test::intrusive_handle;
using test::intrusive_item;
using test::intrusive_pool;
using test::take;

static_assert(std::is_nothrow_move_constructible_v<intrusive_pool>);
static_assert(std::is_nothrow_move_assignable_v<intrusive_pool>);
static_assert(std::is_nothrow_default_constructible_v<intrusive_pool>);

using boost_intrusive_pool_lifetime = test::intrusive_pool_test;

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

TEST_F(boost_intrusive_pool_lifetime, check_takes_no_item_from_another_thread) {
    intrusive_pool pool(1, 0);
    intrusive_pool growing(2, 1);
    std::atomic<bool> is_over{false};
    std::atomic<int> checked{0};
    std::thread checks([&] {
        for (; !is_over; ++checked) {
            pool.check();
            growing.check();
        }
    });
    int missed = 0;
    for (int i = 0; i < 1'000'000 || checked < 1'000'000; ++i) {
        missed += pool.allocate() == nullptr ? 1 : 0;
        static_cast<void>(growing.allocate());
    }
    is_over = true;
    checks.join();
    EXPECT_EQ(missed, 0);
    EXPECT_EQ(growing.capacity(), 2U);
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

// Bad input, and constructors, init functions and recycle functions that throw.

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();

using boost_intrusive_pool_failure = test::intrusive_pool_test;

TEST_F(boost_intrusive_pool_failure, init_size_over_max_size_is_refused) {
    EXPECT_THROW(intrusive_pool(11, 5, 10), std::invalid_argument);
    intrusive_pool pool(3);
    EXPECT_THROW(pool.init(11, 0, 10), std::invalid_argument);
    EXPECT_EQ(pool.capacity(), 3U) << "the pool is as before";
    pool.init(10, 0, 10);
    EXPECT_EQ(pool.capacity(), 10U);
}

TEST_F(boost_intrusive_pool_failure, custom_method_without_a_function_is_refused) {
    EXPECT_THROW(intrusive_pool(1, 1, 0, RECYCLE_METHOD_CUSTOM_FUNCTION), std::invalid_argument);
    intrusive_pool pool(1, 1, 0, RECYCLE_METHOD_DESTROY_FUNCTION);
    EXPECT_THROW(pool.set_recycle_method(RECYCLE_METHOD_CUSTOM_FUNCTION), std::invalid_argument);
    intrusive_item* const it = pool.allocate().get();
    EXPECT_EQ(it->destroy_calls, 1) << "the method is as before";
}

TEST_F(boost_intrusive_pool_failure, recycle_method_of_a_pool_without_init_is_refused) {
    intrusive_pool pool;
    EXPECT_THROW(pool.set_recycle_method(RECYCLE_METHOD_NONE), std::logic_error);
}

TEST_F(boost_intrusive_pool_failure, initial_size_of_zero_grows_with_the_first_item) {
    intrusive_pool pool(0, 3);
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_FALSE(pool.is_memory_exhausted());
    intrusive_handle const a = pool.allocate();
    EXPECT_NE(a, nullptr);
    EXPECT_EQ(pool.capacity(), 3U);
}

TEST_F(boost_intrusive_pool_failure, bounded_pool_of_zero_items_is_always_exhausted) {
    intrusive_pool pool(0, 0);
    EXPECT_TRUE(pool.is_bounded());
    EXPECT_TRUE(pool.is_memory_exhausted());
    EXPECT_EQ(pool.allocate(), nullptr);
    pool.clear();
    EXPECT_EQ(pool.allocate(), nullptr);
}

TEST_F(boost_intrusive_pool_failure, step_beyond_max_size_is_cut) {
    intrusive_pool pool(1, k_most, 5);
    auto const handles = take(pool, 5);
    EXPECT_NE(handles.back(), nullptr);
    EXPECT_EQ(pool.capacity(), 5U);
    EXPECT_EQ(pool.allocate(), nullptr);
}

// Refused at once: the system would else kill the process while it constructs.
TEST_F(boost_intrusive_pool_failure, sizes_that_no_machine_holds_are_refused) {
    EXPECT_THROW(intrusive_pool pool(k_most), std::bad_alloc);
    EXPECT_THROW(intrusive_pool pool(k_most / sizeof(intrusive_item)), std::bad_alloc);
    EXPECT_THROW(intrusive_pool pool(k_most / sizeof(intrusive_item) + 2), std::bad_alloc);
    EXPECT_THROW(intrusive_pool pool(std::size_t{1} << 46), std::bad_alloc);
    EXPECT_EQ(log.constructed(), 0);
}

TEST_F(boost_intrusive_pool_failure, last_free_item_is_given_though_there_is_no_memory_to_grow) {
    intrusive_pool pool(2, std::size_t{1} << 50);
    auto handles = take(pool, 2);
    EXPECT_NE(handles[1], nullptr);
    EXPECT_EQ(pool.capacity(), 2U);
    EXPECT_EQ(pool.unused_count(), 0U);
    EXPECT_TRUE(pool.is_memory_exhausted());
    EXPECT_THROW(static_cast<void>(pool.allocate()), std::bad_alloc);
    EXPECT_EQ(pool.inuse_count(), 2U);
    handles.pop_back();
    EXPECT_FALSE(pool.is_memory_exhausted());
    EXPECT_NE(pool.allocate(), nullptr);
    pool.check();
}

// As an upstream of the default pool may throw.
TEST_F(boost_intrusive_pool_failure, exceptions_derived_from_bad_alloc_are_passed_on_as_they_are) {
    struct no_space : std::bad_alloc {};
    static bool is_full;
    struct large_item : memorypool::boost_intrusive_pool_item {
        large_item() {
            if (is_full) throw no_space();
        }
    };
    memorypool::boost_intrusive_pool<large_item> pool(2, 1);
    is_full = true;
    auto const first = pool.allocate();
    auto const last = pool.allocate();  // and no step
    EXPECT_TRUE(last != nullptr && pool.is_memory_exhausted());
    EXPECT_THROW(static_cast<void>(pool.allocate()), no_space);
    EXPECT_TRUE(pool.is_memory_exhausted());
    EXPECT_THROW(memorypool::boost_intrusive_pool<large_item>(1), no_space);
    EXPECT_FALSE(pool.init(1));
    is_full = false;
    EXPECT_NE(pool.allocate(), nullptr);
    EXPECT_FALSE(pool.is_memory_exhausted());
}

TEST_F(boost_intrusive_pool_failure, constructor_that_throws_while_growing_leaves_the_pool_as_it_was) {
    for (std::int64_t n = 1; n <= 1000; n += 73) {
        intrusive_pool pool(3, 1000);
        auto handles = take(pool, 2);
        log.throw_at(n);
        EXPECT_THROW(static_cast<void>(pool.allocate()), constructor_failed);
        EXPECT_EQ(pool.capacity(), 3U);
        EXPECT_EQ(pool.inuse_count(), 2U);
        EXPECT_EQ(pool.unused_count(), 1U);
        EXPECT_EQ(pool.enlarge_steps_done(), 1U);
        EXPECT_EQ(log.alive(), 3);
        pool.check();
        log.throw_at(0);
        handles.push_back(pool.allocate());
        EXPECT_EQ(pool.capacity(), 1003U);
        EXPECT_EQ(pool.unused_count(), 1000U);
        pool.check();
    }
}

TEST_F(boost_intrusive_pool_failure, init_that_throws_leaves_the_pool_as_it_was) {
    intrusive_pool pool(3);
    auto const handles = take(pool, 2);
    log.throw_at(5);
    EXPECT_THROW(pool.init(10), constructor_failed);
    log.throw_at(0);
    EXPECT_EQ(pool.capacity(), 3U);
    EXPECT_EQ(pool.inuse_count(), 2U);
    EXPECT_NE(pool.allocate(), nullptr);
}

TEST_F(boost_intrusive_pool_failure, item_whose_init_throws_goes_back) {
    struct strict : memorypool::boost_intrusive_pool_item {
        void init(int a) {
            if (a < 0) throw std::invalid_argument("negative");
        }
    };
    memorypool::boost_intrusive_pool<strict> pool(2, 0);
    EXPECT_THROW(static_cast<void>(pool.allocate_through_init(-1)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(pool.allocate_through_function([](strict& it) { it.init(-1); })),
                 std::invalid_argument);
    EXPECT_EQ(pool.unused_count(), 2U);
}

// Its state is unknown.
TEST_F(boost_intrusive_pool_failure, item_whose_recycling_throws_is_constructed_anew) {
    intrusive_pool pool(2, 0, 0, RECYCLE_METHOD_CUSTOM_FUNCTION, [](intrusive_item& it) {
        if (it.value == 13) throw std::runtime_error("unlucky");
    });
    intrusive_handle a = pool.allocate_through_init(13);
    intrusive_item* const it = a.get();
    a.reset();
    EXPECT_EQ(log.constructed(), 3);
    EXPECT_EQ(log.alive(), 2);
    EXPECT_EQ(pool.unused_count(), 2U);
    intrusive_handle const again = pool.allocate();
    EXPECT_EQ(again.get(), it);
    EXPECT_EQ(again->value, 0);
    EXPECT_EQ(again->use_count(), 1U);
    pool.check();
}

TEST_F(boost_intrusive_pool_failure, destroy_may_throw_too) {
    struct stubborn : memorypool::boost_intrusive_pool_item, test::counted<8> {
        void destroy() override { throw std::runtime_error("no"); }
    };
    memorypool::boost_intrusive_pool<stubborn> pool(2, 2, 0, RECYCLE_METHOD_DESTROY_FUNCTION);
    for (int i = 0; i < 10; ++i)
        static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_count(), 2U);
    auto out = pool.allocate();
    pool.clear();
    out.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(boost_intrusive_pool_failure, item_that_cannot_be_constructed_anew_is_lost_to_the_pool) {
    intrusive_pool pool(3, 0, 0, RECYCLE_METHOD_CUSTOM_FUNCTION,
                        [](intrusive_item&) { throw std::runtime_error("no"); });
    auto handles = take(pool, 3);
    log.throw_at(1);
    handles.pop_back();
    EXPECT_EQ(log.alive(), 2);
    EXPECT_EQ(pool.capacity(), 2U);
    EXPECT_EQ(pool.unused_count(), 0U);
    EXPECT_EQ(pool.inuse_count(), 2U);
    log.throw_at(0);
    handles.pop_back();
    EXPECT_EQ(pool.unused_count(), 1U);
    pool.check();
    // Whether its items are let go of while some are in use or not.
    pool.clear();
    EXPECT_EQ(log.alive(), 1);
    log.throw_at(1);
    handles.clear();
    EXPECT_EQ(log.alive(), 0);
    log.throw_at(0);
    EXPECT_NE(pool.allocate(), nullptr);
}

// Without end in the original.
struct asks : memorypool::boost_intrusive_pool_item {
    asks() {
        if (pool != nullptr) other = pool->allocate();
        ++constructed;
    }
    boost::intrusive_ptr<asks> other;
    static inline memorypool::boost_intrusive_pool<asks>* pool = nullptr;
    static inline int constructed = 0;
};

TEST_F(boost_intrusive_pool_failure, constructor_may_ask_the_pool_that_makes_its_item) {
    memorypool::boost_intrusive_pool<asks> pool(2, 2);
    asks::pool = &pool;
    auto const first = pool.allocate();
    auto const second = pool.allocate();  // the last: two more are made, while none is free
    EXPECT_EQ(asks::constructed, 4);
    EXPECT_EQ(pool.capacity(), 4U);
    EXPECT_EQ(pool.unused_count(), 2U);
    EXPECT_EQ(pool.allocate()->other, nullptr);
    asks::pool = nullptr;
}

// The new items are those of the step that is under construction; what its caller gets was in the pool before.
struct clears : memorypool::boost_intrusive_pool_item, test::counted<8> {
    clears() {
        if (pool != nullptr) pool->clear();
        if (throws) throw std::runtime_error("after clear()");
    }
    static inline memorypool::boost_intrusive_pool<clears>* pool = nullptr;
    static inline bool throws = false;
};

TEST_F(boost_intrusive_pool_failure, constructor_may_clear_the_pool_that_makes_its_item) {
    memorypool::boost_intrusive_pool<clears> pool(2, 3);
    clears::pool = &pool;
    auto first = pool.allocate();
    auto second = pool.allocate();
    EXPECT_EQ(pool.capacity(), 3U);
    EXPECT_EQ(pool.unused_count(), 3U);
    EXPECT_EQ(pool.enlarge_steps_done(), 1U);
    EXPECT_EQ(log.alive(), 5);
    first.reset();
    second.reset();
    EXPECT_EQ(log.alive(), 3);
    first = pool.allocate();
    second = pool.allocate();
    clears::throws = true;
    EXPECT_THROW(static_cast<void>(pool.allocate()), std::runtime_error);
    clears::throws = false;
    clears::pool = nullptr;
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_EQ(log.alive(), 2) << "the last free one is gone as the others";
    EXPECT_NE(pool.allocate(), nullptr);
    EXPECT_EQ(pool.capacity(), 3U);
}

}  // namespace
