// SPDX-License-Identifier: BSL-1.0
// The deleter of unique_ptr: empty, finds the whole object from any of its bases, and destroys it as its type requires.

#include "pooled/pooled.hpp"
#include "pooled/unique_ptr.hpp"

#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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
struct derived : first_base, second_base {};

static_assert(std::is_empty_v<pooled::deleter<derived>> && std::is_empty_v<pooled::deleter<int[]>>);
static_assert(sizeof(pooled::unique_ptr<derived>) == sizeof(void*));
static_assert(std::is_nothrow_default_constructible_v<pooled::deleter<int>>);
static_assert(std::is_nothrow_constructible_v<pooled::deleter<second_base>, pooled::deleter<derived>>);
static_assert(!std::is_constructible_v<pooled::deleter<derived>, pooled::deleter<second_base>>);
static_assert(!std::is_constructible_v<pooled::deleter<first_base[]>, pooled::deleter<derived[]>>);
static_assert(pooled::detail::k_may_be_derived<first_base> && !pooled::detail::k_may_be_derived<int>);

TEST(deleter, finds_the_start_of_the_object_from_any_base) {
    derived const d;
    EXPECT_EQ(pooled::detail::start_of(&d), &d);
    EXPECT_EQ(pooled::detail::start_of(static_cast<second_base const*>(&d)), &d);
    int const i = 1;
    EXPECT_EQ(pooled::detail::start_of(&i), &i);
}

TEST(deleter, gives_back_what_a_base_in_the_midst_of_an_object_owns) {
    pooled::pool pool;
    test::life_log log;
    struct item : first_base, second_base {
        explicit item(test::life_log& l) : life(l) {}
        test::counted<200> life;
    };
    pooled::deleter<second_base>()(pool.make_unique<item>(log).release());
    EXPECT_EQ(log.destroyed(), 1);
    pooled::deleter<int const>()(pool.make_unique<int const>(3).release());
    EXPECT_EQ(pool.stats().in_use, 0U);
}

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
    static_assert(!std::is_constructible_v<unique_ptr<int>, unique_ptr<int[]>>);
    static_assert(!std::is_constructible_v<unique_ptr<first_base[]>, unique_ptr<derived[]>>);
    static_assert(!std::is_copy_constructible_v<unique_ptr<int>>);
    static_assert(std::is_nothrow_move_constructible_v<unique_ptr<int>>);
}

TEST(unique_ptr, holds_an_abstract_class) {
    struct shape {
        virtual ~shape() = default;
        [[nodiscard]] virtual int corners() const = 0;
    };
    struct triangle : shape {
        [[nodiscard]] int corners() const override { return 3; }
    };
    pooled::unique_ptr<shape> const p = pooled::make_unique<triangle>();
    EXPECT_EQ(p->corners(), 3);
}

TEST(unique_ptr, drops_a_chain_of_its_own_kind) {
    struct node {
        pooled::unique_ptr<node> next;
    };
    pooled::pool pool;
    auto head = pool.make_unique<node>();
    for (int i = 0; i < 1000; ++i) {
        auto front = pool.make_unique<node>();
        front->next = std::move(head);
        head = std::move(front);
    }
    EXPECT_EQ(pool.stats().in_use, 1001U);
    head.reset();
    EXPECT_EQ(pool.stats().in_use, 0U);
}

}  // namespace
