// SPDX-License-Identifier: BSL-1.0
// make_shared in all its forms, from a pool, a local_pool and the default pool.

#include "pooled/detail/make_shared.hpp"

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

template <class Pool>
class make_shared_from : public testing::Test {
protected:
    Pool pool;
    test::life_log log;
    ~make_shared_from() override {
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_EQ(log.alive(), 0);
    }
};
TYPED_TEST_SUITE(make_shared_from, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(make_shared_from, a_pool_is_a_plain_shared_ptr_in_one_block) {
    auto const p = this->pool.template make_shared<std::string>("text");
    static_assert(std::is_same_v<decltype(p), std::shared_ptr<std::string> const>);
    EXPECT_EQ(*p, "text");
    EXPECT_EQ(this->pool.stats().in_use, 1U);
    EXPECT_TRUE(this->pool.owns(p.get()));
}

TYPED_TEST(make_shared_from, a_pool_forwards_its_arguments) {
    struct taker {
        taker(std::unique_ptr<int> p, int& r, std::string const& s)
            : moved(std::move(p)), referred(r), copied(s) {}
        std::unique_ptr<int> moved;
        int& referred;
        std::string copied;
    };
    int i = 0;
    auto const p = this->pool.template make_shared<taker>(std::make_unique<int>(7), i, "text");
    p->referred = 5;
    EXPECT_EQ(*p->moved + i, 12);
}

TYPED_TEST(make_shared_from, a_pool_makes_aggregates_and_const_objects) {
    struct point {
        int x;
        int y;
    };
    struct no_defaults {
        explicit no_defaults(int v) : value(v) {}
        int value;
    };
    auto const a = this->pool.template make_shared<point>(point{1, 2});
    auto const b = this->pool.template make_shared<int const>(3);
    auto const c = this->pool.template make_shared<no_defaults const>(4);
    static_assert(std::is_same_v<decltype(b), std::shared_ptr<int const> const>);
    EXPECT_EQ(a->x + a->y + *b + c->value, 10);
}

TYPED_TEST(make_shared_from, a_pool_value_initialises) {
    for (int i = 0; i < 100; ++i) {
        auto const dirty = this->pool.template make_shared<std::uint64_t>(~std::uint64_t{0});
    }
    for (int i = 0; i < 100; ++i)
        ASSERT_EQ(*this->pool.template make_shared<std::uint64_t>(), 0U);
}

template <std::size_t Align>
struct alignas(Align) aligned_to {
    char c = 'x';
};

template <std::size_t Align, class Pool>
void expect_aligned(Pool& pool) {
    auto const one = pool.template make_shared<aligned_to<Align>>();
    auto const many = pool.template make_shared<aligned_to<Align>[]>(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.get()) % Align, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(many.get()) % Align, 0U) << "array";
    EXPECT_EQ(one->c, 'x');
    EXPECT_EQ(many[2].c, 'x');
}

TYPED_TEST(make_shared_from, a_pool_aligns_over_aligned_types) {
    expect_aligned<32>(this->pool);
    expect_aligned<64>(this->pool);
    expect_aligned<512>(this->pool);
    expect_aligned<4096>(this->pool);
    expect_aligned<8192>(this->pool);
    expect_aligned<65536>(this->pool);
}

TYPED_TEST(make_shared_from, a_pool_makes_objects_of_every_size) {
    auto const a = this->pool.template make_shared<test::counted<1>>(this->log);
    auto const b = this->pool.template make_shared<test::counted<1500>>(this->log);
    auto const c = this->pool.template make_shared<test::counted<32'700>>(this->log);
    auto const d = this->pool.template make_shared<test::counted<40'000>>(this->log);
    auto const e = this->pool.template make_shared<test::counted<3'000'000>>(this->log);
    EXPECT_EQ(this->log.alive(), 5);
    EXPECT_EQ(this->pool.stats().in_use, 5U);
}

TYPED_TEST(make_shared_from, a_pool_makes_arrays_of_any_length) {
    test::life_log::scope const scope(this->log);
    for (std::size_t const n : {0UL, 1UL, 2UL, 100UL, 10'000UL}) {
        auto const objects = this->pool.template make_shared<test::counted<>[]>(n);
        auto const zeros = this->pool.template make_shared<int[]>(n);
        auto const sevens = this->pool.template make_shared<int[]>(n, 7);
        EXPECT_EQ(this->log.alive(), static_cast<std::int64_t>(n));
        for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(zeros[static_cast<std::ptrdiff_t>(i)], 0);
            ASSERT_EQ(sevens[static_cast<std::ptrdiff_t>(i)], 7);
        }
    }
}

TYPED_TEST(make_shared_from, a_pool_makes_arrays_of_arrays) {
    auto const p = this->pool.template make_shared<int[][3]>(5);
    p[4][2] = 1;
    EXPECT_EQ(p[0][0] + p[4][2], 1);
}

TYPED_TEST(make_shared_from, a_pool_for_overwrite_leaves_memory_as_it_was) {
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    // The same size and alignment as a shared array of so many bytes: the block is reused.
    constexpr std::size_t size = 4000;
    void* last = nullptr;
    {
        auto const dirty = this->pool.template make_shared_for_overwrite<unsigned char[]>(size);
        test::fill_pattern(dirty.get(), size, 1);
        last = dirty.get();
    }
    auto const again = this->pool.template make_shared_for_overwrite<unsigned char[]>(size);
    ASSERT_EQ(again.get(), last) << "the warm block goes out first";
    // While it was free, only its first words may have been written.
    std::size_t intact = 0;
    for (std::size_t i = 0; i < size; ++i)
        intact += again[static_cast<std::ptrdiff_t>(i)] == static_cast<unsigned char>(31 + i * 7 + (i >> 8))
                      ? 1U
                      : 0U;
    EXPECT_GE(intact, size - 64);
}

TYPED_TEST(make_shared_from, a_pool_for_overwrite_constructs_what_has_a_constructor) {
    test::life_log::scope const scope(this->log);
    auto const one = this->pool.template make_shared_for_overwrite<test::counted<>>();
    auto const many = this->pool.template make_shared_for_overwrite<test::counted<>[]>(10);
    auto const text = this->pool.template make_shared_for_overwrite<std::string>();
    EXPECT_EQ(this->log.alive(), 11);
    EXPECT_TRUE(text->empty());
}

TYPED_TEST(make_shared_from, a_pool_writes_nothing_but_what_the_constructor_writes) {
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    struct lazy {
        lazy() {}  // NOLINT: leaves `bytes` as they were
        unsigned char bytes[1000];
    };
    unsigned char* where = nullptr;
    {
        auto const p = this->pool.template make_shared<lazy>();
        std::memset(p->bytes, 0x77, sizeof(p->bytes));
        where = p->bytes;
    }
    auto const p = this->pool.template make_shared<lazy>();
    ASSERT_EQ(p->bytes, where);
    EXPECT_EQ(p->bytes[100], 0x77);
    EXPECT_EQ(p->bytes[999], 0x77);
}

TYPED_TEST(make_shared_from, a_pool_supports_enable_shared_from_this) {
    struct self : std::enable_shared_from_this<self> {
        int value = 3;
    };
    auto p = this->pool.template make_shared<self>();
    auto q = p->shared_from_this();
    EXPECT_EQ(p.use_count(), 2);
    p.reset();
    EXPECT_EQ(q->value, 3);
    std::weak_ptr<self> const weak = q->weak_from_this();
    q.reset();
    EXPECT_TRUE(weak.expired());
    EXPECT_EQ(this->pool.stats().in_use, 1U) << "the block waits for the weak_ptr";
}

TYPED_TEST(make_shared_from, a_pool_destroys_with_the_last_owner_and_frees_with_the_last_observer) {
    auto p = this->pool.template make_shared<test::counted<>>(this->log);
    std::weak_ptr<test::counted<>> weak = p;
    p.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(this->pool.stats().in_use, 1U);
    weak.reset();
    EXPECT_EQ(this->pool.stats().in_use, 0U);
}

TYPED_TEST(make_shared_from, a_pool_converts_and_aliases_like_any_shared_ptr) {
    struct base {
        int b = 1;
    };
    struct derived : base {
        explicit derived(test::life_log& log) : life(log) {}
        test::counted<> life;
    };
    std::shared_ptr<base> up = this->pool.template make_shared<derived>(this->log);
    std::shared_ptr<void const> erased = up;
    std::shared_ptr<int> const member(up, &up->b);
    up.reset();
    erased.reset();
    EXPECT_EQ(*member, 1);
    EXPECT_EQ(this->log.alive(), 1);
}

TYPED_TEST(make_shared_from, a_pool_may_be_called_by_a_constructor_of_the_same_pool) {
    struct tree {
        tree(TypeParam& from, int depth) {
            if (depth == 0) return;
            left = from.template make_shared<tree>(from, depth - 1);
            right = from.template try_make_shared<tree>(from, depth - 1);
        }
        std::shared_ptr<tree> left;
        std::shared_ptr<tree> right;
    };
    auto const root = this->pool.template make_shared<tree>(this->pool, 8);
    EXPECT_EQ(this->pool.stats().in_use, 511U);
}

TYPED_TEST(make_shared_from, a_pool_may_be_called_by_a_constructor_of_another_pool) {
    TypeParam other;
    struct outer {
        explicit outer(TypeParam& from) : inner(from.template make_shared<int>(1)) {}
        std::shared_ptr<int> inner;
    };
    auto const p = this->pool.template make_shared<outer>(other);
    EXPECT_TRUE(this->pool.owns(p.get()));
    EXPECT_TRUE(other.owns(p->inner.get()));
    EXPECT_EQ(other.stats().in_use, 1U);
}

TYPED_TEST(make_shared_from, a_pool_is_not_confused_by_an_argument_that_uses_another_one) {
    TypeParam other;
    auto const p = this->pool.template make_shared<std::pair<std::shared_ptr<int>, int>>(
        other.template make_shared<int>(1), *other.template make_unique<int>(2));
    EXPECT_TRUE(this->pool.owns(p.get()));
    EXPECT_TRUE(other.owns(p->first.get()));
}

TEST(make_shared_from_pool, takes_objects_back_from_any_thread) {
    pooled::pool pool;
    std::vector<std::shared_ptr<std::string>> all;
    for (int i = 0; i < 2000; ++i)
        all.push_back(pool.make_shared<std::string>(100, 'x'));
    std::thread([all = std::move(all)]() mutable { all.clear(); }).join();
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST(make_shared, does_the_same_from_the_default_pool) {
    struct alignas(256) wide {
        int value = 1;
    };
    auto const a = pooled::make_shared<wide>();
    auto const b = pooled::make_shared<std::string const>("text");
    auto const c = pooled::make_shared<std::string[]>(3, "text");
    auto const d = pooled::make_shared<std::string[]>(3);
    auto const e = pooled::make_shared_for_overwrite<int[]>(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % 256, 0U);
    EXPECT_EQ(*b, c[2]);
    EXPECT_TRUE(d[2].empty());
    EXPECT_NE(e, nullptr);
}

}  // namespace

namespace {

TEST(make_shared_of_an_array, may_have_const_elements) {
    pooled::pool pool;
    auto const zeroes = pooled::make_shared<int const[]>(4);
    auto const sevens = pool.make_shared<int const[]>(4, 7);
    auto const empties = pool.try_make_shared<std::string const[]>(3);
    auto const unique = pool.make_unique<int const[]>(3);
    static_assert(std::is_same_v<decltype(zeroes), std::shared_ptr<int const[]> const>);
    EXPECT_EQ(zeroes[3], 0);
    EXPECT_EQ(sevens[3], 7);
    EXPECT_EQ(empties[2], "");
    EXPECT_EQ(unique[2], 0);
}

TYPED_TEST(make_shared_from, a_pool_makes_arrays_of_known_bound_as_the_standard_library_does) {
    TypeParam& from = this->pool;
    static_assert(
        std::is_same_v<decltype(from.template make_shared<int const[3]>()), std::shared_ptr<int const[3]>>);
    for (int i = 0; i < 100; ++i) {
        auto const zeros = from.template make_shared<int[3]>();
        ASSERT_EQ(zeros[0] + zeros[1] + zeros[2], 0);
        zeros[0] = zeros[1] = zeros[2] = -1;
    }
    EXPECT_EQ(from.template make_shared<std::string const[3]>("text")[2], "text");
    EXPECT_EQ((from.template make_shared<int[2][2]>({1, 2})[1][1]), 2);
    EXPECT_EQ((from.template make_shared<int[][2]>(3, {1, 2})[2][1]), 2);
    EXPECT_EQ((pooled::make_shared<int[][2]>(3, {1, 2})[2][1]), 2);
    EXPECT_EQ((pooled::make_shared<int const[2][2]>({1, 2})[1][1]), 2);
    EXPECT_TRUE(pooled::make_shared<std::string[3]>()[2].empty());
    EXPECT_EQ((pooled::allocate_shared<int[2][2]>(from, {1, 2})[1][0]), 1);
    EXPECT_TRUE(from.owns(pooled::allocate_shared<std::string[3]>(from).get()));
}

TYPED_TEST(make_shared_from, a_pool_tries_to_make_arrays) {
    TypeParam bounded{{.max_bytes = 256U << 10}};
    EXPECT_EQ(bounded.template try_make_shared<std::string[]>(3, "text")[2], "text");
    EXPECT_EQ(bounded.template try_make_shared<std::string const[3]>("text")[2], "text");
    EXPECT_TRUE(bounded.template try_make_shared<std::string[3]>()[2].empty());
    EXPECT_NE(bounded.template try_make_shared_for_overwrite<int[3]>(), nullptr);
    using large = char[1 << 20];
    EXPECT_EQ(bounded.template try_make_shared<char[]>(1U << 20, 'x'), nullptr);
    EXPECT_EQ(bounded.template try_make_shared<large>(), nullptr);
    EXPECT_EQ(bounded.template try_make_shared<large>('x'), nullptr);
    EXPECT_EQ(bounded.template try_make_shared_for_overwrite<large>(), nullptr);
    EXPECT_EQ(bounded.template try_make_shared<int[]>(~std::size_t{0} / 2, 1), nullptr) << "no size";
    EXPECT_EQ(bounded.template try_make_shared_for_overwrite<int[]>(~std::size_t{0} / 2), nullptr)
        << "no size";
    EXPECT_THROW(static_cast<void>(bounded.template make_shared<large>()), pooled::exhausted);
    EXPECT_EQ(bounded.stats().in_use, 0U);
}

TYPED_TEST(make_shared_from, a_pool_default_initialises_arrays_for_overwrite) {
    test::life_log::scope const scope(this->log);
    auto const constructed = this->pool.template make_shared_for_overwrite<test::counted<>[3]>();
    EXPECT_EQ(this->log.alive(), 3);
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    int const* where = nullptr;
    {
        auto const dirty = this->pool.template make_shared<int[1000]>(7);
        where = dirty.get();
    }
    auto const again = this->pool.template make_shared_for_overwrite<int[1000]>();
    ASSERT_EQ(again.get(), where) << "the block freed last is allocated first";
    EXPECT_EQ(again[999], 7);
}

TYPED_TEST(make_shared_from, a_pool_whose_elements_throw_is_as_before) {
    test::life_log::scope const scope(this->log);
    using element = test::counted<>;
    for (int i = 0; i < 3; ++i) {
        this->log.throw_at(3);
        EXPECT_THROW(static_cast<void>(this->pool.template make_shared<element[4]>()),
                     test::constructor_failed);
        this->log.throw_at(3);
        EXPECT_THROW(static_cast<void>(this->pool.template try_make_shared<element[4]>()),
                     test::constructor_failed);
        this->log.throw_at(3);
        EXPECT_THROW(static_cast<void>(this->pool.template try_make_shared_for_overwrite<element[4]>()),
                     test::constructor_failed);
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(this->pool.stats().in_use, 0U);
    }
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
    EXPECT_TRUE(pool.owns(allocate_shared_for_overwrite<std::string>(pool).get()));
    using namespace std;  // NOLINT(google-build-using-namespace): as a user may have it
    EXPECT_TRUE(pool.owns(allocate_shared<int>(pool, 1).get()));
}

TEST(allocate_shared, makes_what_the_pool_makes_in_a_smaller_block_than_with_an_allocator) {
    pooled::pool pool;
    pooled::local_pool local;
    auto const p = pooled::allocate_shared<std::string>(pool, 3, 'x');
    EXPECT_EQ(*p, "xxx");
    EXPECT_TRUE(pool.owns(p.get()));
    EXPECT_TRUE(local.owns(pooled::allocate_shared<int[]>(local, 4, 7).get()));
    EXPECT_TRUE(pooled::allocate_shared_for_overwrite<std::string>(pool)->empty());
    EXPECT_TRUE(local.owns(pooled::allocate_shared_for_overwrite<int[]>(local, 4).get()));
    EXPECT_TRUE(pool.owns(pooled::allocate_shared_for_overwrite<int[4]>(pool).get()));

    auto const bytes_of = [&](auto make) {
        auto const before = pool.stats().bytes_in_use;
        auto const made = make();
        return pool.stats().bytes_in_use - before;
    };
    using words = std::array<long, 6>;
    EXPECT_LT(bytes_of([&] { return pooled::allocate_shared<words>(pool); }),
              bytes_of([&] { return std::allocate_shared<words>(pooled::pool_allocator<words>(pool)); }));
}

TEST(reserve_of_a_type, covers_each_form_of_make) {
    struct object {
        std::byte bytes[48];
    };
    auto const shapes = pooled::detail::reserve_shapes<object>();
    EXPECT_GT(shapes[0].bytes, sizeof(object));
    EXPECT_EQ(shapes[1].bytes, sizeof(object) + 8);
}

}  // namespace
