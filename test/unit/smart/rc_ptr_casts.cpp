// SPDX-License-Identifier: BSL-1.0
// Counted pointers to bases, wherever they lie in the object and with or without a virtual destructor, and back; and to
// the object that asks for one.

#include "pooled/pooled.hpp"
#include "pooled/rc_from_this.hpp"
#include "pooled/rc_ptr.hpp"

#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

namespace {

struct plain_base {
    int plain = 1;
};
struct other_plain_base {
    int other = 2;
};
struct first_base {
    virtual ~first_base() = default;
    int first = 3;
};
struct second_base {
    virtual ~second_base() = default;
    int second = 4;
};
struct virtual_base {
    virtual ~virtual_base() = default;
    int shared = 5;
};
struct left : virtual virtual_base {};
struct right : virtual virtual_base {};

// No base at the start but the first has a virtual destructor that could be asked for.
struct plain_derived : plain_base, other_plain_base {
    explicit plain_derived(test::life_log& log) : life(log) {}
    test::counted<200> life;
};
struct diamond : first_base, second_base, other_plain_base, left, right {
    explicit diamond(test::life_log& log) : life(log) {}
    test::counted<200> life;
};
struct stranger {
    virtual ~stranger() = default;
};

template <class Kind>
class counted_pointer_to_base : public test::handles_test<Kind> {
protected:
    // The whole object is destroyed once by a pointer to its `Base`, which may be the last; its block is returned.
    template <class Base, class Object>
    void destroys_the_whole_object() {
        auto p = this->template make<Object>(this->log);
        Object* const where = p.get();
        {
            typename Kind::template ptr<Base> const copy = p;
            EXPECT_EQ(copy.get(), static_cast<Base*>(where));
            EXPECT_EQ(p.use_count(), 2);
        }
        typename Kind::template ptr<Base> last = std::move(p);
        EXPECT_EQ(p, nullptr);  // NOLINT: that is what is tested
        EXPECT_EQ(last.use_count(), 1);
        EXPECT_EQ(this->log.alive(), 1);
        last.reset();
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(this->in_use(), 0U);

        // Observed: the object is destroyed first, its block is freed with the observer.
        last = this->template make<Object>(this->log);
        typename Kind::template weak<Base> observer = last;
        last.reset();
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(this->in_use(), 1U);
        observer.reset();
        EXPECT_EQ(this->in_use(), 0U);
    }
};
TYPED_TEST_SUITE(counted_pointer_to_base, test::handle_kinds, test::handle_kind_names);

// At the start, further in, without a virtual function, virtual, and void.
TYPED_TEST(counted_pointer_to_base, destroys_the_whole_object_wherever_the_base_lies) {
    this->template destroys_the_whole_object<first_base, diamond>();
    this->template destroys_the_whole_object<plain_base, plain_derived>();
    this->template destroys_the_whole_object<second_base, diamond>();
    this->template destroys_the_whole_object<other_plain_base, plain_derived>();
    this->template destroys_the_whole_object<other_plain_base, diamond>();
    this->template destroys_the_whole_object<virtual_base, diamond>();
    this->template destroys_the_whole_object<right, diamond>();
    this->template destroys_the_whole_object<void, diamond>();
    this->template destroys_the_whole_object<void const, plain_derived>();
}

TYPED_TEST(counted_pointer_to_base, goes_up_step_by_step) {
    typename TypeParam::template ptr<right> r = this->template make<diamond>(this->log);
    typename TypeParam::template ptr<virtual_base> v = r;
    typename TypeParam::template ptr<virtual_base const> const c = v;
    typename TypeParam::template ptr<void const> const nothing = c;
    EXPECT_EQ(c->shared, 5);
    EXPECT_EQ(nothing.use_count(), 4);
    r = nullptr;
    v = nullptr;
    EXPECT_EQ(this->log.alive(), 1);
}

TYPED_TEST(counted_pointer_to_base, that_is_empty_stays_empty) {
    typename TypeParam::template ptr<diamond> const empty;
    typename TypeParam::template ptr<second_base> const second = empty;
    typename TypeParam::template ptr<virtual_base> const shared = empty;
    typename TypeParam::template weak<virtual_base> const observer = empty;
    EXPECT_EQ(second, nullptr);
    EXPECT_EQ(shared.use_count(), 0);
    EXPECT_TRUE(observer.expired());
    EXPECT_FALSE(static_pointer_cast<diamond>(second));
    EXPECT_FALSE(dynamic_pointer_cast<diamond>(shared));
    EXPECT_FALSE(const_pointer_cast<diamond>(empty));
}

TYPED_TEST(counted_pointer_to_base, is_one_owner_with_pointers_to_the_other_bases) {
    auto const d = this->template make<diamond>(this->log);
    typename TypeParam::template ptr<second_base> const second = d;
    typename TypeParam::template ptr<virtual_base> const shared = d;
    typename TypeParam::template weak<left> const observer = d;
    auto const same = [](auto const& a, auto const& b) { return !a.owner_before(b) && !b.owner_before(a); };
    EXPECT_TRUE(same(d, second) && same(second, shared) && same(shared, observer) && same(observer, d));
    EXPECT_NE(static_cast<void*>(second.get()), static_cast<void*>(shared.get()));

    typename TypeParam::template ptr<second_base> const another = this->template make<diamond>(this->log);
    EXPECT_NE(another.owner_before(d), d.owner_before(another));
    EXPECT_NE(another.owner_before(observer), observer.owner_before(another));
    typename TypeParam::template ptr<diamond> const empty;
    EXPECT_TRUE(empty.owner_before(d));
}

TYPED_TEST(counted_pointer_to_base, takes_over_a_unique_ptr_of_a_derived_class_or_of_a_base) {
    typename TypeParam::template ptr<second_base> p = this->pool.template make_unique<diamond>(this->log);
    EXPECT_EQ(p->second, 4);
    p.reset();
    EXPECT_EQ(this->log.alive(), 0);

    pooled::unique_ptr<virtual_base> u = this->pool.template make_unique<diamond>(this->log);
    typename TypeParam::template ptr<virtual_base> v = std::move(u);
    typename TypeParam::template ptr<diamond> const d = dynamic_pointer_cast<diamond>(v);
    EXPECT_EQ(d.use_count(), 2);
    v = pooled::unique_ptr<virtual_base>();
    EXPECT_EQ(d->second, 4);

    // A unique_ptr refuses this base, which has no virtual destructor; with the counts comes the type.
    typename TypeParam::template ptr<other_plain_base> const other =
        this->pool.template make_unique<plain_derived>(this->log);
    EXPECT_EQ(other->other, 2);
}

TYPED_TEST(counted_pointer_to_base, is_cast_down_statically) {
    typename TypeParam::template ptr<second_base> p = this->template make<diamond>(this->log);
    auto d = static_pointer_cast<diamond>(p);
    EXPECT_EQ(d->second, 4);
    EXPECT_EQ(p.use_count(), 2);
    auto const moved = static_pointer_cast<diamond>(std::move(p));
    EXPECT_EQ(p, nullptr);  // NOLINT
    EXPECT_EQ(moved.use_count(), 2);
    EXPECT_EQ(moved, d);

    typename TypeParam::template ptr<void> const nothing = d;
    EXPECT_EQ(static_pointer_cast<diamond>(nothing), d);
    typename TypeParam::template ptr<other_plain_base> const plain =
        this->template make<plain_derived>(this->log);
    EXPECT_EQ(static_pointer_cast<plain_derived>(plain)->plain, 1);
}

TYPED_TEST(counted_pointer_to_base, is_cast_dynamically_down_and_across) {
    typename TypeParam::template ptr<second_base> p = this->template make<diamond>(this->log);
    auto const down = dynamic_pointer_cast<diamond>(p);
    auto const across = dynamic_pointer_cast<left>(p);
    auto const virtually = dynamic_pointer_cast<virtual_base>(p);
    EXPECT_EQ(down->second, 4);
    EXPECT_EQ(across->shared + virtually->shared, 10);
    EXPECT_EQ(p.use_count(), 4);
    EXPECT_FALSE(dynamic_pointer_cast<stranger>(p));
    EXPECT_EQ(p.use_count(), 4);

    EXPECT_FALSE(dynamic_pointer_cast<stranger>(std::move(p)));
    ASSERT_TRUE(p) << "a cast that fails takes nothing";  // NOLINT
    EXPECT_EQ(p.use_count(), 4);
    auto const moved = dynamic_pointer_cast<right>(std::move(p));
    EXPECT_FALSE(p);  // NOLINT
    EXPECT_EQ(moved.use_count(), 4);
}

TYPED_TEST(counted_pointer_to_base, is_cast_to_non_const) {
    typename TypeParam::template ptr<diamond const> const p = this->template make<diamond>(this->log);
    const_pointer_cast<diamond>(p)->second = 9;
    EXPECT_EQ(p->second, 9);
    EXPECT_EQ(p.use_count(), 1);
}

TYPED_TEST(counted_pointer_to_base, observes_through_a_base_and_says_who_is_gone) {
    typename TypeParam::template weak<diamond> w;
    typename TypeParam::template weak<virtual_base> v;
    {
        auto const d = this->template make<diamond>(this->log);
        w = d;
        v = w;
        EXPECT_EQ(v.lock()->shared, 5);
        EXPECT_EQ(v.use_count(), 1);
    }
    EXPECT_EQ(v.lock(), nullptr);
    // The object is gone, so its virtual base cannot be found any more; that must not be tried.
    typename TypeParam::template weak<virtual_base> const late = w;
    EXPECT_TRUE(late.expired());
}

TYPED_TEST(counted_pointer_to_base, takes_bases_up_to_the_64th_kibibyte_and_says_so_beyond) {
    struct wide_base {
        unsigned char bytes[65'528] = {};
    };
    struct too_wide_base {
        unsigned char bytes[65'536] = {};
    };
    struct alignas(8) far_base {
        int far = 6;
    };
    struct near_enough : wide_base, far_base {};
    struct too_far : too_wide_base, far_base {};
    typename TypeParam::template ptr<far_base> const p = this->template make<near_enough>();
    EXPECT_EQ(p->far, 6);
    EXPECT_EQ(p.use_count(), 1);
    EXPECT_EQ(static_pointer_cast<near_enough>(p)->far, 6);
    auto const d = this->template make<too_far>();
    EXPECT_DEATH(typename TypeParam::template ptr<far_base>{d}, "64 KiB or more into its object");
}

template <class From, class To>
constexpr bool k_converts = std::is_convertible_v<From, To>;

TYPED_TEST(counted_pointer_to_base, converts_where_plain_pointers_do) {
    using d = typename TypeParam::template ptr<diamond>;
    using s = typename TypeParam::template ptr<second_base>;
    using c = typename TypeParam::template ptr<diamond const>;
    using x = typename TypeParam::template ptr<stranger>;
    using n = typename TypeParam::template ptr<void>;
    static_assert(k_converts<d, s> && k_converts<d const&, s> && k_converts<d, c> && k_converts<d, n>);
    static_assert(!k_converts<s, d> && !k_converts<c, d> && !k_converts<d, x> && !k_converts<n, d>);
    static_assert(!k_converts<c, n>);
    static_assert(std::is_assignable_v<s&, d> && !std::is_assignable_v<d&, s> &&
                  !std::is_assignable_v<d&, c>);
    static_assert(std::is_nothrow_constructible_v<s, d> && std::is_nothrow_constructible_v<s, d const&>);

    using wd = typename TypeParam::template weak<diamond>;
    using ws = typename TypeParam::template weak<second_base>;
    static_assert(k_converts<d, wd> && k_converts<d, ws> && k_converts<wd, ws>);
    static_assert(!k_converts<ws, wd> && !k_converts<s, wd> && !k_converts<wd, d>);
    static_assert(!k_converts<diamond*, d> && !std::is_constructible_v<d, diamond*>);

    static_assert(k_converts<pooled::unique_ptr<diamond>, s>);
    static_assert(!k_converts<pooled::unique_ptr<diamond> const&, s>);
    static_assert(!k_converts<pooled::unique_ptr<diamond const>, d>);
    static_assert(!k_converts<std::unique_ptr<diamond>, d>);
    static_assert(!k_converts<pooled::unique_ptr<int[]>, typename TypeParam::template ptr<int>>);
}

TYPED_TEST(counted_pointer_to_base, of_arrays_converts_as_std_shared_ptr_does) {
    using many = typename TypeParam::template ptr<int[]>;
    using constant = typename TypeParam::template ptr<int const[]>;
    static_assert(std::same_as<typename many::element_type, int> && sizeof(many) == 8);
    static_assert(std::convertible_to<typename TypeParam::template ptr<int[4]>, many>);
    static_assert(!std::convertible_to<many, typename TypeParam::template ptr<int>>);
    static_assert(!std::convertible_to<typename TypeParam::template ptr<int>, many>);
    static_assert(!std::convertible_to<constant, many>);
    struct derived : test::counted<> {};
    static_assert(!std::convertible_to<typename TypeParam::template ptr<derived[]>,
                                       typename TypeParam::template ptr<test::counted<>[]>>,
                  "an element of another size");

    many p = this->pool.template make_rc<int[4]>(5);
    constant q = p;
    typename TypeParam::template ptr<void> whole = q == nullptr ? nullptr : const_pointer_cast<int[]>(q);
    EXPECT_EQ(p.use_count(), 3);
    p.reset();
    whole.reset();
    EXPECT_EQ(q[3], 5);
    EXPECT_EQ(std::hash<constant>()(q), std::hash<int const*>()(q.get()));
}

struct base {};
struct derived : base {};

template <class T>
[[nodiscard]] constexpr std::string_view name_of() {
    return std::source_location::current().function_name();
}

// Aliases and class templates are written alike; deduction tells them apart.
template <template <class> class Pointer, class T>
bool is_deduced_as(Pointer<T> const&) {
    return std::same_as<Pointer<base>, pooled::rc_ptr<base>>;
}

TEST(a_counted_pointer, has_a_name_without_internals_in_messages) {
    EXPECT_NE(name_of<pooled::rc_ptr<int>>().find("rc_ptr<int>"), std::string_view::npos);
    for (std::string_view const name :
         {name_of<pooled::rc_ptr<int>>(), name_of<pooled::weak_rc_ptr<int>>(),
          name_of<pooled::local_rc_ptr<int>>(), name_of<pooled::weak_local_rc_ptr<int>>()})
        EXPECT_EQ(name.find("detail"), std::string_view::npos) << name;
}

TEST(a_counted_pointer, is_returned_and_assigned_by_its_public_name) {
    using pooled::local_rc_ptr;
    using pooled::rc_ptr;
    static_assert(std::same_as<decltype(pooled::make_rc<int>()), rc_ptr<int>>);
    static_assert(std::same_as<decltype(std::declval<pooled::weak_rc_ptr<int>>().lock()), rc_ptr<int>>);
    static_assert(std::same_as<decltype(pooled::static_pointer_cast<base>(std::declval<rc_ptr<derived>>())),
                               rc_ptr<base>>);
    static_assert(
        std::same_as<decltype(std::declval<pooled::local_pool&>().make_rc<int>()), local_rc_ptr<int>>);
    static_assert(std::same_as<rc_ptr<int>::weak_type, pooled::weak_rc_ptr<int>>);
    static_assert(std::same_as<local_rc_ptr<int>::weak_type, pooled::weak_local_rc_ptr<int>>);
    rc_ptr<base> p;
    static_assert(std::same_as<decltype(p = pooled::make_rc<derived>()), rc_ptr<base>&>);
    static_assert(std::same_as<decltype(p = p), rc_ptr<base>&>);
    static_assert(std::same_as<decltype(p = nullptr), rc_ptr<base>&>);
}

TEST(a_counted_pointer, is_deduced_by_class_templates_and_template_template_parameters) {
    pooled::rc_ptr const owner = pooled::make_rc<base>();
    static_assert(std::same_as<decltype(owner), pooled::rc_ptr<base> const>);
    pooled::weak_rc_ptr const observer(owner);
    static_assert(std::same_as<decltype(observer), pooled::weak_rc_ptr<base> const>);
    pooled::rc_ptr const locked(observer);
    static_assert(std::same_as<decltype(locked), pooled::rc_ptr<base> const>);
    pooled::rc_ptr const taken = pooled::make_unique<base>();
    static_assert(std::same_as<decltype(taken), pooled::rc_ptr<base> const>);
    pooled::local_rc_ptr const local = pooled::make_unique<base>();
    pooled::weak_local_rc_ptr const local_observer(local);
    static_assert(std::same_as<decltype(local_observer), pooled::weak_local_rc_ptr<base> const>);
    EXPECT_TRUE(is_deduced_as(pooled::rc_ptr<base>()));
    EXPECT_FALSE(is_deduced_as(pooled::local_rc_ptr<base>()));
    EXPECT_EQ(owner.use_count(), 2);
}

TEST(a_counted_pointer, is_swapped_by_the_function_that_argument_dependent_lookup_finds) {
    auto a = pooled::make_rc<int>(1);
    auto b = pooled::make_rc<int>(2);
    pooled::weak_rc_ptr<int> weak_a = a;
    pooled::weak_rc_ptr<int> weak_b = b;
    using std::swap;
    swap(a, b);
    swap(weak_a, weak_b);
    EXPECT_EQ(*a, 2);
    EXPECT_EQ(a, weak_a.lock());
    EXPECT_EQ(std::hash<pooled::rc_ptr<int>>()(a), std::hash<int*>()(a.get()));
}

// enable_rc_from_this: who gets a pointer to itself, when, and who does not.

struct session : pooled::enable_rc_from_this<session> {
    explicit session(test::life_log& log) : life(log) {}
    test::counted<> life;
    int value = 7;
};

class rc_from_this : public test::handles_test<test::counted_among_threads> {};

TEST_F(rc_from_this, gives_a_pointer_to_const_from_a_const_object) {
    pooled::rc_ptr<session const> const p = pool.make_rc<session const>(log);
    static_assert(std::same_as<decltype(p->rc_from_this()), pooled::rc_ptr<session const>>);
    static_assert(std::same_as<decltype(p->weak_rc_from_this()), pooled::weak_rc_ptr<session const>>);
    EXPECT_EQ(p->rc_from_this(), p);
    EXPECT_EQ(p->weak_rc_from_this().lock(), p);
}

TEST_F(rc_from_this, works_for_objects_counted_on_one_thread) {
    auto const p = pool.make_local_rc<session>(log);
    pooled::local_rc_ptr<session> const again = p->local_rc_from_this();
    EXPECT_EQ(again, p);
    EXPECT_EQ(p.use_count(), 2);
    pooled::local_rc_ptr<session const> const as_const = std::as_const(*p).local_rc_from_this();
    EXPECT_EQ(p.use_count(), 3);
}

TEST_F(rc_from_this, throws_when_nobody_owns_the_object_by_counting) {
    session on_the_stack(log);
    EXPECT_THROW(static_cast<void>(on_the_stack.rc_from_this()), std::bad_weak_ptr);
    EXPECT_TRUE(on_the_stack.weak_rc_from_this().expired());
    auto const shared = pool.make_shared<session>(log);
    EXPECT_THROW(static_cast<void>(shared->rc_from_this()), std::bad_weak_ptr);
    auto const unique = pool.make_unique<session>(log);
    EXPECT_THROW(static_cast<void>(unique->rc_from_this()), std::bad_weak_ptr);
    EXPECT_THROW(static_cast<void>(unique->local_rc_from_this()), std::bad_weak_ptr);
    EXPECT_TRUE(unique->weak_rc_from_this().expired());
}

TEST_F(rc_from_this, works_once_a_unique_ptr_has_become_counted) {
    auto unique = pool.make_unique<session>(log);
    auto* const raw = unique.get();
    pooled::rc_ptr<session> const p = std::move(unique);
    EXPECT_EQ(raw->rc_from_this(), p);
}

struct asks_early_and_late : pooled::enable_rc_from_this<asks_early_and_late> {
    explicit asks_early_and_late(int& answers) : refused(&answers) { ask(); }
    ~asks_early_and_late() { ask(); }
    void ask() {
        if (weak_rc_from_this().expired()) ++*refused;
        try {
            static_cast<void>(rc_from_this());
        } catch (std::bad_weak_ptr const&) {
            ++*refused;
        }
    }
    int* refused;
};

TEST_F(rc_from_this, throws_in_the_constructor_and_in_the_destructor) {
    int refused = 0;
    auto p = pool.make_rc<asks_early_and_late>(refused);
    EXPECT_EQ(refused, 2);
    p->ask();
    EXPECT_EQ(refused, 2);
    p.reset();
    EXPECT_EQ(refused, 4) << "by the last of owners, unobserved";

    refused = 0;
    p = pool.make_rc<asks_early_and_late>(refused);
    pooled::weak_rc_ptr<asks_early_and_late> const w = p;
    p.reset();
    EXPECT_EQ(refused, 4) << "observed";

    refused = 0;
    pool.make_unique<asks_early_and_late>(refused).reset();
    EXPECT_EQ(refused, 4) << "by a unique_ptr";

    refused = 0;
    pool.make_local_rc<asks_early_and_late>(refused).reset();
    EXPECT_EQ(refused, 4) << "by a local_rc_ptr";
}

TEST_F(rc_from_this, is_not_copied_with_the_object) {
    struct copyable : pooled::enable_rc_from_this<copyable> {
        int value = 1;
    };
    auto const p = pool.make_rc<copyable>();
    copyable on_the_stack = *p;
    EXPECT_THROW(static_cast<void>(on_the_stack.rc_from_this()), std::bad_weak_ptr);
    auto const q = pool.make_rc<copyable>(*p);
    EXPECT_EQ(q->rc_from_this(), q);
    *p = *q;
    EXPECT_EQ(p->rc_from_this(), p);
    on_the_stack = *p;
    EXPECT_THROW(static_cast<void>(on_the_stack.rc_from_this()), std::bad_weak_ptr);
}

struct front_matter {
    virtual ~front_matter() = default;
    int front = 1;
};
struct derived_session : front_matter, session {
    using session::session;
};

TEST_F(rc_from_this, is_inherited_and_gives_the_base_that_asked_for_it) {
    auto const p = pool.make_rc<derived_session>(log);
    pooled::rc_ptr<session> const base = p->rc_from_this();
    EXPECT_EQ(base->value, 7);
    EXPECT_EQ(static_pointer_cast<derived_session>(base), p);
    pooled::rc_ptr<front_matter> const front = p;
    EXPECT_EQ(dynamic_cast<session&>(*front).rc_from_this(), base);
}

TEST_F(rc_from_this, works_in_a_virtual_base) {
    struct root : pooled::enable_rc_from_this<root> {
        virtual ~root() = default;
        int value = 3;
    };
    struct l : virtual root {};
    struct r : virtual root {};
    struct both : l, r {};
    auto const p = pool.make_rc<both>();
    pooled::rc_ptr<root> const base = p->rc_from_this();
    EXPECT_EQ(base->value, 3);
    EXPECT_EQ(dynamic_pointer_cast<both>(base), p);
}

TEST_F(rc_from_this, costs_eight_bytes_in_the_object) {
    struct without {
        double value;
    };
    struct with : pooled::enable_rc_from_this<with> {
        double value;
    };
    static_assert(sizeof(with) == sizeof(without) + 8);
}

}  // namespace
