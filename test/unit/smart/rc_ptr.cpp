// SPDX-License-Identifier: BSL-1.0
// rc_ptr and local_rc_ptr as values: size, counts, assignment, comparison. Casts: rc_ptr_casts.cpp; ends: rc_ptr_lifetime.cpp.

#include "pooled/rc_ptr.hpp"

#include "pooled/pooled.hpp"

#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

template <class Kind>
struct node_of {
    explicit node_of(test::life_log& log) : life(log) {}
    test::counted<> life;
    typename Kind::template ptr<node_of> next;
};

template <class Kind>
class counted_pointer : public test::handles_test<Kind> {};
TYPED_TEST_SUITE(counted_pointer, test::handle_kinds, test::handle_kind_names);

template <std::size_t Bytes>
struct payload {
    unsigned char bytes[Bytes];
};

TYPED_TEST(counted_pointer, is_one_word_whatever_it_points_to) {
    static_assert(sizeof(typename TypeParam::template ptr<int>) == 8);
    static_assert(sizeof(typename TypeParam::template ptr<void>) == 8);
    static_assert(sizeof(typename TypeParam::template ptr<std::istringstream>) == 8);
    static_assert(sizeof(typename TypeParam::template weak<std::istringstream>) == 8);
}

TYPED_TEST(counted_pointer, is_a_regular_value_that_moves_without_throwing) {
    using ptr = typename TypeParam::template ptr<int>;
    static_assert(std::regular<ptr> && std::totally_ordered<ptr>);
    static_assert(std::is_nothrow_move_constructible_v<ptr> && std::is_nothrow_move_assignable_v<ptr>);
    static_assert(std::is_nothrow_copy_constructible_v<ptr> && std::is_nothrow_copy_assignable_v<ptr>);
    static_assert(std::is_nothrow_swappable_v<ptr> && std::is_nothrow_destructible_v<ptr>);
    static constinit ptr constant_initialised;
    static constinit ptr from_nullptr = nullptr;
    EXPECT_EQ(constant_initialised, from_nullptr);
}

TYPED_TEST(counted_pointer, costs_eight_bytes_in_the_block) {
    auto const costs = [&]<std::size_t Bytes>(payload<Bytes>) {
        void* const plain = this->pool.allocate(Bytes + 8, 8);
        auto const expected = this->pool.stats().bytes_in_use;
        this->pool.deallocate(plain, Bytes + 8, 8);
        auto const p = this->template make<payload<Bytes>>();
        EXPECT_EQ(this->pool.stats().bytes_in_use, expected) << Bytes;
        EXPECT_EQ(this->in_use(), 1U);
    };
    costs(payload<1>{});
    costs(payload<8>{});
    costs(payload<16>{});
    costs(payload<24>{});
    costs(payload<40>{});
    costs(payload<48>{});
    costs(payload<120>{});
    costs(payload<1528>{});
}

TYPED_TEST(counted_pointer, shares_an_object_and_the_last_one_destroys_it) {
    auto p = this->template make<test::counted<>>(this->log);
    EXPECT_EQ(p.use_count(), 1);
    {
        auto const q = p;
        EXPECT_EQ(q, p);
        EXPECT_EQ(p.use_count(), 2);
        EXPECT_EQ(q.use_count(), 2);
    }
    EXPECT_EQ(p.use_count(), 1);
    EXPECT_EQ(this->log.alive(), 1);
    p.reset();
    EXPECT_EQ(p.use_count(), 0);
    EXPECT_EQ(this->log.destroyed(), 1);
    EXPECT_EQ(this->in_use(), 0U);
}

TYPED_TEST(counted_pointer, moves_without_counting) {
    auto p = this->template make<test::counted<>>(this->log);
    auto* const where = p.get();
    auto q = std::move(p);
    EXPECT_EQ(p, nullptr);  // NOLINT: that is what is tested
    EXPECT_EQ(q.get(), where);
    EXPECT_EQ(q.use_count(), 1);
    p = std::move(q);
    EXPECT_EQ(q, nullptr);  // NOLINT
    EXPECT_EQ(p.use_count(), 1);
}

TYPED_TEST(counted_pointer, that_is_empty_is_copied_moved_assigned_and_dropped) {
    using ptr = typename TypeParam::template ptr<int>;
    ptr a;
    ptr b = a;
    ptr c = std::move(a);
    a = b;
    b = std::move(c);
    a = nullptr;
    a = {};
    a.reset();
    a.swap(b);
    EXPECT_FALSE(a);
    EXPECT_EQ(b.get(), nullptr);
    EXPECT_EQ(c.use_count(), 0);  // NOLINT
}

TYPED_TEST(counted_pointer, survives_assignment_to_itself) {
    auto p = this->template make<test::counted<>>(this->log);
    auto& same = p;
    p = same;
    EXPECT_EQ(p.use_count(), 1);
    p = std::as_const(same);
    EXPECT_EQ(p.use_count(), 1);
    p = std::move(same);
    EXPECT_EQ(p.use_count(), 1);
    p.swap(same);
    swap(p, same);
    EXPECT_EQ(p.use_count(), 1);
    EXPECT_EQ(this->log.alive(), 1);
}

TYPED_TEST(counted_pointer, lets_go_of_what_it_had_when_assigned) {
    auto p = this->template make<test::counted<>>(this->log);
    auto q = this->template make<test::counted<>>(this->log);
    p = q;
    EXPECT_EQ(this->log.alive(), 1);
    EXPECT_EQ(p.use_count(), 2);
    p = this->template make<test::counted<>>(this->log);
    EXPECT_EQ(this->log.alive(), 2);
    p = nullptr;
    EXPECT_EQ(this->log.alive(), 1);
}

TYPED_TEST(counted_pointer, is_assigned_from_what_the_assignment_destroys) {
    using node = node_of<TypeParam>;
    auto const list = [&] {
        auto head = this->template make<node>(this->log);
        head->next = this->template make<node>(this->log);
        head->next->next = this->template make<node>(this->log);
        return head;
    };
    auto copied = list();
    for (int left = 2; copied; --left) {
        copied = copied->next;
        EXPECT_EQ(this->log.alive(), left);
    }
    auto moved = list();
    for (int left = 2; moved; --left) {
        moved = std::move(moved->next);
        EXPECT_EQ(this->log.alive(), left);
    }
}

TYPED_TEST(counted_pointer, may_be_a_member_of_the_object_that_it_keeps_alive) {
    using node = node_of<TypeParam>;
    auto const with_itself = [&] {
        auto p = this->template make<node>(this->log);
        p->next = p;
        return p.get();
    };
    with_itself()->next.reset();
    EXPECT_EQ(this->log.alive(), 0);
    with_itself()->next = nullptr;
    EXPECT_EQ(this->log.alive(), 0);
    node* const p = with_itself();
    p->next = std::move(p->next);
    EXPECT_EQ(this->log.alive(), 1);
    p->next = typename TypeParam::template ptr<node>();
    EXPECT_EQ(this->log.alive(), 0);
}

TYPED_TEST(counted_pointer, is_compared_and_hashed_by_the_objects_address) {
    using ptr = typename TypeParam::template ptr<int>;
    ptr const a = this->template make<int>(1);
    ptr const b = this->template make<int>(1);
    ptr const copy = a;
    ptr const empty;
    EXPECT_TRUE(a == copy && a != b && a != nullptr && nullptr != a && empty == nullptr && nullptr == empty);
    EXPECT_EQ(a <=> b, std::compare_three_way()(a.get(), b.get()));
    EXPECT_TRUE(empty < a && a > nullptr && nullptr < a && empty <= nullptr);
    EXPECT_EQ(std::hash<ptr>()(a), std::hash<int*>()(a.get()));
    EXPECT_EQ(std::hash<ptr>()(empty), std::hash<int*>()(nullptr));

    typename TypeParam::template ptr<int const> const as_const = a;
    typename TypeParam::template ptr<void const> const as_void = a;
    EXPECT_TRUE(as_const == a && as_void == a && (as_void <=> a) == 0 && as_const != b);

    std::set<ptr> const ordered{a, b, copy, empty};
    std::unordered_set<ptr> const hashed{a, b, copy, empty};
    EXPECT_EQ(ordered.size(), 3U);
    EXPECT_EQ(hashed.size(), 3U);
}

TYPED_TEST(counted_pointer, is_written_as_its_address) {
    auto const p = this->template make<int>(1);
    std::ostringstream of_pointer;
    std::ostringstream of_address;
    of_pointer << p;
    of_address << p.get();
    EXPECT_EQ(of_pointer.str(), of_address.str());
    std::wostringstream wide;
    wide << p;
    EXPECT_FALSE(wide.str().empty());
}

TYPED_TEST(counted_pointer, gives_a_const_pointer_the_same_access_and_a_pointer_to_const_less) {
    auto const p = this->template make<std::string>("text");
    static_assert(std::same_as<decltype(*p), std::string&>);
    static_assert(std::same_as<decltype(p.get()), std::string*>);
    *p += "s";
    typename TypeParam::template ptr<std::string const> const q = p;
    static_assert(std::same_as<decltype(*q), std::string const&>);
    EXPECT_EQ(q->size(), 5U);
    EXPECT_EQ(p.use_count(), 2);
}

TYPED_TEST(counted_pointer, points_to_const_and_volatile_objects_from_the_start) {
    auto const p = this->template make<std::string const>("text");
    static_assert(std::same_as<decltype(*p), std::string const&>);
    auto const q = this->template make<int volatile>(3);
    static_assert(std::same_as<decltype(*q), int volatile&>);
    EXPECT_EQ(*p, "text");
    EXPECT_EQ(*q, 3);
}

TYPED_TEST(counted_pointer, takes_over_a_unique_ptr_without_an_allocation) {
    auto u = this->pool.template make_unique<test::counted<>>(this->log);
    auto const* const where = u.get();
    typename TypeParam::template ptr<test::counted<>> p = std::move(u);
    EXPECT_EQ(u, nullptr);  // NOLINT
    EXPECT_EQ(p.get(), where);
    EXPECT_EQ(p.use_count(), 1);
    EXPECT_EQ(this->in_use(), 1U);
    EXPECT_EQ(this->pool.stats().high_water, 1U);
    EXPECT_EQ(this->log.constructed(), 1);
    auto const q = p;
    typename TypeParam::template weak<test::counted<>> const w = p;
    p.reset();
    EXPECT_EQ(w.use_count(), 1);

    p = this->pool.template make_unique<test::counted<>>(this->log);
    EXPECT_EQ(this->log.alive(), 2);
    p = pooled::unique_ptr<test::counted<>>();
    EXPECT_EQ(p, nullptr);
}

TYPED_TEST(counted_pointer, keeps_its_object_when_what_it_is_assigned_cannot_be_converted) {
    struct fails_to_convert {
        operator typename TypeParam::template ptr<int>() const { throw std::bad_alloc(); }
        operator typename TypeParam::template weak<int>() const { throw std::bad_alloc(); }
    };
    auto p = this->template make<int>(7);
    typename TypeParam::template weak<int> w = p;
    EXPECT_THROW(p = fails_to_convert(), std::bad_alloc);
    EXPECT_THROW(w = fails_to_convert(), std::bad_alloc);
    EXPECT_EQ(*p, 7);
    EXPECT_EQ(w.lock(), p);
}

TYPED_TEST(counted_pointer, takes_over_a_unique_ptr_to_const) {
    pooled::unique_ptr<std::string const> u = this->pool.template make_unique<std::string const>("text");
    typename TypeParam::template ptr<std::string const> const p = std::move(u);
    EXPECT_EQ(*p, "text");
}

TYPED_TEST(counted_pointer, counts_each_pointer_of_many) {
    auto const p = this->template make<int>(1);
    std::vector<typename TypeParam::template ptr<int>> const many(100'000, p);
    EXPECT_EQ(p.use_count(), 100'001);
}

}  // namespace
