// SPDX-License-Identifier: BSL-1.0

// Plan: pools are used while the process ends: by destructors of static objects, by atexit handlers, and by threads that
// are still running then. Every test below leaves something behind; what happens to it is checked when the process exits,
// so a broken promise shows as a process that ends with status 3, or crashes.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace stress;

void check(bool condition, char const* promise) {
    if (condition) return;
    std::fprintf(stderr, "process end: not kept: %s\n", promise);
    std::_Exit(3);
}

// Uses every kind of handle when it is destroyed.
struct left_behind {
    std::shared_ptr<std::vector<int>> from_default;
    std::shared_ptr<std::vector<int>> from_dead_pool;
    pooled::unique_ptr<std::string> unique;
    std::map<int, int, std::less<>, pooled::allocator<std::pair<int const, int>>> tree;

    void fill() {
        from_default = pooled::make_shared<std::vector<int>>(3, 7);
        pooled::pool brief;
        from_dead_pool = brief.make_shared<std::vector<int>>(3, 7);
        unique = pooled::make_unique<std::string>("long enough not to be small");
        for (int i = 0; i < 100; ++i)
            tree[i] = i;
    }
    ~left_behind() {
        if (from_default == nullptr) return;
        check(from_default->size() == 3 && from_dead_pool->size() == 3 && tree.size() == 100,
              "objects keep their values");
        auto const late = pooled::make_shared<std::vector<int>>(5, 1);
        tree.clear();
        tree[1] = 1;
        pooled::pool pool_at_the_end{{.name = "late"}};
        for (std::size_t i = 0; i < 1000; ++i)
            deallocate(pool_at_the_end, allocate(pool_at_the_end, 16 + 8 * (i % 100)));
        check(pool_at_the_end.stats().in_use == 0, "a pool works in a static destructor");
        check(test::is_valid(pooled::default_pool()), "the default pool is whole in a static destructor");
        check(g_damaged == 0, "no block is shared");
    }
};

left_behind g_constructed_before_main;

TEST(process_end_stress, static_destructors_use_pools) {
    g_constructed_before_main.fill();
    static left_behind constructed_after_first_use;
    constructed_after_first_use.fill();
    EXPECT_EQ(g_constructed_before_main.tree.size(), 100U);
}

TEST(process_end_stress, atexit_handlers_use_pools) {
    static std::shared_ptr<int>* kept = nullptr;
    kept = new std::shared_ptr<int>(pooled::make_shared<int>(7));
    ASSERT_EQ(
        std::atexit([] {
            check(**kept == 7, "objects live until they are dropped");
            delete kept;
            for (std::size_t i = 0; i < 1000; ++i)
                deallocate(pooled::default_pool(), allocate(pooled::default_pool(), 16 + 8 * (i % 100)));
            check(test::is_valid(pooled::default_pool()), "the default pool is whole in an atexit handler");
        }),
        0);
}

// Not joined and not stopped: it runs into the end of the process.
TEST(process_end_stress, threads_may_still_be_at_work) {
    static std::atomic<bool> is_running{false};
    std::thread([] {
        dice r(1);
        for (;;) {
            deallocate(pooled::default_pool(), allocate(pooled::default_pool(), 16 + 8 * r.below(60)));
            is_running = true;
        }
    }).detach();
    while (!is_running)
        std::this_thread::yield();
}

}  // namespace
