// SPDX-License-Identifier: BSL-1.0
// Teardowns while a thread or the process ends: thread_local and static objects that own structures, are created during
// a teardown, or are read from there; and exit() during one. Nothing may be lost, destroyed twice, or recurse.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/death_tests.hpp"
#include "support/small_stack.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

namespace {

std::atomic<long> g_alive{0};

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

// Errors that a destructor at the very end finds: GoogleTest no longer exists then.
[[noreturn]] void give_up(char const* what) {
    std::fputs(what, stderr);
    std::_Exit(13);
}

long g_expected = 0;  // alive at the end of the process
struct expects_nothing_alive {
    ~expects_nothing_alive() {
        if (g_alive != g_expected) give_up("something is alive at the end, or destroyed that must not be");
    }
};
expects_nothing_alive const g_last;  // destroyed after everything that a test makes

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
