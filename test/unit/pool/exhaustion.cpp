// SPDX-License-Identifier: BSL-1.0
#include "pooled/pooled.hpp"

#include "support/failing_upstream.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory_resource>
#include <thread>
#include <vector>

namespace {

// What a hook of the tests works on.
struct hooked {
    int calls = 0;
    std::size_t bytes = 0;
    pooled::pool* pool = nullptr;
    std::vector<void*> spare;
    bool allocates = false;
    bool got_one = false;

    pooled::exhaustion_hook hook() {
        return {.call =
                    [](std::size_t asked, void* context) noexcept {
                        auto& self = *static_cast<hooked*>(context);
                        ++self.calls;
                        self.bytes = asked;
                        self.got_one = self.allocates && self.pool->try_allocate(asked) != nullptr;
                        static_cast<void>(self.pool->stats());
                        if (self.spare.empty()) return;
                        self.pool->deallocate(self.spare.back(), 1000);
                        self.spare.pop_back();
                    },
                .context = this};
    }
};

struct exhausted_pool : testing::Test {
    hooked h;
    pooled::pool pool{{.name = "small", .max_bytes = 65536, .on_exhausted = h.hook()}};
    exhausted_pool() { h.pool = &pool; }
    std::vector<void*> fill() {
        std::vector<void*> all;
        while (void* const p = pool.try_allocate(1000))
            all.push_back(p);
        h.calls = 0;
        return all;
    }
    void give_back(std::vector<void*> const& all) {
        for (void* const p : all)
            pool.deallocate(p, 1000);
    }
};

TEST_F(exhausted_pool, calls_its_hook_once_before_it_says_so) {
    std::vector<void*> const all = fill();
    EXPECT_EQ(pool.try_allocate(1000), nullptr);
    EXPECT_EQ(h.calls, 1);
    EXPECT_GE(h.bytes, 1000U);
    EXPECT_THROW(static_cast<void>(pool.allocate(1000)), pooled::exhausted);
    EXPECT_EQ(h.calls, 2);
    EXPECT_EQ(pool.try_allocate(40'000), nullptr);
    EXPECT_EQ(h.calls, 3);
    EXPECT_GE(h.bytes, 40'000U);
    give_back(all);
}

TEST_F(exhausted_pool, serves_a_request_with_what_its_hook_freed) {
    std::vector<void*> all = fill();
    h.spare = {all.back()};
    all.pop_back();
    void* const p = pool.allocate(1000);
    EXPECT_NE(p, nullptr);
    EXPECT_EQ(h.calls, 1);
    all.push_back(p);
    give_back(all);
}

TEST_F(exhausted_pool, does_not_call_its_hook_for_what_the_hook_allocates) {
    std::vector<void*> const all = fill();
    h.allocates = true;
    EXPECT_EQ(pool.try_allocate(1000), nullptr);
    EXPECT_EQ(h.calls, 1);
    EXPECT_FALSE(h.got_one);
    give_back(all);
}

TEST(exhaustion_hook, is_called_when_upstream_throws_and_the_request_is_tried_again) {
    struct context {
        test::failing_upstream upstream{*std::pmr::new_delete_resource()};
        int calls = 0;
        bool mends = false;
    } c;
    pooled::pool pool{{.upstream = &c.upstream,
                       .on_exhausted = {.call =
                                            [](std::size_t, void* context_of) noexcept {
                                                auto& self = *static_cast<context*>(context_of);
                                                ++self.calls;
                                                if (self.mends) self.upstream.fail_always(false);
                                            },
                                        .context = &c}}};
    c.upstream.fail_always(true);
    EXPECT_THROW(static_cast<void>(pool.allocate(1000)), test::injected_failure);
    EXPECT_EQ(c.calls, 1);
    c.mends = true;
    void* const p = pool.allocate(1000);
    EXPECT_NE(p, nullptr);
    EXPECT_EQ(c.calls, 2);
    pool.deallocate(p, 1000);
}

TEST(exhaustion_hook, runs_outside_the_locks_of_the_library) {
    // Another thread uses the pool, and what takes its locks, while the hook runs.
    struct context {
        pooled::pool* pool = nullptr;
        void* block = nullptr;
    } other;
    pooled::pool pool{{.max_bytes = 65536,
                       .on_exhausted = {.call =
                                            [](std::size_t, void* c) noexcept {
                                                auto& o = *static_cast<context*>(c);
                                                std::thread([&o] {
                                                    if (o.block != nullptr) o.pool->deallocate(o.block, 1000);
                                                    o.block = nullptr;
                                                    o.pool->trim();
                                                }).join();
                                            },
                                        .context = &other}}};
    other.pool = &pool;
    std::vector<void*> all;
    while (void* const p = pool.try_allocate(1000))
        all.push_back(p);
    other.block = all.back();
    all.back() = pool.try_allocate(1000);
    EXPECT_NE(all.back(), nullptr);
    for (void* const p : all)
        pool.deallocate(p, 1000);
}

}  // namespace
