// SPDX-License-Identifier: BSL-1.0

// What pools make, by every handle and from every kind of pool: arguments, initialisation, size, alignment, arrays, and what is
// left when a constructor throws or there is no memory. With a tail: make_with_tail.cpp.

#include "pooled/make_shared.hpp"
#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/makers.hpp"
#include "support/possible_alignment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();
constexpr bool k_blocks_stay_as_they_were = POOLED_CHECKED == 0 && POOLED_SANITIZE == 0;

template <class Kind>
class made : public test::makers_test<Kind> {};
TYPED_TEST_SUITE(made, test::maker_kinds, test::maker_kind_names);

TYPED_TEST(made, is_one_block_of_the_pool) {
    auto const p = this->template make<std::string>("text");
    static_assert(std::same_as<decltype(p), typename TypeParam::template ptr<std::string> const>);
    static_assert(std::same_as<decltype(TypeParam::template try_make<int[]>(this->pool, 1)),
                               typename TypeParam::template ptr<int[]>>);
    EXPECT_EQ(*p, "text");
    EXPECT_EQ(this->in_use(), 1U);
    EXPECT_TRUE(this->pool.owns(p.get()));
}

TYPED_TEST(made, is_constructed_from_the_arguments) {
    struct taker {
        taker(std::unique_ptr<int> p, int& r, std::string s)
            : moved(std::move(p)), referred(r), copied(std::move(s)) {}
        std::unique_ptr<int> moved;
        int& referred;
        std::string copied;
    };
    int i = 0;
    auto const p = this->template make<taker>(std::make_unique<int>(7), i, "text");
    EXPECT_EQ(&p->referred, &i);
    EXPECT_EQ(*p->moved, 7);
    EXPECT_EQ(p->copied, "text");
    EXPECT_EQ(this->template make<std::vector<int>>(3)->size(), 3U) << "an int for a size: no warning";
}

TYPED_TEST(made, may_be_const_or_an_aggregate_and_is_value_initialised) {
    struct point {
        int x;
        int y;
    };
    EXPECT_EQ(this->template make<point>(1, 2)->y, 2);
    auto const constant = this->template make<std::string const>("text");
    static_assert(std::same_as<decltype(*constant), std::string const&>);
    EXPECT_EQ(*constant, "text");
    for (int i = 0; i < 100; ++i) {
        auto const p = this->template make<point>();
        ASSERT_EQ(p->x + p->y, 0);
        p->x = p->y = -1;
    }
}

TYPED_TEST(made, keeps_the_alignment_of_objects_and_elements) {
    auto const check = [this]<std::size_t Align>(std::integral_constant<std::size_t, Align>) {
        struct alignas(Align) aligned {
            char c = 'x';
        };
        auto const one = this->template make<aligned>();
        auto const many = this->template make<aligned[]>(3);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.get()) % Align, 0U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(many.get()) % Align, 0U) << "array";
        EXPECT_EQ(one->c, 'x');
        EXPECT_EQ(many[2].c, 'x');
    };
    check(std::integral_constant<std::size_t, 32>{});
    check(std::integral_constant<std::size_t, 64>{});
    check(std::integral_constant<std::size_t, 512>{});
    check(std::integral_constant<std::size_t, 4096>{});
    check(std::integral_constant<std::size_t, 8192>{});
    check(std::integral_constant<std::size_t, test::possible_alignment(65'536)>{});
    check(std::integral_constant<std::size_t, test::possible_alignment(1'048'576)>{});
}

TYPED_TEST(made, may_have_any_size) {
    auto const a = this->template make<test::counted<1>>(this->log);
    auto const b = this->template make<test::counted<1500>>(this->log);
    auto const c = this->template make<test::counted<32'700>>(this->log);
    auto const d = this->template make<test::counted<40'000>>(this->log);
    auto const e = this->template make<test::counted<3'000'000>>(this->log);
    EXPECT_EQ(this->log.alive(), 5);
    EXPECT_EQ(this->in_use(), 5U);
}

TYPED_TEST(made, may_be_an_array_of_any_length) {
    test::life_log::scope const scope(this->log);
    for (std::size_t const n : {0UL, 1UL, 2UL, 100UL, 20'000UL}) {
        auto objects = this->template make<test::counted<>[]>(n);
        EXPECT_NE(objects, nullptr);
        EXPECT_EQ(this->log.alive(), static_cast<std::int64_t>(n));
        objects.reset();
        EXPECT_EQ(this->log.alive(), 0);
        for (int i = 0; i < 3; ++i) {
            auto const zeros = this->template make<int[]>(n);
            ASSERT_TRUE(std::all_of(zeros.get(), zeros.get() + n, [](int v) { return v == 0; }));
            std::fill_n(zeros.get(), n, -1);
        }
    }
    EXPECT_TRUE(this->template make<std::string const[]>(3)[2].empty());
    EXPECT_EQ(this->template make<int[][3]>(5)[4][2], 0);
}

TYPED_TEST(made, for_overwrite_is_left_as_the_memory_was) {
    if (!k_blocks_stay_as_they_were) GTEST_SKIP() << "this build writes to new or free blocks";
    using bytes = std::array<unsigned char, 4000>;
    struct lazy {
        lazy() {}  // NOLINT: leaves `of` as it was
        bytes of;
    };
    // Whether a block that was written to and freed is as it was, but for its first words, when it is made again.
    auto const is_left = [](auto make) {
        auto const address = [](auto& p) { return reinterpret_cast<unsigned char*>(p.get()); };
        auto p = make();
        unsigned char* const before = address(p);
        std::memset(before, 0xA5, 4000);
        asm volatile("" : : "r"(before) : "memory");  // the compiler may omit stores before a drop
        p.reset();
        auto const q = make();
        return address(q) == before &&
               std::all_of(before + 64, before + 4000, [](unsigned char c) { return c == 0xA5; });
    };
    EXPECT_TRUE(is_left([this] { return TypeParam::template make_for_overwrite<bytes>(this->pool); }));
    EXPECT_TRUE(is_left([this] { return TypeParam::template try_make_for_overwrite<bytes>(this->pool); }));
    EXPECT_TRUE(is_left(
        [this] { return TypeParam::template make_for_overwrite<unsigned char[]>(this->pool, 4000); }));
    EXPECT_TRUE(is_left(
        [this] { return TypeParam::template try_make_for_overwrite<unsigned char[]>(this->pool, 4000); }));
    EXPECT_TRUE(is_left([this] { return this->template make<lazy>(); }))
        << "only what the constructor writes";
}

TYPED_TEST(made, for_overwrite_is_constructed_if_it_has_a_constructor) {
    test::life_log::scope const scope(this->log);
    using item = test::counted<>;
    auto const one = TypeParam::template make_for_overwrite<item>(this->pool);
    auto const many = TypeParam::template make_for_overwrite<item[]>(this->pool, 10);
    auto const tried = TypeParam::template try_make_for_overwrite<item>(this->pool);
    EXPECT_EQ(this->log.alive(), 12);
    EXPECT_TRUE(TypeParam::template make_for_overwrite<std::string>(this->pool)->empty());
}

TYPED_TEST(made, leaves_the_pool_as_it_was_when_a_constructor_throws) {
    using item = test::counted<>;
    auto const keep = this->template make<int>(1);
    test::life_log::scope const scope(this->log);
    auto const fails = [this](std::int64_t at, auto make) {
        this->log.throw_at(at);
        EXPECT_THROW(static_cast<void>(make()), test::constructor_failed);
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(this->in_use(), 1U);
    };
    for (int i = 0; i < 3; ++i) {
        fails(1, [this] { return this->template make<item>(this->log); });
        fails(1, [this] { return this->template make<test::counted<100'000>>(this->log); });
        fails(1, [this] { return TypeParam::template try_make<item>(this->pool, this->log); });
        fails(1, [this] { return TypeParam::template make_for_overwrite<item>(this->pool); });
        fails(1, [this] { return TypeParam::template make_by_default<item>(this->log); });
        for (std::int64_t const at : {1, 3, 4}) {
            fails(at, [this] { return this->template make<item[]>(4); });
            fails(at, [this] { return this->template make<item[][2]>(2); });
            fails(at, [this] { return TypeParam::template try_make<item[]>(this->pool, 4); });
            fails(at, [this] { return TypeParam::template make_for_overwrite<item[]>(this->pool, 4); });
            fails(at, [this] { return TypeParam::template try_make_for_overwrite<item[]>(this->pool, 4); });
        }
    }
}

struct fourth_fails {
    static inline int made = 0;
    static inline std::vector<int> destroyed;
    fourth_fails() {
        if (number == 3) throw test::constructor_failed();
    }
    fourth_fails(fourth_fails const&) = delete;
    fourth_fails& operator=(fourth_fails const&) = delete;
    ~fourth_fails() { destroyed.push_back(number); }
    int number = made++;
};

template <class Kind>
void destroys_an_unfinished_array(typename Kind::pool& pool) {
    for (bool const overwrites : {false, true}) {
        fourth_fails::made = 0;
        fourth_fails::destroyed.clear();
        if (overwrites)
            EXPECT_THROW(static_cast<void>(Kind::template make_for_overwrite<fourth_fails[]>(pool, 8)),
                         test::constructor_failed);
        else
            EXPECT_THROW(static_cast<void>(Kind::template make<fourth_fails[]>(pool, 8)),
                         test::constructor_failed);
        EXPECT_EQ(fourth_fails::destroyed, (std::vector<int>{2, 1, 0}));
    }
}

TYPED_TEST(made, destroys_an_unfinished_array_from_the_last_element_to_the_first) {
    destroys_an_unfinished_array<TypeParam>(this->pool);
}

TYPED_TEST(made, throws_or_is_empty_when_the_pool_is_exhausted_and_then_has_room_again) {
    using item = test::counted<100>;
    typename TypeParam::pool bounded{{.max_bytes = 64U << 10}};
    std::vector<typename TypeParam::template ptr<item>> all;
    while (auto p = TypeParam::template try_make<item>(bounded, this->log))
        all.push_back(std::move(p));
    ASSERT_GT(all.size(), 100U);
    test::life_log::scope const scope(this->log);
    EXPECT_THROW(static_cast<void>(TypeParam::template make<item>(bounded, this->log)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(TypeParam::template make<item[]>(bounded, 1000)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(TypeParam::template make_for_overwrite<item>(bounded)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(TypeParam::template make_for_overwrite<item[]>(bounded, 1000)),
                 pooled::exhausted);
    EXPECT_FALSE(TypeParam::template try_make<item>(bounded, this->log));
    EXPECT_FALSE(TypeParam::template try_make<item[]>(bounded, 1000));
    EXPECT_FALSE(TypeParam::template try_make_for_overwrite<item>(bounded));
    EXPECT_FALSE(TypeParam::template try_make_for_overwrite<item[]>(bounded, 1000));
    EXPECT_EQ(this->log.constructed(), static_cast<std::int64_t>(all.size()));
    if constexpr (requires { typename decltype(all)::value_type::weak_type; }) {
        typename decltype(all)::value_type::weak_type const observer = all.back();
        all.pop_back();
        EXPECT_FALSE(TypeParam::template try_make<item>(bounded, this->log)) << "the block is observed";
    }
    all.pop_back();
    EXPECT_TRUE(TypeParam::template try_make<item>(bounded, this->log));
    all.pop_back();
    EXPECT_TRUE(TypeParam::template try_make_for_overwrite<item>(bounded));
}

TYPED_TEST(made, is_refused_when_it_would_be_larger_than_the_address_space) {
    for (std::size_t const n : {k_most, k_most / sizeof(int[3]) + 1}) {
        EXPECT_THROW(static_cast<void>(this->template make<int[][3]>(n)), std::bad_array_new_length);
        EXPECT_THROW(static_cast<void>(TypeParam::template make_for_overwrite<int[][3]>(this->pool, n)),
                     std::bad_array_new_length);
        EXPECT_FALSE(TypeParam::template try_make<int[][3]>(this->pool, n));
        EXPECT_FALSE(TypeParam::template try_make_for_overwrite<int[][3]>(this->pool, n));
    }
    for (std::size_t less = 0; less <= 32; ++less)  // with what is in front of the elements
        EXPECT_FALSE(TypeParam::template try_make<char[]>(this->pool, k_most - less)) << less;
}

TYPED_TEST(made, throws_what_the_upstream_throws_or_is_empty) {
    test::counting_upstream books;
    test::failing_upstream upstream(books);
    typename TypeParam::pool p{{.upstream = &upstream}};
    upstream.fail_always(true);
    EXPECT_THROW(static_cast<void>(TypeParam::template make<int>(p, 1)), test::injected_failure);
    EXPECT_FALSE(TypeParam::template try_make<int>(p, 1));
    upstream.fail_always(false);
    EXPECT_EQ(*TypeParam::template make<int>(p, 1), 1);
}

TYPED_TEST(made, does_not_mistake_a_constructors_bad_alloc_for_an_exhausted_pool) {
    struct throws_bad_alloc {
        throws_bad_alloc() { throw std::bad_alloc(); }
    };
    struct throws_exhausted {
        throws_exhausted() { throw pooled::exhausted("another", 1, 2, 3); }
    };
    EXPECT_THROW(static_cast<void>(TypeParam::template try_make<throws_bad_alloc>(this->pool)),
                 std::bad_alloc);
    EXPECT_THROW(static_cast<void>(TypeParam::template try_make<throws_exhausted>(this->pool)),
                 pooled::exhausted);
}

TYPED_TEST(made, may_be_made_by_constructors_and_with_arguments_of_any_pool) {
    struct tree {
        tree(typename TypeParam::pool& from, int depth) {
            if (depth == 0) return;
            left = TypeParam::template make<tree>(from, from, depth - 1);
            right = TypeParam::template try_make<tree>(from, from, depth - 1);
        }
        typename TypeParam::template ptr<tree> left;
        typename TypeParam::template ptr<tree> right;
    };
    using number = typename TypeParam::template ptr<int>;
    struct outer {
        outer(typename TypeParam::pool& from, number n, int)
            : inner(TypeParam::template make<int>(from, 1)), given(std::move(n)) {}
        number inner;
        number given;
    };
    auto const root = this->template make<tree>(this->pool, 8);
    EXPECT_EQ(this->in_use(), 511U);
    typename TypeParam::pool other;
    auto const p = this->template make<outer>(other, TypeParam::template make<int>(other, 1),
                                              *TypeParam::template make<int>(other, 2));
    EXPECT_TRUE(this->pool.owns(p.get()));
    EXPECT_TRUE(other.owns(p->inner.get()) && other.owns(p->given.get()));
}

TYPED_TEST(made, may_have_a_private_key_and_operators_of_its_own) {
    class registered {
        struct key {};

    public:
        [[nodiscard]] static auto make(typename TypeParam::pool& pool) {
            return TypeParam::template make<registered>(pool, key{});
        }
        explicit registered(key) {}
        static void* operator new(std::size_t) { throw std::bad_alloc(); }
        static void operator delete(void*) { ADD_FAILURE() << "the class's operator delete was called"; }
        registered* operator&() { return nullptr; }
        int value = 5;
    };
    EXPECT_EQ(registered::make(this->pool)->value, 5);
}

TYPED_TEST(made, comes_from_the_default_pool_by_the_same_forms) {
    struct alignas(256) wide {
        int value = 1;
    };
    auto const a = TypeParam::template make_by_default<wide>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % 256, 0U);
    EXPECT_EQ(*TypeParam::template make_by_default<std::string const>("text"), "text");
    EXPECT_TRUE(TypeParam::template make_by_default<std::string[]>(3)[2].empty());
    EXPECT_TRUE(TypeParam::template make_for_overwrite_by_default<std::string>()->empty());
    EXPECT_TRUE(TypeParam::template make_for_overwrite_by_default<char[]>(100));
    EXPECT_TRUE(pooled::default_pool().owns(a.get()));
}

TYPED_TEST(made, outlives_its_pool_whose_memory_goes_with_the_last_object_and_observer) {
    test::counting_upstream upstream;
    test::life_log::scope const scope(this->log);
    std::optional<typename TypeParam::pool> short_lived(std::in_place,
                                                        pooled::pool_options{.upstream = &upstream});
    auto one = TypeParam::template make<test::counted<>>(*short_lived);
    auto many = TypeParam::template make<test::counted<>[]>(*short_lived, 100);
    auto large = TypeParam::template make<test::counted<100'000>>(*short_lived);
    short_lived.reset();
    EXPECT_EQ(this->log.alive(), 102);
    EXPECT_TRUE(upstream.contains(one.get()));
    one.reset();
    many.reset();
    EXPECT_GT(upstream.bytes(), 0U);
    if constexpr (requires { typename decltype(large)::weak_type; }) {
        typename decltype(large)::weak_type const observer = large;
        large.reset();
        EXPECT_EQ(observer.lock(), nullptr);
        EXPECT_GT(upstream.bytes(), 0U) << "one is observed";
    }
    large.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(made, is_dropped_on_any_thread) {
    if constexpr (std::same_as<typename TypeParam::pool, pooled::pool>) {
        std::vector<typename TypeParam::template ptr<test::counted<>>> all;
        for (int i = 0; i < 2000; ++i)
            all.push_back(this->template make<test::counted<>>(this->log));
        std::thread([all = std::move(all)]() mutable { all.clear(); }).join();
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(this->in_use(), 0U);
    }
}

template <class Kind>
class made_for_several : public test::makers_test<Kind> {};
TYPED_TEST_SUITE(made_for_several, test::counted_maker_kinds, test::maker_kind_names);

TYPED_TEST(made_for_several, is_destroyed_with_the_last_owner_and_freed_with_the_last_observer) {
    test::life_log::scope const scope(this->log);
    auto p = this->template make<test::counted<>[]>(5);
    typename decltype(p)::weak_type observer = p;
    typename TypeParam::template ptr<void> last = p;
    p.reset();
    EXPECT_EQ(this->log.alive(), 5);
    EXPECT_EQ(observer.lock().get(), last.get());
    last.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(observer.lock(), nullptr);
    EXPECT_EQ(this->in_use(), 1U);
    observer.reset();
    EXPECT_EQ(this->in_use(), 0U);
}

TYPED_TEST(made_for_several, may_be_an_array_with_a_value_or_of_known_bound) {
    using four = typename TypeParam::template ptr<int[4]>;
    static_assert(std::same_as<decltype(this->template make<int[4]>()), four>);
    std::string const text(100, 'x');
    int const row[2] = {1, 2};
    for (int i = 0; i < 100; ++i) {
        auto const zeros = this->template make<int[4]>();
        ASSERT_EQ(zeros[0] + zeros[1] + zeros[2] + zeros[3], 0);
        std::fill_n(zeros.get(), 4, -1);
    }
    EXPECT_TRUE(this->template make<std::string[3]>()[2].empty());
    EXPECT_EQ(this->template make<std::string[]>(3, text)[2], text);
    EXPECT_EQ(this->template make<std::string const[3]>("converted")[2], "converted");
    EXPECT_EQ(TypeParam::template try_make<std::string const[]>(this->pool, 3, text)[2], text);
    EXPECT_EQ(TypeParam::template try_make<std::string const[3]>(this->pool, text)[2], text);
    EXPECT_EQ(this->template make<int[][2]>(3, row)[2][1], 2);
    EXPECT_EQ((this->template make<int[3][2]>(row)[2][1]), 2);
    EXPECT_EQ((TypeParam::template make_by_default<int[]>(3, 7)[2]), 7);
    EXPECT_EQ((TypeParam::template make_by_default<int const[2]>(7)[1]), 7);
    test::life_log::scope const scope(this->log);
    auto const constructed = TypeParam::template try_make_for_overwrite<test::counted<>[3]>(this->pool);
    EXPECT_EQ(this->log.alive(), 3);
    if (k_blocks_stay_as_they_were) {
        auto dirty = this->template make<int[1000]>(7);
        int const* const where = dirty.get();
        dirty.reset();
        auto const again = TypeParam::template make_for_overwrite<int[1000]>(this->pool);
        EXPECT_EQ(again.get(), where);
        EXPECT_EQ(again[999], 7);
    }
}

TYPED_TEST(made_for_several, is_refused_as_an_array_of_known_bound_or_with_a_value) {
    typename TypeParam::pool bounded{{.max_bytes = 256U << 10}};
    using large = char[1 << 20];
    EXPECT_THROW(static_cast<void>(TypeParam::template make<large>(bounded)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(TypeParam::template make_for_overwrite<large>(bounded)),
                 pooled::exhausted);
    EXPECT_EQ(TypeParam::template try_make<char[]>(bounded, 1U << 20, 'x'), nullptr);
    EXPECT_EQ(TypeParam::template try_make<large>(bounded), nullptr);
    EXPECT_EQ(TypeParam::template try_make<large>(bounded, 'x'), nullptr);
    EXPECT_EQ(TypeParam::template try_make_for_overwrite<large>(bounded), nullptr);
    EXPECT_EQ(TypeParam::template try_make<int[]>(bounded, k_most / 2, 1), nullptr) << "no size";
    EXPECT_EQ(bounded.stats().in_use, 0U);
    using item = test::counted<>;
    item const value(this->log);
    for (std::int64_t const at : {1, 3, 4}) {
        this->log.throw_at(at);
        EXPECT_THROW(static_cast<void>(this->template make<item[4]>(value)), test::constructor_failed);
        this->log.throw_at(at);
        EXPECT_THROW(static_cast<void>(TypeParam::template try_make<item[]>(this->pool, 4, value)),
                     test::constructor_failed);
        EXPECT_EQ(this->log.alive(), 1);
        EXPECT_EQ(this->in_use(), 0U);
    }
    this->log.throw_at(0);
}

// Braces have no type to forward.
TYPED_TEST(made_for_several, takes_rows_in_braces_as_std_make_shared) {
    EXPECT_EQ((this->pool.template make_shared<int[2][2]>({1, 2})[1][1]), 2);
    EXPECT_EQ((this->pool.template make_shared<int[][2]>(3, {1, 2})[2][1]), 2);
    EXPECT_EQ((this->pool.template make_rc<int[][2]>(3, {1, 2})[2][1]), 2);
    EXPECT_EQ((this->pool.template try_make_rc<int[3][2]>({1, 2})[2][1]), 2);
    EXPECT_EQ((pooled::make_local_rc<int[][2]>(3, {1, 2})[2][1]), 2);
    EXPECT_EQ((pooled::make_shared<int[][2]>(3, {1, 2})[2][1]), 2);
    EXPECT_EQ((pooled::make_shared<int const[2][2]>({1, 2})[1][1]), 2);
    EXPECT_EQ((pooled::allocate_shared<int[2][2]>(this->pool, {1, 2})[1][0]), 1);
}

TYPED_TEST(made_for_several, may_be_counted_on_one_thread_by_any_pool) {
    static_assert(
        std::same_as<decltype(this->pool.template make_local_rc<int>(1)), pooled::local_rc_ptr<int>>);
    static_assert(
        std::same_as<decltype(this->pool.template make_local_rc<int[]>(1)), pooled::local_rc_ptr<int[]>>);
    static_assert(std::same_as<decltype(pooled::make_local_rc<int>(1)), pooled::local_rc_ptr<int>>);
    EXPECT_EQ(*this->pool.template make_local_rc<int>(2) + *pooled::make_local_rc<int>(3), 5);
    EXPECT_EQ(pooled::make_local_rc<int[3]>(6)[2] + this->pool.template make_local_rc<int[]>(4, 2)[3], 8);
    this->log.throw_at(1);
    EXPECT_THROW(static_cast<void>(this->pool.template make_local_rc<test::counted<>>(this->log)),
                 test::constructor_failed);
}

TEST(allocate_shared, is_chosen_before_that_of_the_standard_library_in_an_unqualified_call) {
    using pooled::allocate_shared;
    using pooled::allocate_shared_for_overwrite;
    pooled::pool pool;
    pooled::local_pool local;
    std::string const text = "an argument whose namespace is std";
    EXPECT_EQ(*allocate_shared<std::string>(pool, text), text);
    EXPECT_TRUE(local.owns(allocate_shared<std::string>(local, text).get()));
    EXPECT_EQ(allocate_shared<std::string[]>(pool, 2, text)[1], text);
    EXPECT_EQ(allocate_shared<std::string[2]>(local, text)[1], text);
    EXPECT_TRUE(pool.owns(allocate_shared<std::string[3]>(pool).get()));
    EXPECT_TRUE(pool.owns(allocate_shared_for_overwrite<std::string>(pool).get()));
    EXPECT_TRUE(local.owns(allocate_shared_for_overwrite<int[]>(local, 4).get()));
    EXPECT_TRUE(pool.owns(allocate_shared_for_overwrite<int[4]>(pool).get()));
    using namespace std;  // NOLINT(google-build-using-namespace): as a user may have it
    EXPECT_TRUE(pool.owns(allocate_shared<int>(pool, 1).get()));
}

TEST(allocate_shared, makes_a_smaller_block_than_with_an_allocator) {
    pooled::pool pool;
    auto const bytes_of = [&](auto make) {
        auto const before = pool.stats().bytes_in_use;
        auto const made = make();
        return pool.stats().bytes_in_use - before;
    };
    using words = std::array<long, 6>;
    EXPECT_LT(bytes_of([&] { return pooled::allocate_shared<words>(pool); }),
              bytes_of([&] { return std::allocate_shared<words>(pooled::pool_allocator<words>(pool)); }));
}

TEST(make_shared, of_rows_takes_the_bytes_of_its_elements_once) {
    pooled::pool pool;
    auto const rows = pool.make_shared<double[][1000]>(100);
    EXPECT_LT(pool.stats().bytes_in_use, 2 * 100 * sizeof(double[1000]));
}

// A length is a parameter of type std::size_t, as with the standard's functions: these bind to no reference.
TEST(make_array, takes_a_bit_field_and_a_packed_member_as_its_length) {
    struct [[gnu::packed]] header {
        std::uint8_t kind;
        std::uint32_t length : 12;
        std::uint16_t count;
    };
    header const from{1, 3, 5};
    EXPECT_NE(pooled::make_shared<int[]>(from.length), nullptr);
    EXPECT_NE(pooled::make_unique<int[]>(from.count), nullptr);
    EXPECT_NE(pooled::make_rc<int[]>(from.count), nullptr);
    EXPECT_NE(pooled::make_local_rc<int[]>(from.length), nullptr);
    pooled::pool pool;
    EXPECT_NE(pool.make_shared<int[]>(from.length), nullptr);
    EXPECT_NE(pool.try_make_unique<int[]>(from.count), nullptr);
    EXPECT_NE(pool.try_make_rc<int[]>(from.length), nullptr);
    EXPECT_NE(pooled::allocate_shared<int[]>(pool, from.length), nullptr);
}

TEST(make_shared, passes_a_volatile_object_on) {
    struct registers {
        int value = 3;
    };
    struct reader {
        explicit reader(registers volatile& from) : value(from.value) {}
        int value;
    };
    registers volatile device;
    pooled::pool pool;
    EXPECT_EQ(pool.make_shared<reader>(device)->value, 3);
    EXPECT_EQ(pooled::make_rc<reader>(device)->value, 3);
}

}  // namespace
