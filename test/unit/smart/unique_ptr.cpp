// SPDX-License-Identifier: BSL-1.0

// unique_ptr and its deleter: 8 bytes; any base finds the whole object, which is destroyed as its type requires. See make.cpp.

#include "pooled/make_shared.hpp"
#include "pooled/pooled.hpp"
#include "pooled/to_shared.hpp"

#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/pool_kinds.hpp"
#include "support/possible_alignment.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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
    EXPECT_EQ(this->pool.stats().bytes_in_use, 16U + pooled::detail::k_guard_bytes);
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

TYPED_TEST(make_unique_from, a_pool_frees_a_large_object_through_its_base) {
    struct large : first_base {
        char bytes[100'000];
    };
    struct alignas(test::possible_alignment(32768)) wide : second_base {
        char bytes[16];
    };
    pooled::unique_ptr<first_base> const p = this->pool.template make_unique<large>();
    pooled::unique_ptr<second_base> const q = this->pool.template make_unique<wide>();
    EXPECT_EQ(this->pool.stats().large_in_use, sizeof(wide) >= 32768 ? 2U : 1U);
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

TYPED_TEST(make_unique_from, a_pool_becomes_a_shared_ptr) {
    std::shared_ptr<first_base> const p = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(p->first, 1);
    EXPECT_EQ(this->log.alive(), 1);
}

struct derived : first_base, second_base {};

static_assert(std::is_empty_v<pooled::deleter<derived>> && std::is_empty_v<pooled::deleter<int[]>>);
static_assert(sizeof(pooled::unique_ptr<derived>) == sizeof(void*));
static_assert(std::is_nothrow_default_constructible_v<pooled::deleter<int>>);
static_assert(std::is_nothrow_constructible_v<pooled::deleter<second_base>, pooled::deleter<derived>>);
static_assert(!std::is_constructible_v<pooled::deleter<derived>, pooled::deleter<second_base>>);
static_assert(!std::is_constructible_v<pooled::deleter<first_base[]>, pooled::deleter<derived[]>>);
static_assert(pooled::detail::k_may_be_derived<first_base> && !pooled::detail::k_may_be_derived<int>);

TEST(deleter, of_an_array_finds_its_length_in_front_of_any_alignment) {
    struct alignas(128) wide {
        explicit wide(std::vector<wide const*>* to = nullptr) : order(to) {}
        ~wide() {
            if (order != nullptr) order->push_back(this);
        }
        std::vector<wide const*>* order;
    };
    static_assert(pooled::detail::counted_array<char>::k_offset == 8 &&
                  pooled::detail::counted_array<wide>::k_offset == 128);
    pooled::pool pool;
    std::vector<wide const*> order;
    auto p = pool.make_unique<wide[]>(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.get()) % 128, 0U);
    for (std::size_t i = 0; i < 3; ++i)
        p[i].order = &order;
    std::vector<wide const*> const expected{&p[2], &p[1], &p[0]};
    pooled::unique_ptr<wide const[]>(std::move(p)).reset();
    EXPECT_EQ(order, expected);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST(unique_ptr, converts_to_public_bases_with_a_virtual_destructor_only) {
    struct unrelated {};
    using pooled::unique_ptr;
    static_assert(std::is_convertible_v<unique_ptr<derived>, unique_ptr<second_base>>);
    static_assert(std::is_convertible_v<unique_ptr<int>, unique_ptr<int const>>);
    static_assert(!std::is_convertible_v<unique_ptr<int const>, unique_ptr<int>>);
    static_assert(!std::is_convertible_v<unique_ptr<second_base>, unique_ptr<derived>>);
    static_assert(!std::is_constructible_v<unique_ptr<derived>, unique_ptr<unrelated>>);
    static_assert(!std::is_constructible_v<unique_ptr<int>, std::unique_ptr<int>>);
    static_assert(!std::is_constructible_v<std::unique_ptr<int>, unique_ptr<int>>);
    static_assert(!std::is_convertible_v<int*, unique_ptr<int>>);
    static_assert(!std::is_constructible_v<unique_ptr<int>, unique_ptr<int[]>>);
    static_assert(!std::is_constructible_v<unique_ptr<first_base[]>, unique_ptr<derived[]>>);
    static_assert(!std::is_copy_constructible_v<unique_ptr<int>>);
    static_assert(std::is_nothrow_move_constructible_v<unique_ptr<int>>);
}

struct base {
    virtual ~base() = default;
};
struct other_base {
    int value = 7;
};
struct object : base, other_base {
    explicit object(bool& destroyed) : is_destroyed(destroyed) {}
    ~object() override { is_destroyed = true; }
    bool& is_destroyed;
};

TEST(to_shared, shares_the_object_with_the_pointers_that_counted_it_before) {
    bool is_destroyed = false;
    pooled::rc_ptr<object> counted = pooled::make_rc<object>(is_destroyed);
    std::shared_ptr<object> shared = pooled::to_shared(counted);
    EXPECT_EQ(shared.get(), counted.get());
    EXPECT_EQ(counted.use_count(), 2);
    counted.reset();
    EXPECT_FALSE(is_destroyed);
    std::weak_ptr<object> const observer = shared;
    shared.reset();
    EXPECT_TRUE(is_destroyed);
    EXPECT_TRUE(observer.expired());
}

TEST(to_shared, outlives_the_std_shared_ptr_if_an_rc_ptr_does) {
    bool is_destroyed = false;
    pooled::rc_ptr<object> counted = pooled::make_rc<object>(is_destroyed);
    pooled::to_shared(counted).reset();
    EXPECT_FALSE(is_destroyed);
    EXPECT_EQ(counted.use_count(), 1);
}

TEST(to_shared, converts_to_the_type_that_is_named) {
    bool is_destroyed = false;
    auto const counted = pooled::make_rc<object>(is_destroyed);
    EXPECT_EQ(pooled::to_shared<other_base>(counted)->value, 7);
    EXPECT_FALSE(is_destroyed);
    EXPECT_EQ(pooled::to_shared<object>(counted).get(), counted.get());
    EXPECT_EQ(pooled::to_shared<void>(counted).get(), counted.get());
    EXPECT_EQ(counted.use_count(), 1);
    EXPECT_EQ(pooled::to_shared<other_base const>(pooled::make_rc<object>(is_destroyed))->value, 7);
    EXPECT_TRUE(is_destroyed);
    pooled::local_rc_ptr<object> local = pooled::make_local_rc<object>(is_destroyed);
    EXPECT_EQ(pooled::to_shared<base>(std::move(local)).use_count(), 1);
}

TEST(to_shared, takes_a_base_that_does_not_lie_at_the_start_and_void_and_const) {
    bool is_destroyed = false;
    pooled::rc_ptr<other_base const> counted = pooled::make_rc<object>(is_destroyed);
    std::shared_ptr<other_base const> shared = pooled::to_shared(std::move(counted));
    EXPECT_EQ(shared->value, 7);
    shared.reset();
    EXPECT_TRUE(is_destroyed);
}

TEST(to_shared, of_an_empty_pointer_is_empty_and_takes_no_block) {
    EXPECT_EQ(pooled::to_shared(pooled::rc_ptr<int>()), nullptr);
    EXPECT_EQ(pooled::to_shared(pooled::local_rc_ptr<int>()), nullptr);
}

TEST(to_shared, may_be_dropped_on_another_thread_and_after_the_pool) {
    bool is_destroyed = false;
    std::shared_ptr<object> shared;
    {
        pooled::pool pool;
        shared = pooled::to_shared(pool.make_rc<object>(is_destroyed));
        EXPECT_TRUE(pool.owns(shared.get()));
    }
    std::thread([shared = std::move(shared)] {}).join();
    EXPECT_TRUE(is_destroyed);
}

TEST(to_shared, of_a_local_rc_ptr_counts_with_it) {
    pooled::local_pool pool;
    pooled::local_rc_ptr<int> counted = pool.make_rc<int>(3);
    std::shared_ptr<int> const shared = pooled::to_shared(counted);
    EXPECT_EQ(counted.use_count(), 2);
    EXPECT_EQ(*shared, 3);
}

TEST(to_shared, takes_arrays) {
    pooled::rc_ptr<int[]> numbers = pooled::make_rc_for_overwrite<int[]>(2);
    numbers[1] = 4;
    std::shared_ptr<int[]> const shared = pooled::to_shared(std::move(numbers));
    EXPECT_EQ(shared[1], 4);
}

}  // namespace
