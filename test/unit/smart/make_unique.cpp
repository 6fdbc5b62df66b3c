// SPDX-License-Identifier: BSL-1.0
// make_unique and unique_ptr: 8 bytes, any base, any thread.

#include "pooled/make_shared.hpp"
#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

struct first_base {
    virtual ~first_base() = default;
    int first = 1;
};
struct second_base {
    virtual ~second_base() = default;
    int second = 2;
};
struct virtual_base {
    virtual ~virtual_base() = default;
    int shared = 3;
};
struct left : virtual virtual_base {};
struct right : virtual virtual_base {};
struct diamond final : first_base, second_base, left, right {
    explicit diamond(test::life_log& log) : life(log) {}
    test::counted<200> life;
};

template <class Pool>
class make_unique_from : public testing::Test {
protected:
    Pool pool;
    test::life_log log;
    ~make_unique_from() override {
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_EQ(log.alive(), 0);
    }
};
TYPED_TEST_SUITE(make_unique_from, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(make_unique_from, a_pool_is_as_small_as_a_raw_pointer) {
    static_assert(sizeof(pooled::unique_ptr<int>) == sizeof(int*));
    static_assert(sizeof(pooled::unique_ptr<int[]>) == sizeof(int*));
    static_assert(sizeof(pooled::unique_ptr<first_base>) == sizeof(first_base*));
    auto const p = this->pool.template make_unique<int>(7);
    EXPECT_EQ(*p, 7);
    EXPECT_EQ(this->pool.stats().bytes_in_use, 16U);
}

TYPED_TEST(make_unique_from, a_pool_destroys_once_and_frees) {
    auto p = this->pool.template make_unique<test::counted<>>(this->log);
    auto q = std::move(p);
    EXPECT_EQ(p, nullptr);  // NOLINT: that is what is tested
    EXPECT_EQ(this->log.alive(), 1);
    q.reset();
    EXPECT_EQ(this->log.destroyed(), 1);
    EXPECT_EQ(this->pool.stats().in_use, 0U);
}

TYPED_TEST(make_unique_from, a_pool_gives_the_whole_block_back_through_any_base) {
    pooled::unique_ptr<first_base> first = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(first->first, 1);
    pooled::unique_ptr<second_base> second = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(second->second, 2);
    first.reset();
    second.reset();
    auto p = this->pool.template make_unique<diamond>(this->log);
    diamond const* const where = p.get();
    pooled::unique_ptr<second_base>(std::move(p)).reset();
    p = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(p.get(), where) << "the warm block goes out first";
    pooled::unique_ptr<virtual_base>(std::move(p)).reset();
    p = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(p.get(), where);
}

TYPED_TEST(make_unique_from, a_pool_converts_to_a_virtual_base) {
    pooled::unique_ptr<virtual_base> const p = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(p->shared, 3);
    pooled::unique_ptr<left> other = this->pool.template make_unique<diamond>(this->log);
    pooled::unique_ptr<virtual_base> const twice = std::move(other);
    EXPECT_EQ(twice->shared, 3);
}

TYPED_TEST(make_unique_from, a_pool_frees_a_large_object_through_its_base) {
    struct large : first_base {
        char bytes[100'000];
    };
    struct alignas(32768) wide : second_base {
        char bytes[16];
    };
    pooled::unique_ptr<first_base> const p = this->pool.template make_unique<large>();
    pooled::unique_ptr<second_base> const q = this->pool.template make_unique<wide>();
    EXPECT_EQ(this->pool.stats().large_in_use, 2U);
}

TYPED_TEST(make_unique_from, a_pool_is_assigned_across_types_and_pools) {
    TypeParam other;
    pooled::unique_ptr<first_base> p = this->pool.template make_unique<first_base>();
    p = other.template make_unique<diamond>(this->log);
    EXPECT_EQ(this->pool.stats().in_use, 0U);
    EXPECT_EQ(other.stats().in_use, 1U);
    p = nullptr;
    EXPECT_EQ(other.stats().in_use, 0U);
}

TYPED_TEST(make_unique_from, a_pool_makes_const_objects) {
    pooled::unique_ptr<std::string const> p = this->pool.template make_unique<std::string const>("text");
    pooled::unique_ptr<std::string const> const q = this->pool.template make_unique<std::string>("more");
    pooled::unique_ptr<first_base const> const r = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(*p + *q, "textmore");
    EXPECT_EQ(r->first, 1);
}

TYPED_TEST(make_unique_from, a_pool_keeps_custom_alignment) {
    struct alignas(64) line {
        int value = 1;
    };
    struct alignas(4096) page {
        int value = 2;
    };
    struct alignas(1048576) mebi {
        int value = 3;
    };
    auto const a = this->pool.template make_unique<line>();
    auto const b = this->pool.template make_unique<page>();
    auto const c = this->pool.template make_unique<mebi>();
    auto const d = this->pool.template make_unique<line[]>(5);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % 64, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.get()) % 4096, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.get()) % (std::size_t{1} << 20), 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(d.get()) % 64, 0U);
    EXPECT_EQ(a->value + b->value + c->value + d[4].value, 7);
}

TYPED_TEST(make_unique_from, a_pool_makes_arrays_of_any_length_and_destroys_each_element) {
    test::life_log::scope const scope(this->log);
    for (std::size_t const n : {0UL, 1UL, 2UL, 1000UL, 20'000UL}) {
        auto p = this->pool.template make_unique<test::counted<>[]>(n);
        EXPECT_EQ(this->log.alive(), static_cast<std::int64_t>(n));
        p.reset();
        EXPECT_EQ(this->log.alive(), 0);
        auto const zeros = this->pool.template make_unique<char[]>(n);
        for (std::size_t i = 0; i < n; ++i)
            ASSERT_EQ(zeros[i], 0);
    }
}

TYPED_TEST(make_unique_from, a_pool_destroys_an_unfinished_array_from_the_last_element_to_the_first) {
    static int made;
    static std::vector<int> destroyed;
    struct fourth_fails {
        int number = made++;
        fourth_fails() {
            if (number == 3) throw test::constructor_failed();
        }
        ~fourth_fails() { destroyed.push_back(number); }
    };
    for (bool const overwrites : {false, true}) {
        made = 0;
        destroyed.clear();
        if (overwrites)
            EXPECT_THROW(static_cast<void>(this->pool.template make_unique_for_overwrite<fourth_fails[]>(8)),
                         test::constructor_failed);
        else
            EXPECT_THROW(static_cast<void>(this->pool.template make_unique<fourth_fails[]>(8)),
                         test::constructor_failed);
        EXPECT_EQ(destroyed, (std::vector<int>{2, 1, 0}));
    }
}

TYPED_TEST(make_unique_from, a_pool_converts_an_array_to_one_of_const) {
    pooled::unique_ptr<int const[]> const p = this->pool.template make_unique<int[]>(3);
    EXPECT_EQ(p[2], 0);
}

TYPED_TEST(make_unique_from, a_pool_becomes_a_shared_ptr) {
    std::shared_ptr<first_base> const p = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(p->first, 1);
    EXPECT_EQ(this->log.alive(), 1);
}

TYPED_TEST(make_unique_from, a_pool_calls_no_operator_of_the_class) {
    struct own_new {
        static void* operator new(std::size_t) { throw std::bad_alloc(); }
        static void operator delete(void*) { ADD_FAILURE() << "the class's operator delete was called"; }
        int value = 1;
    };
    EXPECT_EQ(this->pool.template make_unique<own_new>()->value, 1);
}

TEST(unique_ptr, is_dropped_on_any_thread) {
    pooled::pool pool;
    test::life_log log;
    std::vector<pooled::unique_ptr<first_base>> all;
    for (int i = 0; i < 2000; ++i)
        all.push_back(pool.make_unique<diamond>(log));
    std::thread([all = std::move(all)]() mutable { all.clear(); }).join();
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

}  // namespace
