// SPDX-License-Identifier: BSL-1.0
// An object pool on memory of the user's: another pool, or any std::pmr::memory_resource.

#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

namespace {

template <class Kind>
class upstream : public testing::Test {
protected:
    using object = test::counted<>;
    using pool_type = typename Kind::template pool<object>;

    test::life_log log;
    test::life_log::scope scope{log};
};
TYPED_TEST_SUITE(upstream, test::object_pool_kinds, test::object_pool_kind_names);

TYPED_TEST(upstream, of_an_object_pool_gives_the_memory_of_all_its_objects) {
    test::counting_upstream books;
    {
        typename TestFixture::pool_type pool({.upstream = &books});
        std::vector<std::shared_ptr<test::counted<>>> held;
        for (int i = 0; i < 5000; ++i) {
            held.push_back(pool.acquire());
            ASSERT_TRUE(books.contains(held.back().get()));
        }
        auto const unique = pool.acquire_unique();
        auto const counted = pool.acquire_rc();
        EXPECT_TRUE(books.contains(unique.get()) && books.contains(counted.get()));
        EXPECT_EQ(pool.stats().upstream_bytes, books.bytes());
        EXPECT_EQ(pool.stats().upstream_calls, books.allocations());
    }
    EXPECT_EQ(books.bytes(), 0U);
    EXPECT_EQ(books.errors(), 0U);
}

TYPED_TEST(upstream, of_an_object_pool_gets_trimmed_memory_back) {
    test::counting_upstream books;
    typename TestFixture::pool_type pool({.initial_objects = 20'000, .upstream = &books});
    std::size_t const before = books.bytes();
    EXPECT_EQ(pool.trim(), 20'000U);
    EXPECT_LT(books.bytes(), before / 2);
}

TYPED_TEST(upstream, of_an_object_pool_gets_everything_back_when_the_last_object_is_gone) {
    test::counting_upstream books;
    std::shared_ptr<test::counted<>> last;
    std::weak_ptr<test::counted<>> watcher;
    {
        typename TestFixture::pool_type pool({.upstream = &books});
        last = pool.acquire();
        watcher = last;
    }
    EXPECT_TRUE(books.contains(last.get()));
    last.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_NE(books.bytes(), 0U) << "a weak_ptr counts as out";
    watcher.reset();
    EXPECT_EQ(books.bytes(), 0U);
}

TYPED_TEST(upstream, that_fails_is_reported_and_leaves_the_pool_usable) {
    test::counting_upstream books;
    test::failing_upstream failing(books);
    typename TestFixture::pool_type pool({.upstream = &failing});
    auto const first = pool.acquire();
    failing.fail_always(true);
    std::vector<std::shared_ptr<test::counted<>>> held;
    for (auto p = pool.try_acquire(); p && held.size() < 100'000; p = pool.try_acquire())
        held.push_back(std::move(p));
    EXPECT_THROW(static_cast<void>(pool.acquire()), std::bad_alloc);
    EXPECT_TRUE(test::is_valid(pool));
    failing.fail_always(false);
    EXPECT_TRUE(pool.acquire());
}

TYPED_TEST(upstream, that_fails_at_once_fails_the_constructor_and_leaves_nothing_behind) {
    std::size_t const before = test::pools_alive();
    test::counting_upstream books;
    test::failing_upstream failing(books);
    failing.fail_always(true);
    EXPECT_THROW(typename TestFixture::pool_type({.upstream = &failing}), std::bad_alloc);
    EXPECT_EQ(test::pools_alive(), before);
}

TYPED_TEST(upstream, pool_serves_several_object_pools_under_its_bound) {
    pooled::pool shared({.max_bytes = std::size_t{4} << 20});
    struct large {
        std::array<std::byte, 8000> bytes;
    };
    typename TypeParam::template pool<large> a({.upstream = shared.resource()});
    typename TypeParam::template pool<large> b({.upstream = shared.resource()});
    auto const take_all = [](auto& pool) {
        std::vector<std::shared_ptr<large>> taken;
        for (auto p = pool.try_acquire(); p && taken.size() < 100'000; p = pool.try_acquire())
            taken.push_back(std::move(p));
        return taken;
    };
    std::size_t const alone = take_all(a).size();
    EXPECT_GT(alone, 100U);
    static_cast<void>(take_all(b));
    EXPECT_LE(shared.stats().upstream_bytes, std::size_t{4} << 20);
    a.trim();
    b.trim();
    EXPECT_EQ(take_all(b).size(), alone) << "what one gave back serves the other";
    EXPECT_TRUE(test::is_valid(shared));
}

TYPED_TEST(upstream, pool_may_be_destroyed_before_the_objects) {
    std::size_t const before = test::pools_alive();
    std::optional<pooled::pool> below(std::in_place);
    std::optional<typename TestFixture::pool_type> pool(
        std::in_place, pooled::object_pool_options{.initial_objects = 3, .upstream = below->resource()});
    auto a = pool->acquire();
    auto b = pool->acquire_unique();
    auto c = pool->acquire_rc();
    pool.reset();
    below.reset();
    EXPECT_EQ(this->log.alive(), 3);
    EXPECT_EQ(test::pools_alive(), before + 2);
    a.reset();
    b.reset();
    c.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(test::pools_alive(), before) << "the last object takes both pools with it";
}

TYPED_TEST(upstream, pool_may_be_destroyed_before_an_object_pool_that_builds_no_more) {
    std::size_t const before = test::pools_alive();
    std::optional<pooled::pool> below(std::in_place);
    {
        typename TestFixture::pool_type pool(
            {.initial_objects = 3, .growth = 0, .upstream = below->resource()});
        below.reset();
        for (int i = 0; i < 100; ++i) {
            auto const a = pool.acquire();
            auto const b = pool.acquire_unique();
            auto const c = pool.acquire_rc();
            EXPECT_FALSE(pool.try_acquire());
        }
        EXPECT_EQ(this->log.constructed(), 3);
    }
    EXPECT_EQ(test::pools_alive(), before);
}

TYPED_TEST(upstream, pool_serves_a_forked_child) {
    pooled::pool below;
    typename TestFixture::pool_type pool({.upstream = below.resource()});
    auto const kept = pool.acquire();
    auto const use = [&] {
        std::vector<std::shared_ptr<test::counted<>>> held;
        for (int i = 0; i < 5000; ++i)
            held.push_back(pool.acquire());
        held.clear();
        return test::is_valid(pool) && test::is_valid(below) && pool.idle() == 5000;
    };
    EXPECT_EQ(test::in_child(use), 0);
}

TEST(shared_upstream, pool_gets_back_what_a_thread_that_ended_had_cached) {
    test::life_log log;
    pooled::pool below;
    pooled::object_pool<test::counted<>> pool({.upstream = below.resource()});
    std::shared_ptr<test::counted<>> handed_over;
    std::thread([&] {
        test::life_log::scope const scope(log);
        std::vector<std::shared_ptr<test::counted<>>> held;
        for (int i = 0; i < 2000; ++i)
            held.push_back(pool.acquire());
        handed_over = held.front();
    }).join();
    EXPECT_EQ(pool.idle(), 1999U);
    EXPECT_EQ(pool.trim(), 1999U);
    below.trim();
    EXPECT_LT(below.stats().upstream_bytes, std::size_t{1} << 20);
    handed_over.reset();
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(log.alive(), 1);
}

TEST(shared_upstream, pool_is_used_by_many_threads_at_once) {
    pooled::pool below;
    pooled::object_pool<std::array<int, 100>> a({.growth_factor = 2, .upstream = below.resource()});
    pooled::object_pool<std::array<int, 300>> b({.growth = 16, .upstream = below.resource()});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int round = 0; round < 50; ++round) {
                std::vector<std::shared_ptr<void>> held;
                for (int i = 0; i < 50; ++i) {
                    auto p = a.acquire();
                    p->fill(t);
                    auto q = b.acquire();
                    q->fill(t);
                    held.push_back(std::move(p));
                    held.push_back(std::move(q));
                }
                if (round % 16 == t) a.trim();
            }
        });
    for (std::thread& one : threads)
        one.join();
    EXPECT_TRUE(test::is_valid(a) && test::is_valid(b) && test::is_valid(below));
    EXPECT_EQ(a.in_use() + b.in_use(), 0U);
}

}  // namespace
