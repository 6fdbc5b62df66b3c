// SPDX-License-Identifier: BSL-1.0
// make_rc, make_local_rc, try_make_rc: arguments, failure, exhaustion.

#include "pooled/detail/make_rc.hpp"

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

template <class Kind>
class make_rc_from : public test::handles_test<Kind> {
protected:
    test::life_log log;
    ~make_rc_from() override { EXPECT_EQ(log.alive(), 0); }
};
TYPED_TEST_SUITE(make_rc_from, test::handle_kinds, test::handle_kind_names);

TYPED_TEST(make_rc_from, a_pool_counts_as_the_pool_does) {
    static_assert(
        std::same_as<decltype(this->pool.template make_rc<int>(1)), typename TypeParam::template ptr<int>>);
    static_assert(std::same_as<decltype(this->pool.template try_make_rc<int>(1)),
                               typename TypeParam::template ptr<int>>);
    static_assert(
        std::same_as<decltype(this->pool.template make_local_rc<int>(1)), pooled::local_rc_ptr<int>>);
    static_assert(std::same_as<decltype(pooled::make_rc<int>(1)), pooled::rc_ptr<int>>);
    static_assert(std::same_as<decltype(pooled::make_local_rc<int>(1)), pooled::local_rc_ptr<int>>);
    EXPECT_EQ(*this->pool.template make_local_rc<int>(2) + *pooled::make_local_rc<int>(3), 5);
}

TYPED_TEST(make_rc_from, a_pool_forwards_its_arguments) {
    struct takes {
        takes(std::unique_ptr<int> by_move, int& by_reference, std::string text)
            : moved(std::move(by_move)), reference(by_reference), name(std::move(text)) {}
        std::unique_ptr<int> moved;
        int& reference;
        std::string name;
    };
    int there = 1;
    auto const p = this->template make<takes>(std::make_unique<int>(2), there, "name");
    EXPECT_EQ(&p->reference, &there);
    EXPECT_EQ(*p->moved, 2);
    EXPECT_EQ(p->name, "name");
    EXPECT_EQ(this->template make<std::vector<int>>(3)->size(), 3U) << "an int for a size: no warning";
}

TYPED_TEST(make_rc_from, a_pool_makes_aggregates_and_value_initialises) {
    struct aggregate {
        int a;
        int b;
    };
    EXPECT_EQ((this->template make<aggregate>(1, 2)->b), 2);
    for (int i = 0; i < 100; ++i) {
        auto const p = this->template make<aggregate>();
        ASSERT_EQ(p->a + p->b, 0);
        p->a = p->b = -1;
    }
}

TYPED_TEST(make_rc_from, a_pool_whose_constructor_throws_leaves_the_pool_as_it_was) {
    auto const keep = this->template make<int>(1);
    struct large {
        explicit large(test::life_log& log) : life(log) {}
        test::counted<> life;
        unsigned char bytes[100'000];
    };
    for (int i = 0; i < 3; ++i) {
        this->log.throw_at(1);
        EXPECT_THROW(static_cast<void>(this->template make<test::counted<>>(this->log)),
                     test::constructor_failed);
        this->log.throw_at(1);
        EXPECT_THROW(static_cast<void>(this->template make<large>(this->log)), test::constructor_failed);
        this->log.throw_at(1);
        EXPECT_THROW(static_cast<void>(this->pool.template try_make_rc<test::counted<>>(this->log)),
                     test::constructor_failed);
        this->log.throw_at(1);
        EXPECT_THROW(static_cast<void>(this->pool.template make_local_rc<test::counted<>>(this->log)),
                     test::constructor_failed);
        this->log.throw_at(1);
        EXPECT_THROW(static_cast<void>(pooled::make_rc<test::counted<>>(this->log)),
                     test::constructor_failed);
        EXPECT_EQ(this->in_use(), 1U);
    }
}

TYPED_TEST(make_rc_from, a_pool_whose_constructor_throws_bad_alloc_is_not_mistaken_for_exhausted) {
    struct throws_bad_alloc {
        throws_bad_alloc() { throw std::bad_alloc(); }
    };
    EXPECT_THROW(static_cast<void>(this->pool.template try_make_rc<throws_bad_alloc>()), std::bad_alloc);
}

TYPED_TEST(make_rc_from, a_pool_may_be_used_by_the_constructor) {
    struct recursive {
        explicit recursive(typename TypeParam::pool& pool, int depth) {
            if (depth != 0) inner = pool.template make_rc<recursive>(pool, depth - 1);
        }
        typename TypeParam::template ptr<recursive> inner;
    };
    auto const p = this->template make<recursive>(this->pool, 20);
    EXPECT_EQ(this->in_use(), 21U);
}

TYPED_TEST(make_rc_from, an_exhausted_pool_throws_or_is_empty_and_then_has_room_again) {
    typename TypeParam::pool bounded{{.max_bytes = 64U << 10}};
    using ptr = typename TypeParam::template ptr<test::counted<100>>;
    std::vector<ptr> all;
    while (ptr p = bounded.template try_make_rc<test::counted<100>>(this->log))
        all.push_back(std::move(p));
    ASSERT_GT(all.size(), 100U);
    EXPECT_THROW(static_cast<void>(bounded.template make_rc<test::counted<100>>(this->log)),
                 pooled::exhausted);
    EXPECT_EQ(bounded.template try_make_rc<test::counted<100>>(this->log), nullptr);
    EXPECT_EQ(this->log.constructed(), static_cast<std::int64_t>(all.size()));

    typename TypeParam::template weak<test::counted<100>> const w = all.back();
    all.pop_back();
    EXPECT_EQ(bounded.template try_make_rc<test::counted<100>>(this->log), nullptr)
        << "the block is observed";
    all.pop_back();
    EXPECT_NE(bounded.template try_make_rc<test::counted<100>>(this->log), nullptr);
}

TYPED_TEST(make_rc_from, an_exhausted_pool_still_turns_its_unique_ptrs_into_counted_ones) {
    typename TypeParam::pool bounded{{.max_bytes = 64U << 10}};
    std::vector<pooled::unique_ptr<test::counted<100>>> unique;
    while (auto p = bounded.template try_make_unique<test::counted<100>>(this->log))
        unique.push_back(std::move(p));
    auto const in_use = bounded.stats().in_use;
    std::vector<typename TypeParam::template ptr<test::counted<100>>> counted;
    for (auto& p : unique)
        counted.emplace_back(std::move(p));
    EXPECT_EQ(bounded.stats().in_use, in_use);
    auto const copies = counted;
    EXPECT_EQ(bounded.stats().in_use, in_use);
}

TYPED_TEST(make_rc_from, a_failing_upstream_throws_or_is_empty) {
    test::counting_upstream books;
    test::failing_upstream upstream(books);
    typename TypeParam::pool p{{.upstream = &upstream}};
    upstream.fail_always(true);
    EXPECT_THROW(static_cast<void>(p.template make_rc<int>(1)), test::injected_failure);
    EXPECT_EQ(p.template try_make_rc<int>(1), nullptr);
    upstream.fail_always(false);
    EXPECT_EQ(*p.template make_rc<int>(1), 1);
}

TYPED_TEST(make_rc_from, a_pool_may_make_what_has_private_parts) {
    class registered {
    public:
        [[nodiscard]] static auto make(typename TypeParam::pool& pool) {
            return pool.template make_rc<registered>(key{});
        }

    private:
        struct key {};

    public:
        explicit registered(key) {}
        int value = 5;
    };
    EXPECT_EQ(registered::make(this->pool)->value, 5);
}

}  // namespace
