// SPDX-License-Identifier: BSL-1.0
// exit() during a teardown. The scope itself never ends; what it gathered, and what static objects drop afterwards,
// must still be destroyed before the process is gone.

#include "pooled/pooled.hpp"

#include "support/death_tests.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace {

int g_alive = 0;

struct node {
    node() noexcept { ++g_alive; }
    node(node const&) = delete;
    node& operator=(node const&) = delete;
    ~node() { --g_alive; }
    std::shared_ptr<node> next;
};

template <class Make>
std::shared_ptr<node> list(int count, Make make) {
    std::shared_ptr<node> head;
    for (int i = 0; i < count; ++i) {
        std::shared_ptr<node> front = make();
        front->next = std::move(head);
        head = std::move(front);
    }
    return head;
}
auto const k_from_default = [] { return pooled::make_shared<node>(); };

// Older than any pool: registered first, it runs last.
void expect_nothing_alive(int alive = 0) {
    static int expected = 0;
    expected = alive;
    std::atexit([] {
        if (g_alive == expected) return;
        std::fprintf(stderr, "%d objects alive at the end\n", g_alive);
        std::_Exit(13);
    });
}

struct exits {
    ~exits() { std::exit(0); }
    std::shared_ptr<node> rest =
        list(100, k_from_default);  // destroyed by nobody: its destructor never begins
};

TEST(exit_within, a_destructor) {
    test::expect_good_end([] {
        expect_nothing_alive(100);
        static auto kept = list(100'000, k_from_default);
        pooled::make_shared<exits>().reset();
    });
}

TEST(exit_within, a_destructor_that_had_to_wait) {
    test::expect_good_end([] {
        expect_nothing_alive(100);
        static auto kept = list(1000, k_from_default);
        pooled::reclaim_scope const scope;
        auto last = pooled::make_shared<exits>();
        list(1000, k_from_default).reset();
        last.reset();
        pooled::pool bounded({.max_bytes = 4096});  // it makes the scope destroy what it gathered
        std::vector<void*> all;
        while (void* const p = bounded.try_allocate(64))
            all.push_back(p);
    });
}

TEST(exit_within, a_scope_older_than_what_is_static) {
    test::expect_good_end([] {
        expect_nothing_alive();
        pooled::reclaim_scope const scope;
        list(1000, k_from_default).reset();
        static auto kept = list(1000, k_from_default);
        std::exit(0);
    });
}

TEST(exit_within, a_drain) {
    test::expect_good_end([] {
        expect_nothing_alive(100);
        static pooled::pool pool({.teardown = pooled::teardown::incremental});
        static auto kept = list(1000, [] { return pool.make_shared<node>(); });
        pool.make_shared<exits>().reset();
        list(1000, [] { return pool.make_shared<node>(); }).reset();
        pool.drain();
    });
}

}  // namespace
