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
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
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

// The constructor that is called `at`-th fails.
template <class Make>
void expect_failure(test::life_log& log, std::int64_t at, Make make) {
    log.throw_at(at);
    EXPECT_THROW(static_cast<void>(make()), test::constructor_failed);
}

TYPED_TEST(failure_in, constructor_gives_the_block_of_a_single_object_back) {
    TypeParam pool;
    test::life_log log;
    using counted = test::counted<>;
    test::life_log::scope const scope(log);
    expect_failure(log, 1, [&] { return pool.template make_shared<counted>(log); });
    expect_failure(log, 1, [&] { return pool.template make_unique<counted>(log); });
    expect_failure(log, 1, [&] { return pool.template make_rc<counted>(log); });
    expect_failure(log, 1, [&] { return pool.template try_make_shared<counted>(log); });
    expect_failure(log, 1, [&] { return pool.template try_make_unique<counted>(log); });
    expect_failure(log, 1, [&] { return pool.template try_make_rc<counted>(log); });
    expect_failure(log, 1, [&] { return pool.template make_shared_for_overwrite<counted>(); });
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_EQ(log.alive(), 0);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(failure_in, constructor_of_a_base_or_member_unwinds_what_was_made) {
    struct two {
        explicit two(test::life_log& log) : a(log), b(log) {}
        test::counted<> a;
        test::counted<> b;
    };
    TypeParam pool;
    test::life_log log;
    for (int at = 1; at <= 2; ++at) {
        expect_failure(log, at, [&] { return pool.template make_shared<two>(log); });
        expect_failure(log, at, [&] { return pool.template make_unique<two>(log); });
    }
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(failure_in, constructor_of_any_element_destroys_the_elements_before_it) {
    TypeParam pool;
    test::life_log log;
    test::life_log::scope const scope(log);
    using counted = test::counted<>;
    for (std::int64_t at = 1; at <= 20; ++at) {
        expect_failure(log, at, [&] { return pool.template make_shared<counted[]>(20); });
        expect_failure(log, at, [&] { return pool.template make_unique<counted[]>(20); });
        expect_failure(log, at, [&] { return pool.template make_shared_for_overwrite<counted[]>(20); });
        expect_failure(log, at, [&] { return pool.template try_make_shared<counted[]>(20); });
        log.throw_at(0);
        counted const model(log);
        expect_failure(log, at, [&] { return pool.template make_shared<counted[]>(20, model); });
        log.throw_at(0);
    }
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TYPED_TEST(failure_in, constructor_that_throws_bad_alloc_is_not_taken_for_exhaustion) {
    struct greedy {
        greedy() { throw std::bad_alloc(); }
    };
    struct tired {
        tired() { throw pooled::exhausted("another", 1, 2, 3); }
    };
    TypeParam pool;
    EXPECT_THROW(static_cast<void>(pool.template try_make_shared<greedy>()), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(pool.template try_make_unique<greedy>()), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(pool.template try_make_shared<tired>()), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(pool.template try_make_unique<tired>()), pooled::exhausted);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(failure_in, arrays_that_overflow_is_reported_before_anything_is_taken) {
    TypeParam pool;
    constexpr std::size_t max = ~std::size_t{0};
    for (std::size_t const count : {max, max / 2, max / 8, max / 8 + 1, max / 8 - 1}) {
        EXPECT_THROW(static_cast<void>(pool.template make_unique<double[]>(count)), std::bad_alloc) << count;
        EXPECT_THROW(static_cast<void>((pooled::pool_allocator<double, TypeParam>(pool).allocate(count))),
                     std::bad_alloc)
            << count;
        EXPECT_THROW(static_cast<void>(pooled::allocator<double>().allocate(count)), std::bad_alloc) << count;
        EXPECT_THROW(static_cast<void>(pool.template make_shared<double[]>(count)), std::bad_alloc) << count;
        EXPECT_THROW(static_cast<void>(pool.template make_shared<double[]>(count, 1.0)), std::bad_alloc);
        EXPECT_THROW(static_cast<void>(pool.template make_shared_for_overwrite<double[]>(count)),
                     std::bad_alloc);
        EXPECT_EQ(pool.template try_make_shared<double[]>(count), nullptr) << count;
        EXPECT_THROW(static_cast<void>(pooled::make_shared<double[]>(count)), std::bad_alloc) << count;
        EXPECT_THROW(static_cast<void>(pooled::make_shared_for_overwrite<double[]>(count)), std::bad_alloc);
    }
    EXPECT_THROW(static_cast<void>((pooled::pool_allocator<double, TypeParam>(pool).allocate(max / 8 + 1))),
                 std::bad_array_new_length);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(failure_in, a_nested_constructor_leaves_outer_and_inner_pool_as_they_were) {
    struct inner {
        explicit inner(bool is_bad) {
            if (is_bad) throw test::constructor_failed();
        }
    };
    struct outer {
        outer(TypeParam& other, bool is_bad)
            : first(other.template make_shared<inner>(false)),
              second(other.template make_shared<inner>(is_bad)) {}
        std::shared_ptr<inner> first;
        std::shared_ptr<inner> second;
    };
    TypeParam a;
    TypeParam b;
    EXPECT_THROW(static_cast<void>(a.template make_shared<outer>(b, true)), test::constructor_failed);
    EXPECT_EQ(a.stats().in_use + b.stats().in_use, 0U);
    auto const good = a.template make_shared<outer>(b, false);
    EXPECT_EQ(a.stats().in_use, 1U);
    EXPECT_EQ(b.stats().in_use, 2U);
}

TYPED_TEST(failure_in, arrays_of_all_addresses_gives_empty_pointers_from_every_try_form) {
    TypeParam pool;
    for (std::size_t below = 0; below < 100; ++below) {
        std::size_t const count = ~std::size_t{0} - below;
        EXPECT_EQ(pool.template try_make_unique<char[]>(count), nullptr) << below;
        EXPECT_EQ(pool.template try_make_unique_for_overwrite<char[]>(count), nullptr) << below;
        EXPECT_EQ(pool.template try_make_unique<double[]>(count / 8), nullptr) << below;
        EXPECT_EQ(pool.template try_make_unique<int[]>(count / 4), nullptr) << below;
        EXPECT_EQ(pool.template try_make_shared<char[]>(count), nullptr) << below;
        EXPECT_EQ(pool.try_allocate(count), nullptr) << below;
        EXPECT_THROW(static_cast<void>(pool.template make_unique<char[]>(count)), std::bad_alloc) << below;
    }
    EXPECT_EQ(pool.stats().in_use, 0U);
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

TYPED_TEST(failure_in, upstream_gives_empty_pointers_from_every_try_form) {
    test::counting_upstream books;
    test::failing_upstream upstream(books);
    upstream.fail_always(true);
    TypeParam pool{{.upstream = &upstream}};
    EXPECT_EQ(pool.try_allocate(48), nullptr);
    EXPECT_EQ(pool.template try_make_shared<int>(1), nullptr);
    EXPECT_EQ(pool.template try_make_shared<int[]>(10), nullptr);
    EXPECT_EQ(pool.template try_make_unique<int>(1), nullptr);
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
