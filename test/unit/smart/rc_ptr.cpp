// SPDX-License-Identifier: BSL-1.0
// rc_ptr and local_rc_ptr as values: size, counts, assignment, comparison; weak pointers; ends; from one way of counting to the other. Casts:
// rc_ptr_casts.cpp.

#include "pooled/rc_ptr.hpp"

#include "pooled/pooled.hpp"
#include "pooled/smart/counted_object.hpp"

#include "support/death_tests.hpp"
#include "support/handle_kinds.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
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
    auto const all_cost = [&]<std::size_t... Bytes>() { (costs(payload<Bytes>{}), ...); };
    all_cost.template operator()<1, 8, 16, 24, 40, 48, 120, 1528>();
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

// Weak pointers: what they see, when, and what they keep.

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

// Counted pointers when a thread, the pool or the process ends, and after a fork.

struct link {
    pooled::rc_ptr<link> next;
    pooled::weak_rc_ptr<link> previous;
};

pooled::rc_ptr<link> make_list(pooled::pool& pool, int length) {
    pooled::rc_ptr<link> head;
    for (int i = 0; i < length; ++i) {
        auto front = pool.make_rc<link>();
        if (head) head->previous = front;
        front->next = std::move(head);
        head = std::move(front);
    }
    return head;
}

// Errors that a destructor at the very end finds: GoogleTest no longer exists then.
[[noreturn]] void give_up(char const* what) {
    std::fputs(what, stderr);
    std::_Exit(13);
}

struct makes_more {
    ~makes_more() {
        auto p = pooled::make_rc<int>(1);
        pooled::weak_rc_ptr<int> const w = p;
        if (w.lock() != p) give_up("a weak pointer did not find its object");
        p.reset();
        if (!w.expired()) give_up("a weak pointer found an object that is gone");
        list = nullptr;
        if (!observer.expired()) give_up("the list is still there");
    }
    pooled::rc_ptr<link> list = make_list(pooled::default_pool(), 10'000);
    pooled::weak_rc_ptr<link> observer = list;
};

TEST(at_the_end_of_the_process, counted_objects_are_made_and_dropped_in_static_destructors) {
    test::expect_good_end([] {
        static makes_more const at_exit;
        static thread_local makes_more const of_main;
        static_cast<void>(&of_main);
        std::thread([] { static thread_local makes_more const of_thread; }).join();
    });
}

TEST(a_forked_child, uses_and_drops_what_its_parent_made) {
    pooled::pool pool;
    auto list = make_list(pool, 10'000);
    pooled::weak_rc_ptr<link> const w = list;
    auto const use = [&] {
        list.reset();
        if (!w.expired()) give_up("the list is still there");
        struct first_made_in_the_child {
            pooled::rc_ptr<link> held;
        };
        auto p = pool.make_rc<first_made_in_the_child>();
        p->held = make_list(pool, 100);
        pooled::rc_ptr<void> const nothing = std::move(p);
        return pool.stats().in_use == 102;
    };
    EXPECT_EQ(test::in_child(use), 0);
    EXPECT_EQ(w.lock(), list);
}

// An overflow of the count word is reported instead of wrapping around.

using pooled::detail::among_threads;
using pooled::detail::count_header;
using pooled::detail::on_one_thread;

template <class Counting>
class count_word : public testing::Test {
protected:
    count_word() { test::start_death_tests_anew(); }

    static std::int64_t owners(count_header const& h) { return count_header::owners_in(h.word.load()); }
    static constexpr std::uint64_t k_type = 500;
};
using countings = testing::Types<among_threads, on_one_thread>;
struct counting_names {
    template <class Counting>
    static std::string GetName(int) {
        return std::is_same_v<Counting, among_threads> ? "among_threads" : "on_one_thread";
    }
};
TYPED_TEST_SUITE(count_word, countings, counting_names);

TYPED_TEST(count_word, tells_of_too_many_owners_before_it_wraps_round) {
    constexpr std::int64_t k_most = 1 << 25;
    constexpr std::uint64_t one_less = k_most - 1;
    count_header h{TestFixture::k_type + count_header::k_sole + (one_less - 1) * count_header::k_strong_one};
    EXPECT_EQ(this->owners(h), one_less);
    TypeParam::add_strong(h);
    EXPECT_EQ(this->owners(h), k_most);
    EXPECT_DEATH(TypeParam::add_strong(h), "more than 33 million rc_ptr");
    EXPECT_DEATH(static_cast<void>(TypeParam::try_add_strong(h)), "more than 33 million rc_ptr");
}

// Of the threads that pass the limit together, one reports it while others drop.
TYPED_TEST(count_word, destroys_nothing_that_has_too_many_owners) {
    std::thread([] {}).join();  // from here on, counts change with locked instructions
    std::uint64_t const beyond = TestFixture::k_type + count_header::k_unique - count_header::k_strong_one;
    count_header h{beyond};
    TypeParam::release_strong(h);
    EXPECT_EQ(h.word.load(), beyond - count_header::k_strong_one);
}

TYPED_TEST(count_word, tells_of_too_many_observers_before_it_wraps_round) {
    count_header h{TestFixture::k_type + count_header::k_weak_limit - count_header::k_weak_one};
    TypeParam::add_weak(h);
    EXPECT_EQ(h.word.load(), TestFixture::k_type | count_header::k_weak_limit);
    EXPECT_DEATH(TypeParam::add_weak(h), "15 million weak_rc_ptr");
}

// From one way of counting to the other: by a sole owner only.

struct base {
    int value = 1;
};
struct second {
    int value = 2;
};
struct derived : base, second {
    explicit derived(test::life_log& log) : life(log) {}
    test::counted<> life;
};

class a_change_of_counting : public test::handles_test<test::counted_among_threads> {
protected:
    a_change_of_counting() { test::start_death_tests_anew(); }
};

TEST_F(a_change_of_counting, is_made_by_a_sole_owner_both_ways) {
    pooled::local_rc_ptr<derived> mine = pool.make_local_rc<derived>(log);
    auto const* const where = mine.get();
    { auto const copy = mine; }
    { pooled::weak_local_rc_ptr<derived> const observer = mine; }
    pooled::rc_ptr<derived> everybodys = std::move(mine);
    EXPECT_EQ(mine, nullptr);  // NOLINT: that is what is tested
    EXPECT_EQ(everybodys.get(), where);
    EXPECT_EQ(everybodys.use_count(), 1);
    { auto const copy = everybodys; }
    mine = std::move(everybodys);
    EXPECT_EQ(everybodys, nullptr);  // NOLINT
    EXPECT_EQ(mine.get(), where);
    EXPECT_EQ(log.constructed(), 1);
}

TEST_F(a_change_of_counting, may_go_to_a_base) {
    pooled::rc_ptr<second> p = pool.make_local_rc<derived>(log);
    EXPECT_EQ(p->value, 2);
    pooled::local_rc_ptr<second> q = std::move(p);
    EXPECT_EQ(q->value, 2);
}

TEST_F(a_change_of_counting, of_an_empty_pointer_gives_an_empty_one) {
    pooled::rc_ptr<base> const p = pooled::local_rc_ptr<derived>();
    pooled::local_rc_ptr<base> const q = pooled::rc_ptr<derived>();
    EXPECT_FALSE(p || q);
}

TEST_F(a_change_of_counting, takes_what_was_built_on_one_thread_to_another) {
    auto mine = pool.make_local_rc<derived>(log);
    {
        pooled::local_rc_ptr<base> const copy = mine;
        pooled::weak_local_rc_ptr<base> const observer = copy;
    }
    pooled::rc_ptr<derived> shared = std::move(mine);
    std::thread([shared, w = pooled::weak_rc_ptr<derived>(shared)] { EXPECT_EQ(w.lock(), shared); }).join();
    mine = std::move(shared);  // sees all that the thread did
    EXPECT_EQ(mine.use_count(), 1);
}

TEST_F(a_change_of_counting, is_refused_while_there_is_another_owner) {
    auto p = pool.make_rc<derived>(log);
    auto const q = p;
    EXPECT_DEATH(pooled::local_rc_ptr<derived>{std::move(p)}, "only a sole owner can change");
    EXPECT_DEATH(pooled::local_rc_ptr<derived>() = std::move(p), "only a sole owner can change");
}

TEST_F(a_change_of_counting, is_refused_while_there_is_an_observer) {
    auto p = pool.make_local_rc<derived>(log);
    pooled::weak_local_rc_ptr<derived> const w = p;
    EXPECT_DEATH(pooled::rc_ptr<derived>{std::move(p)}, "only a sole owner can change");
}

TEST_F(a_change_of_counting, is_a_move_and_never_a_copy) {
    using shared = pooled::rc_ptr<derived>;
    using local = pooled::local_rc_ptr<derived>;
    static_assert(std::is_convertible_v<shared, local> && std::is_convertible_v<local, shared>);
    static_assert(!std::is_constructible_v<shared, local&> && !std::is_constructible_v<shared, local const&>);
    static_assert(!std::is_constructible_v<local, shared&> && !std::is_constructible_v<local, shared const>);
    static_assert(!std::is_assignable_v<shared&, local&> && std::is_assignable_v<shared&, local>);
    // Its check may be made to throw; where nothing is checked nothing can throw.
    static_assert(!std::is_nothrow_constructible_v<shared, local> &&
                  !std::is_nothrow_assignable_v<shared&, local>);
    static_assert(std::is_nothrow_assignable_v<shared&, shared const&> &&
                  std::is_nothrow_assignable_v<pooled::rc_ptr<base>&, shared> &&
                  std::is_nothrow_assignable_v<shared&, std::nullptr_t>);
    static_assert(!std::is_constructible_v<pooled::weak_rc_ptr<derived>, local>);
    static_assert(!std::is_constructible_v<pooled::weak_rc_ptr<derived>, pooled::weak_local_rc_ptr<derived>>);
}

TEST_F(a_change_of_counting, happens_at_no_cost_where_a_local_pool_makes_what_all_share) {
    // A local pool's objects may be dropped only where the pool could be used, whichever way they are counted.
    pooled::local_pool mine;
    pooled::rc_ptr<derived> const p = mine.make_rc<derived>(log);
    pooled::weak_rc_ptr<base> const w = p;
    EXPECT_EQ(w.lock(), p);
}

}  // namespace
