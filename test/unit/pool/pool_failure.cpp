// SPDX-License-Identifier: BSL-1.0
// Whatever fails, the pool is as it was: an upstream that throws at its n-th call, for every n, and constructors that
// throw at each point.

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/pool_kinds.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

template <class Pool>
class failure_in : public testing::Test {
protected:
    // Runs `scenario(pool, log)` with an upstream that fails at call 1, 2, 3 … until it does not fail any more.
    template <class Scenario>
    static void for_every_call(pooled::pool_options options, Scenario scenario) {
        std::size_t n = 1;
        for (bool has_failed = true; has_failed; ++n) {
            ASSERT_LT(n, 500U) << "the scenario never ends";
            test::counting_upstream books;
            test::life_log log;
            test::life_log::scope const scope(log);
            {
                test::failing_upstream upstream(books, n);
                options.upstream = &upstream;
                Pool pool{options};
                bool has_thrown = false;
                try {
                    scenario(pool);
                } catch (test::injected_failure const&) {
                    has_thrown = true;
                }
                has_failed = upstream.has_failed();
                // The pool may have found space elsewhere; another exception than upstream's would not be caught here.
                ASSERT_TRUE(has_failed || !has_thrown);
                EXPECT_TRUE(test::is_valid(pool)) << "after failure " << n;
                EXPECT_EQ(pool.stats().in_use, 0U) << "after failure " << n;
                EXPECT_EQ(pool.stats().upstream_bytes, books.bytes()) << "after failure " << n;
                EXPECT_EQ(log.alive(), 0) << "after failure " << n;
                if (has_thrown) {
                    EXPECT_NO_THROW(scenario(pool)) << "the pool must work on after failure " << n;
                }
                pool.trim();
                EXPECT_EQ(books.bytes(), 0U) << "after failure " << n;
            }
            EXPECT_EQ(books.blocks(), 0U);
        }
        EXPECT_GT(n, 2U) << "the scenario never called upstream";
    }
};
TYPED_TEST_SUITE(failure_in, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(failure_in, upstream_loses_no_raw_block) {
    this->for_every_call({.chunk_bytes = 1}, [](TypeParam& pool) {
        struct held {
            TypeParam& from;
            std::vector<std::pair<void*, std::size_t>> blocks{};
            ~held() {
                for (auto const& [p, bytes] : blocks)
                    from.deallocate(p, bytes);
            }
        } all{pool};
        all.blocks.reserve(4000);
        for (std::size_t i = 0; i < 300; ++i) {
            std::size_t const bytes = i * i * 7 % 40'000;
            all.blocks.emplace_back(pool.allocate(bytes), bytes);
        }
    });
}

TYPED_TEST(failure_in, upstream_loses_nothing_of_a_mixed_program) {
    this->for_every_call({.chunk_bytes = 1}, [](TypeParam& pool) {
        using counted = test::counted<100>;
        using pair = std::pair<int const, counted>;
        std::vector<std::shared_ptr<counted>> shared;
        for (int i = 0; i < 1500; ++i)
            shared.push_back(pool.template make_shared<counted>());
        auto const array = pool.template make_shared<counted[]>(500);
        auto const unique = pool.template make_unique<counted>();
        auto const unique_array = pool.template make_unique<counted[]>(1000);
        auto const aligned = pool.template make_shared<test::counted<10, 1024>>();
        auto const large = pool.template make_shared<test::counted<100'000>>();
        pooled::pool_allocator<pair, TypeParam> const alloc(pool);
        std::map<int, counted, std::less<>, pooled::pool_allocator<pair, TypeParam>> map(alloc);
        for (int i = 0; i < 500; ++i)
            map.try_emplace(i);
        std::pmr::vector<std::pmr::string> strings(pool.resource());
        for (int i = 0; i < 200; ++i)
            strings.emplace_back(static_cast<std::size_t>(i * 3), 'x');
        std::list<counted, pooled::pool_allocator<counted, TypeParam>> list(alloc);
        for (int i = 0; i < 100; ++i)
            list.emplace_back();
    });
}

TYPED_TEST(failure_in, upstream_loses_nothing_in_a_bounded_pool) {
    this->for_every_call({.max_bytes = 1 << 20}, [](TypeParam& pool) {
        for (std::size_t const bytes : {48UL, 1500UL, 20'000UL, 300'000UL}) {
            struct held {
                TypeParam& from;
                std::size_t bytes;
                std::vector<void*> blocks{};
                ~held() {
                    for (void* const p : blocks)
                        from.deallocate(p, bytes);
                }
            } all{pool, bytes};
            all.blocks.reserve(10'000);
            for (std::size_t total = 0; total + 2 * bytes < 500'000; total += bytes)
                all.blocks.push_back(pool.allocate(bytes));
        }
    });
}

TYPED_TEST(failure_in, upstream_is_passed_on_as_it_is_and_null_from_try_allocate) {
    test::counting_upstream books;
    test::failing_upstream upstream(books);
    TypeParam pool{{.upstream = &upstream}};
    upstream.fail_always(true);
    EXPECT_THROW(static_cast<void>(pool.allocate(48)), test::injected_failure);
    EXPECT_THROW(static_cast<void>(pool.allocate(1 << 20)), test::injected_failure);
    EXPECT_EQ(pool.try_allocate(48), nullptr);
    EXPECT_EQ(pool.try_allocate(1 << 20), nullptr);
    upstream.fail_always(false);
    void* const p = pool.allocate(48);
    upstream.fail_always(true);
    EXPECT_NO_THROW(pool.deallocate(p, 48));
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(failure_in, constructor_that_runs_the_same_pool_dry_is_not_taken_for_exhaustion) {
    struct child {
        char bytes[200];
    };
    struct parent {
        explicit parent(TypeParam& pool) : mine(pool.template make_shared<child>()) {}
        std::shared_ptr<child> mine;
    };
    TypeParam pool{{.max_bytes = 64 << 10}};
    // One of each while there is space: their slabs then have blocks for more parents, but there are no more children.
    auto const shared = pool.template make_shared<parent>(pool);
    auto const unique = pool.template make_unique<parent>(pool);
    std::vector<std::shared_ptr<child>> all;
    while (auto one = pool.template try_make_shared<child>())
        all.push_back(std::move(one));
    auto const before = pool.stats().in_use;
    EXPECT_THROW(static_cast<void>(pool.template try_make_shared<parent>(pool)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(pool.template try_make_unique<parent>(pool)), pooled::exhausted);
    EXPECT_EQ(pool.stats().in_use, before);
}

TEST(failure, of_upstream_is_survived_by_free_blocks_in_a_sleeping_thread) {
    test::counting_upstream books;
    test::failing_upstream upstream(books);
    pooled::pool pool{{.chunk_bytes = 1, .upstream = &upstream}};
    test::sleeper other;
    other.run([&] {
        std::vector<void*> all;
        for (int i = 0; i < 40; ++i)
            all.push_back(pool.allocate(1500));
        for (void* p : all)
            pool.deallocate(p, 1500);
    });
    upstream.fail_always(true);
    EXPECT_NO_THROW(pool.deallocate(pool.allocate(1500), 1500));
}

}  // namespace
