// SPDX-License-Identifier: BSL-1.0
// Counted pointers when a thread, the pool or the process ends, and after a fork.

#include "pooled/pooled.hpp"
#include "pooled/rc_ptr.hpp"

#include "support/counting_upstream.hpp"
#include "support/death_tests.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace {

struct link {
    pooled::rc_ptr<link> next;
    pooled::weak_rc_ptr<link> previous;
};

pooled::rc_ptr<link> make_list(pooled::pool& pool, int length) {
    pooled::rc_ptr<link> head;
    for (int i = 0; i < length; ++i) {
        auto front = pool.make_rc<link>();
        if (head) head->previous = front;
        front->next = std::move(head);
        head = std::move(front);
    }
    return head;
}

TEST(a_counted_object, outlives_its_pool_and_then_gives_everything_back) {
    test::counting_upstream upstream;
    test::life_log log;
    pooled::rc_ptr<test::counted<>> p;
    pooled::weak_rc_ptr<test::counted<>> w;
    pooled::unique_ptr<test::counted<>> u;
    pooled::rc_ptr<link> list;
    {
        pooled::pool pool{{.upstream = &upstream}};
        p = pool.make_rc<test::counted<>>(log);
        u = pool.make_unique<test::counted<>>(log);
        w = p;
        list = make_list(pool, 10'000);
    }
    EXPECT_EQ(log.alive(), 2);
    EXPECT_EQ(w.lock(), p);
    pooled::rc_ptr<test::counted<>> const late = std::move(u);
    p.reset();
    EXPECT_EQ(log.alive(), 1);
    list.reset();
    EXPECT_GT(upstream.bytes(), 0U);
    const_cast<pooled::rc_ptr<test::counted<>>&>(late).reset();
    EXPECT_GT(upstream.bytes(), 0U) << "one is observed";
    w.reset();
    EXPECT_EQ(upstream.bytes(), 0U);
}

TEST(a_counted_object, is_dropped_by_thread_local_destructors) {
    pooled::pool pool;
    std::thread([&] {
        // One is constructed before the thread has used a pool, and so is destroyed after the pool's own hook.
        static thread_local pooled::rc_ptr<link> before;
        static_cast<void>(before.get());
        before = make_list(pool, 1000);
        static thread_local pooled::rc_ptr<link> after = make_list(pool, 1000);
        static thread_local pooled::rc_ptr<link> by_default = pooled::make_rc<link>();
        by_default->next = after;
    }).join();
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

// Errors that a destructor at the very end finds: GoogleTest no longer exists then.
[[noreturn]] void give_up(char const* what) {
    std::fputs(what, stderr);
    std::_Exit(13);
}

struct makes_more {
    ~makes_more() {
        auto p = pooled::make_rc<int>(1);
        pooled::weak_rc_ptr<int> const w = p;
        if (w.lock() != p) give_up("a weak pointer did not find its object");
        p.reset();
        if (!w.expired()) give_up("a weak pointer found an object that is gone");
        list = nullptr;
        if (!observer.expired()) give_up("the list is still there");
    }
    pooled::rc_ptr<link> list = make_list(pooled::default_pool(), 10'000);
    pooled::weak_rc_ptr<link> observer = list;
};

TEST(at_the_end_of_the_process, counted_objects_are_made_and_dropped_in_static_destructors) {
    test::expect_good_end([] {
        static makes_more const at_exit;
        static thread_local makes_more const of_main;
        static_cast<void>(&of_main);
        std::thread([] { static thread_local makes_more const of_thread; }).join();
    });
}

TEST(a_forked_child, uses_and_drops_what_its_parent_made) {
    pooled::pool pool;
    auto list = make_list(pool, 10'000);
    pooled::weak_rc_ptr<link> const w = list;
    auto const use = [&] {
        list.reset();
        if (!w.expired()) give_up("the list is still there");
        struct first_made_in_the_child {
            pooled::rc_ptr<link> held;
        };
        auto p = pool.make_rc<first_made_in_the_child>();
        p->held = make_list(pool, 100);
        pooled::rc_ptr<void> const nothing = std::move(p);
        return pool.stats().in_use == 102;
    };
    EXPECT_EQ(test::in_child(use), 0);
    EXPECT_EQ(w.lock(), list);
}

}  // namespace
