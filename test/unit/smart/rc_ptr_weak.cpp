// SPDX-License-Identifier: BSL-1.0
// Weak pointers: what they see, when, and what they keep.

#include "pooled/pooled.hpp"
#include "pooled/rc_ptr.hpp"

#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace {

template <class Kind>
class weak_pointer : public test::handles_test<Kind> {};
TYPED_TEST_SUITE(weak_pointer, test::handle_kinds, test::handle_kind_names);

// Runs a given function in its destructor.
struct last_words {
    explicit last_words(test::life_log& log) : life(log) {}
    ~last_words() {
        if (say) say();
    }
    test::counted<> life;
    std::function<void()> say;
};

TYPED_TEST(weak_pointer, sees_the_object_as_long_as_it_lives) {
    typename TypeParam::template weak<test::counted<>> w;
    EXPECT_TRUE(w.expired());
    EXPECT_EQ(w.lock(), nullptr);
    auto p = this->template make<test::counted<>>(this->log);
    w = p;
    EXPECT_FALSE(w.expired());
    EXPECT_EQ(w.use_count(), 1);
    {
        auto const locked = w.lock();
        EXPECT_EQ(locked, p);
        EXPECT_EQ(p.use_count(), 2);
    }
    p.reset();
    EXPECT_TRUE(w.expired());
    EXPECT_EQ(w.use_count(), 0);
    EXPECT_EQ(w.lock(), nullptr);
}

TYPED_TEST(weak_pointer, keeps_the_block_but_not_the_object) {
    auto p = this->template make<test::counted<>>(this->log);
    typename TypeParam::template weak<test::counted<>> a = p;
    auto b = a;
    auto const* const where = p.get();
    p.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(this->in_use(), 1U);
    EXPECT_NE(this->template make<test::counted<>>(this->log).get(), where)
        << "an observed block was handed out again";
    a.reset();
    EXPECT_EQ(this->in_use(), 1U);
    b.reset();
    EXPECT_EQ(this->in_use(), 0U);
}

TYPED_TEST(weak_pointer, is_copied_moved_and_assigned_as_a_value) {
    using weak = typename TypeParam::template weak<test::counted<>>;
    auto p = this->template make<test::counted<>>(this->log);
    auto q = this->template make<test::counted<>>(this->log);
    weak a = p;
    weak b = a;
    weak c = std::move(b);
    EXPECT_TRUE(b.expired());  // NOLINT: that is what is tested
    EXPECT_EQ(c.lock(), p);
    auto& same = c;
    c = same;
    c = std::as_const(same);
    c = std::move(same);
    EXPECT_EQ(c.lock(), p);
    c = q;
    EXPECT_EQ(c.lock(), q);
    swap(a, c);
    EXPECT_EQ(a.lock(), q);
    c = std::move(a);
    EXPECT_EQ(c.lock(), q);
    c = weak();
    weak const empty;
    weak const copy_of_empty = empty;  // NOLINT
    EXPECT_TRUE(copy_of_empty.expired());
    p.reset();
    q.reset();
    EXPECT_EQ(this->in_use(), 0U) << "each weak count was given back";
}

TYPED_TEST(weak_pointer, finds_nobody_from_within_the_destructor) {
    typename TypeParam::template weak<last_words> w;
    int asked = 0;
    auto p = this->template make<last_words>(this->log);
    w = p;
    p->say = [&] {
        ++asked;
        EXPECT_TRUE(w.expired());
        EXPECT_EQ(w.lock(), nullptr);
        auto const copy = w;
        EXPECT_TRUE(copy.expired());
    };
    p.reset();
    EXPECT_EQ(asked, 1);
}

TYPED_TEST(weak_pointer, may_be_the_last_and_go_within_the_destructor) {
    typename TypeParam::template weak<last_words> w;
    auto p = this->template make<last_words>(this->log);
    w = p;
    p->say = [&] {
        w.reset();
        EXPECT_EQ(this->in_use(), 1U) << "the destructor still runs in it";
    };
    p.reset();
    EXPECT_EQ(this->in_use(), 0U);
}

TYPED_TEST(weak_pointer, may_be_made_of_another_within_the_destructor_and_outlive_it) {
    typename TypeParam::template weak<last_words> w;
    typename TypeParam::template weak<last_words> later;
    auto p = this->template make<last_words>(this->log);
    w = p;
    p->say = [&] { later = std::move(w); };
    p.reset();
    EXPECT_EQ(this->in_use(), 1U);
    EXPECT_EQ(later.lock(), nullptr);
}

TYPED_TEST(weak_pointer, may_be_a_member_of_the_object_it_observes) {
    struct self_aware {
        explicit self_aware(test::life_log& log) : life(log) {}
        ~self_aware() { EXPECT_EQ(self.lock(), nullptr); }
        test::counted<> life;
        typename TypeParam::template weak<self_aware> self;
    };
    auto p = this->template make<self_aware>(this->log);
    p->self = p;
    EXPECT_EQ(p->self.lock(), p);
    p.reset();
    EXPECT_EQ(this->in_use(), 0U);
}

TYPED_TEST(weak_pointer, of_each_node_does_not_bring_recursion_back) {
    struct link {
        typename TypeParam::template ptr<link> next;
        typename TypeParam::template weak<link> previous;
    };
    std::vector<typename TypeParam::template weak<link>> observers;
    typename TypeParam::template ptr<link> head;
    for (int i = 0; i < 200'000; ++i) {
        auto front = this->template make<link>();
        if (head) head->previous = front;
        front->next = std::move(head);
        head = std::move(front);
        if (i % 16 == 0) observers.emplace_back(head);
    }
    head.reset();
    EXPECT_EQ(this->in_use(), observers.size());
    for (auto const& w : observers)
        EXPECT_TRUE(w.expired());
}

TYPED_TEST(weak_pointer, is_a_key_that_stays_the_same_when_the_object_is_gone) {
    using weak = typename TypeParam::template weak<int>;
    auto const by_owner = [](auto const& a, auto const& b) { return a.owner_before(b); };
    std::map<weak, int, decltype(by_owner)> map(by_owner);
    std::vector<weak> keys;
    for (int i = 0; i < 100; ++i) {
        auto const p = this->template make<int>(i);
        keys.emplace_back(p);
        map.emplace(p, i);
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
        EXPECT_EQ(map.at(keys[i]), static_cast<int>(i));
}

TYPED_TEST(weak_pointer, makes_an_owner_or_throws) {
    auto p = this->template make<test::counted<>>(this->log);
    typename TypeParam::template weak<test::counted<>> const w = p;
    using owner = decltype(p);
    {
        owner const q(w);
        EXPECT_EQ(q, p);
        EXPECT_EQ(p.use_count(), 2);
    }
    p.reset();
    EXPECT_THROW(owner q(w), std::bad_weak_ptr);
    EXPECT_THROW(owner q(typename TypeParam::template weak<test::counted<>>{}), std::bad_weak_ptr);
}

TYPED_TEST(weak_pointer, outlives_the_pool) {
    typename TypeParam::template weak<test::counted<>> w;
    {
        typename TypeParam::pool other;
        auto const p = other.template make_rc<test::counted<>>(this->log);
        w = p;
    }
    EXPECT_TRUE(w.expired());
    EXPECT_EQ(w.lock(), nullptr);
}

}  // namespace
