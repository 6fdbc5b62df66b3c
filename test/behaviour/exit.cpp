// SPDX-License-Identifier: BSL-1.0
// Pools and object pools while a process ends (static destructors, thread_local destructors, atexit handlers), and object
// pools around fork; teardowns while a thread or the process ends. What ends a process is a death test, which checks the exit code.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/death_tests.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/sleeper.hpp"
#include "support/small_stack.hpp"
#include "unit/object/kinds.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

using namespace std::chrono_literals;

namespace {

// Errors that a destructor at the very end finds: GoogleTest no longer exists then.
[[noreturn]] void give_up(char const* what) {
    std::fputs(what, stderr);
    std::_Exit(13);
}

void use_default_pool(char const* when) {
    std::vector<std::shared_ptr<int>, pooled::allocator<std::shared_ptr<int>>> all;
    for (int i = 0; i < 1000; ++i)
        all.push_back(pooled::make_shared<int>(i));
    auto const large = pooled::make_unique<char[]>(100'000);
    for (int i = 0; i < 1000; ++i)
        if (*all[static_cast<std::size_t>(i)] != i) give_up(when);
}

std::atomic<long> g_alive{0};  // nodes of teardowns
long g_expected = 0;           // alive at the end of the process
struct expects_nothing_alive {
    ~expects_nothing_alive() {
        if (g_alive != g_expected) give_up("something is alive at the end, or destroyed that must not be");
    }
};
expects_nothing_alive const
    g_last;  // destroyed after everything that a test makes, and after the library's own state

struct uses_at_end {
    ~uses_at_end() {
        held.reset();
        use_default_pool("in a destructor");
        observed.reset();
    }
    std::shared_ptr<int> held = pooled::make_shared<int>(1);
    std::weak_ptr<int> observed = held;
};

uses_at_end g_before_main;  // destroyed after everything that main has used

TEST(at_exit, the_default_pool_works_in_static_destructors) {
    test::expect_good_end([] {
        static uses_at_end const late;
        use_default_pool("before");
    });
}

TEST(at_exit, the_default_pool_works_in_atexit_handlers) {
    test::expect_good_end([] {
        std::atexit([] { use_default_pool("in an early handler"); });
        use_default_pool("before");
        std::atexit([] { use_default_pool("in a late handler"); });
    });
}

TEST(at_exit, the_default_pool_works_in_thread_local_destructors) {
    test::expect_good_end([] {
        std::thread([] {
            static thread_local uses_at_end const before_the_pools_own_hook;
            use_default_pool("on the thread");
        }).join();
        static thread_local uses_at_end const of_the_main_thread;
    });
}

TEST(at_exit, a_static_pool_is_outlived_by_static_objects_of_it) {
    test::expect_good_end([] {
        static std::shared_ptr<int> outlives;  // destroyed after the pool: constructed before
        static std::vector<pooled::unique_ptr<int>> many;
        static pooled::pool early{{.name = "early"}};
        outlives = early.make_shared<int>(1);
        for (int i = 0; i < 1000; ++i)
            many.push_back(early.make_unique<int>(i));
    });
}

TEST(at_exit, a_threads_objects_are_dropped_after_main_has_returned) {
    test::expect_good_end([] {
        static std::shared_ptr<int> from_thread;
        std::thread([] { from_thread = pooled::make_shared<int>(1); }).join();
    });
}

TEST(at_exit, a_thread_local_local_pool_is_outlived_by_its_objects) {
    test::expect_good_end([] {
        std::thread([] {
            static thread_local std::shared_ptr<int> outlives;
            static thread_local pooled::local_pool mine;
            outlives = mine.make_shared<int>(1);
        }).join();
    });
}

TEST(at_exit, a_pthread_key_destructor_that_runs_last_may_use_the_pool) {
    test::expect_good_end([] {
        static pthread_key_t key;
        // Registers itself again and again, so that it runs after the library's own hook.
        pthread_key_create(&key, [](void* rounds) {
            use_default_pool("in a key's destructor");
            auto const left = reinterpret_cast<std::uintptr_t>(rounds) - 1;
            if (left != 0) pthread_setspecific(key, reinterpret_cast<void*>(left));
        });
        std::thread([] {
            use_default_pool("on the thread");
            pthread_setspecific(key, reinterpret_cast<void*>(std::uintptr_t{3}));
        }).join();
        if (pooled::default_pool().stats().in_use != 1) give_up("blocks were lost");  // g_before_main's
    });
}

// Object pools.

int g_buffers = 0;
struct buffer {
    buffer() { ++g_buffers; }
    buffer(buffer const&) = delete;
    ~buffer() { --g_buffers; }
};

// Destroyed in this order: the late handle, the pool, the early handle.
std::shared_ptr<buffer> g_early;
std::optional<pooled::object_pool<buffer>> g_pool;
struct late_handle {
    std::shared_ptr<buffer> shared;
    ~late_handle() {
        shared.reset();
        if (g_pool.has_value() && g_pool->idle() == 0) give_up("not recycled in a static destructor");
    }
} g_late;

TEST(object_pool_at_exit, recycles_in_static_destructors_before_and_after_its_own) {
    test::expect_good_end([] {
        g_pool.emplace();
        test::settle(*g_pool);
        g_early = g_pool->acquire();
        g_late.shared = g_pool->acquire();
        std::atexit([] {
            if (g_buffers != 2) give_up("before");
        });
    });
}

// A destructor that runs when the thread's pthread keys are: after all thread_local objects, and perhaps after the caches.
pthread_key_t g_key;
TEST(object_pool_at_thread_exit, recycles_after_the_threads_cache_is_gone) {
    pooled::object_pool<buffer> pool;
    ASSERT_EQ(pthread_key_create(&g_key,
                                 [](void* p) {
                                     auto* const held = static_cast<std::shared_ptr<buffer>*>(p);
                                     static thread_local int rounds = 0;
                                     if (++rounds < 3)
                                         pthread_setspecific(g_key, p);  // once more, after the others
                                     else
                                         delete held;
                                 }),
              0);
    std::thread([&] {
        test::settle(pool);
        pthread_setspecific(g_key, new std::shared_ptr<buffer>(pool.acquire()));
    }).join();
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
    pthread_key_delete(g_key);
}

TEST(object_pool_after_fork, has_no_waiter_in_the_child) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    std::thread other([&] { EXPECT_TRUE(pool.acquire_for(1h)); });
    while (pool.waiting() != 1)
        std::this_thread::yield();
    EXPECT_EQ(test::in_child([&] {
                  if (pool.waiting() != 0) return false;
                  held.reset();
                  for (int i = 0; i < test::k_settling; ++i)
                      if (!pool.try_acquire()) return false;
                  return test::is_valid(pool);
              }),
              0);
    EXPECT_EQ(pool.waiting(), 1U);
    held.reset();
    other.join();
}

// Teardowns while a thread or the process ends: thread_local and static objects that own structures, are created during
// a teardown, or are read from there; and exit() during one. Nothing may be lost, destroyed twice, or recurse.

struct node {
    node() noexcept { ++g_alive; }
    node(node const&) = delete;
    node& operator=(node const&) = delete;
    ~node() {
        if (on_destroy != nullptr) on_destroy();
        --g_alive;
    }
    std::shared_ptr<node> next;
    std::weak_ptr<node> observed;
    void (*on_destroy)() = nullptr;
};

constexpr std::size_t k_length = test::k_sanitized ? 20'000 : 100'000;  // recursion would end on any stack

// Every third node is observed by the one that owns it.
template <class Make>
std::shared_ptr<node> list(std::size_t length, Make make) {
    std::shared_ptr<node> head;
    for (std::size_t i = 0; i < length; ++i) {
        std::shared_ptr<node> fresh = make();
        if (i % 3 == 0) fresh->observed = head;
        fresh->next = std::move(head);
        head = std::move(fresh);
    }
    return head;
}
std::shared_ptr<node> from_default() { return pooled::make_shared<node>(); }
std::shared_ptr<node> list() { return list(k_length, from_default); }

struct keeper {
    std::shared_ptr<node> owned = list();
};
keeper& of_this_thread() {
    static thread_local keeper made_when_first_used;
    return made_when_first_used;
}

TEST(teardown_end, a_thread_local_made_in_the_midst_of_a_teardown_ends_with_its_thread) {
    test::on_small_stack([] {
        auto head = list();
        head->next->next->on_destroy = [] { static_cast<void>(of_this_thread()); };
        head.reset();
        EXPECT_EQ(g_alive, static_cast<long>(k_length));
    });
    EXPECT_EQ(g_alive, 0);
}

TEST(teardown_end, a_thread_local_dropped_in_the_midst_of_a_teardown_goes_with_it) {
    test::on_small_stack([] {
        static_cast<void>(of_this_thread());
        auto head = list();
        head->next->next->on_destroy = [] { of_this_thread().owned.reset(); };
        {
            pooled::reclaim_scope const scope;
            head.reset();
        }
        EXPECT_EQ(g_alive, 0);
    });
}

// The thread's caches may be gone already: then its blocks are returned in another way.
struct ends_late {
    ~ends_late() {
        auto head = list();
        pooled::reclaim_scope const scope;
        head.reset();
        static_cast<void>(list());
    }
};

TEST(teardown_end, a_thread_local_destructor_may_make_and_gather_and_drop) {
    test::on_small_stack([] {
        static thread_local ends_late const before_the_pools_own_hook;
        static_cast<void>(&before_the_pools_own_hook);
        auto head = list();
    });
    EXPECT_EQ(g_alive, 0);
}

TEST(teardown_end, a_thread_local_that_owns_objects_of_a_pool_that_is_gone_ends_with_its_thread) {
    test::on_small_stack([] {
        static thread_local std::shared_ptr<node> owned;
        pooled::pool pool;
        pooled::local_pool local;
        std::size_t made = 0;
        owned = list(k_length,
                     [&] { return made++ % 2 == 0 ? pool.make_shared<node>() : local.make_shared<node>(); });
    });
    EXPECT_EQ(g_alive, 0);
}

TEST(teardown_end, a_thread_local_that_owns_objects_of_an_incremental_pool_ends_with_its_thread) {
    pooled::pool slow{{.teardown = pooled::teardown::incremental}};
    test::on_small_stack([&] {
        static thread_local std::shared_ptr<node> owned;
        owned = list(k_length, [&] { return slow.make_shared<node>(); });
        static thread_local std::shared_ptr<node> more;
        more = list(k_length, [&] { return slow.make_shared<node>(); });
    });
    slow.drain();
    EXPECT_EQ(g_alive, 0);
    EXPECT_EQ(slow.stats().in_use, 0U);
}

TEST(teardown_end, static_lists_outlive_their_pools_when_the_process_ends) {
    test::expect_good_end([] {
        static std::shared_ptr<node> owned;
        static pooled::pool pool;
        static pooled::pool slow{{.teardown = pooled::teardown::incremental}};
        std::size_t made = 0;
        owned = list(k_length, [&] { return (made++ % 2 == 0 ? pool : slow).make_shared<node>(); });
    });
}

TEST(teardown_end, what_waits_in_a_static_incremental_pool_is_destroyed_when_the_process_ends) {
    test::expect_good_end([] {
        static pooled::pool slow{{.teardown = pooled::teardown::incremental}};
        list(k_length, [] { return slow.make_shared<node>(); }).reset();
        if (g_alive == 0) give_up("nothing waits");
    });
}

TEST(teardown_end, a_static_made_in_the_midst_of_a_teardown_is_destroyed_when_the_process_ends) {
    test::expect_good_end([] {
        auto head = list();
        head->next->on_destroy = [] { static keeper const made_here; };
        head.reset();
        if (g_alive != static_cast<long>(k_length)) give_up("not what the static owns");
    });
}

struct exits_late {
    ~exits_late() {
        auto head = list();
        {
            pooled::reclaim_scope const scope;
            head.reset();
            if (g_alive == 0) give_up("not gathered");
        }
        head = list();
        head.reset();
    }
};

TEST(teardown_end, a_static_destructor_may_make_and_gather_and_drop) {
    test::expect_good_end([] {
        static exits_late const late;
        std::thread([] { list().reset(); }).join();
    });
}

// The scope itself never ends; what it gathered, and what static objects drop afterwards, must still be destroyed.
struct exits {
    ~exits() {
        g_expected = 100;
        std::exit(0);
    }
    std::shared_ptr<node> rest = list(100, from_default);  // destroyed by nobody: its destructor never begins
};

TEST(exit_within, a_destructor) {
    test::expect_good_end([] {
        static auto kept = list(100'000, from_default);
        pooled::make_shared<exits>().reset();
    });
}

TEST(exit_within, a_destructor_that_had_to_wait) {
    test::expect_good_end([] {
        static auto kept = list(1000, from_default);
        pooled::reclaim_scope const scope;
        auto last = pooled::make_shared<exits>();
        list(1000, from_default).reset();
        last.reset();
        pooled::pool bounded({.max_bytes = 4096});  // it makes the scope destroy what it gathered
        test::held_blocks(bounded, 64).take_all();
    });
}

TEST(exit_within, a_scope_older_than_what_is_static) {
    test::expect_good_end([] {
        pooled::reclaim_scope const scope;
        list(1000, from_default).reset();
        static auto kept = list(1000, from_default);
        std::exit(0);
    });
}

TEST(exit_within, a_drain) {
    test::expect_good_end([] {
        static pooled::pool pool({.teardown = pooled::teardown::incremental});
        static auto kept = list(1000, [] { return pool.make_shared<node>(); });
        pool.make_shared<exits>().reset();
        list(1000, [] { return pool.make_shared<node>(); }).reset();
        pool.drain();
    });
}

}  // namespace
