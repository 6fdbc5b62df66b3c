// SPDX-License-Identifier: BSL-1.0
// Objects with a tail: what the block contains, in which order it is made and destroyed, and what is left when that fails; for each
// handle and each kind of pool.

#include "pooled/pooled.hpp"
#include "pooled/tail.hpp"

#include "support/makers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

struct header {
    explicit header(int n = -1, std::string text = "none") : number(n), name(std::move(text)) {}
    int number;
    std::string name;
};

struct plain_header {
    std::uint64_t time;
    std::uint32_t length;
};

template <class Kind>
class an_object_with_a_tail : public test::makers_test<Kind> {};
TYPED_TEST_SUITE(an_object_with_a_tail, test::maker_kinds, test::maker_kind_names);

TYPED_TEST(an_object_with_a_tail, is_made_of_arguments_and_value_initialised_elements) {
    for (std::size_t const n : {0U, 1U, 10U, 1000U, 100'000U}) {
        for (int i = 0; i < 20; ++i) {
            auto const p = TypeParam::template make_with_tail<header, int>(this->pool, n, 7, "text");
            ASSERT_EQ(p->number, 7);
            ASSERT_EQ(p->name, "text");
            std::span<int> const rest = tail(p);
            ASSERT_EQ(rest.size(), n);
            ASSERT_TRUE(std::all_of(rest.begin(), rest.end(), [](int v) { return v == 0; }));
            std::fill(rest.begin(), rest.end(), -1);
        }
    }
    auto const texts = TypeParam::template make_with_tail<header, std::string>(this->pool, 3);
    EXPECT_EQ(texts->number, -1);
    EXPECT_TRUE(tail(texts)[2].empty());
    tail(texts)[2] = std::string(100, 'x');
}

TYPED_TEST(an_object_with_a_tail, takes_one_block_whose_size_follows_the_length) {
    auto const p = TypeParam::template make_with_tail<plain_header, std::byte>(this->pool, 64);
    EXPECT_EQ(this->pool.stats().in_use, 1U);
    // On RISC-V, libstdc++'s control block has a mutex.
    constexpr std::size_t k_most = 96 + pooled::detail::standard_control_block::k_bytes_with_deleter;
    EXPECT_LE(this->pool.stats().bytes_in_use, k_most);
    auto const q = TypeParam::template make_with_tail<plain_header, std::byte>(this->pool, 1500);
    EXPECT_EQ(this->pool.stats().in_use, 2U);
    EXPECT_LE(this->pool.stats().bytes_in_use, k_most + 1792U);
    std::memset(tail(p).data(), 1, tail(p).size());
    std::memset(tail(q).data(), 2, tail(q).size());
    EXPECT_EQ(tail(p)[63], std::byte{1});
}

TYPED_TEST(an_object_with_a_tail, aligns_its_elements) {
    struct alignas(64) line {
        unsigned char bytes[64];
    };
    struct alignas(8192) page {
        unsigned char bytes[8192];
    };
    for (std::size_t const n : {0U, 1U, 3U}) {
        auto const p = TypeParam::template make_with_tail<plain_header, line>(this->pool, n);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tail(p).data()) % 64, 0U);
        auto const q = TypeParam::template make_with_tail<header, page>(this->pool, n);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tail(q).data()) % 8192, 0U);
        auto const r = TypeParam::template make_with_tail<line, char>(this->pool, n);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(r.get()) % 64, 0U);
    }
}

struct recorded {
    static inline std::vector<int> destroyed;
    static inline int made = 0;
    static inline int failing = -1;

    recorded() {
        if (number == failing) throw test::constructor_failed();
    }
    recorded(recorded const&) = delete;
    recorded& operator=(recorded const&) = delete;
    ~recorded() { destroyed.push_back(number); }

    int number = made++;
};

// The header is number 0, the elements are 1, 2, …
template <class Kind>
class the_parts_of_an_object_with_a_tail : public an_object_with_a_tail<Kind> {
protected:
    the_parts_of_an_object_with_a_tail() { restart(-1); }
    void restart(int failing) {
        recorded::made = 0;
        recorded::failing = failing;
        recorded::destroyed.clear();
    }
};
TYPED_TEST_SUITE(the_parts_of_an_object_with_a_tail, test::maker_kinds, test::maker_kind_names);

TYPED_TEST(the_parts_of_an_object_with_a_tail, are_destroyed_in_reverse_order) {
    auto p = TypeParam::template make_with_tail<recorded, recorded>(this->pool, 3);
    EXPECT_EQ(p->number, 0);
    EXPECT_EQ(tail(p)[2].number, 3);
    p.reset();
    EXPECT_EQ(recorded::destroyed, (std::vector<int>{3, 2, 1, 0}));
    EXPECT_EQ(this->pool.stats().in_use, 0U);
}

TYPED_TEST(the_parts_of_an_object_with_a_tail, are_destroyed_in_reverse_order_when_a_constructor_throws) {
    auto const expect_failure_at = [this](int n, auto&& make) {
        this->restart(n);
        EXPECT_THROW(static_cast<void>(make()), test::constructor_failed);
        std::vector<int> expected;
        for (int i = n; i-- != 0;)
            expected.push_back(i);
        EXPECT_EQ(recorded::destroyed, expected) << n;
        EXPECT_EQ(this->pool.stats().in_use, 0U);
    };
    for (int n = 0; n <= 4; ++n) {
        expect_failure_at(
            n, [&] { return TypeParam::template make_with_tail<recorded, recorded>(this->pool, 4); });
        expect_failure_at(
            n, [&] { return TypeParam::template try_make_with_tail<recorded, recorded>(this->pool, 4); });
        expect_failure_at(n, [&] {
            return TypeParam::template make_with_tail_for_overwrite<recorded, recorded>(this->pool, 4);
        });
        expect_failure_at(n, [&] {
            return TypeParam::template try_make_with_tail_for_overwrite<recorded, recorded>(this->pool, 4);
        });
        expect_failure_at(
            n, [&] { return TypeParam::template make_with_tail_by_default<recorded, recorded>(4); });
    }
}

TYPED_TEST(an_object_with_a_tail, throws_when_the_pool_is_exhausted_or_the_length_is_no_size) {
    typename TypeParam::pool bounded{{.max_bytes = 64U << 10}};
    EXPECT_THROW(static_cast<void>(TypeParam::template make_with_tail<header, int>(bounded, 1U << 20)),
                 pooled::exhausted);
    EXPECT_THROW(
        static_cast<void>(TypeParam::template make_with_tail_for_overwrite<header, int>(bounded, 1U << 20)),
        pooled::exhausted);
    EXPECT_EQ((TypeParam::template try_make_with_tail<header, int>(bounded, 1U << 20)), nullptr);
    EXPECT_EQ((TypeParam::template try_make_with_tail_for_overwrite<plain_header, int>(bounded, 1U << 20)),
              nullptr);
    EXPECT_NE((TypeParam::template try_make_with_tail<header, int>(bounded, 10)), nullptr);
    constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();
    for (std::size_t const n : {k_most, k_most / sizeof(int) + 1, k_most / sizeof(int)}) {
        EXPECT_THROW(static_cast<void>(TypeParam::template make_with_tail<header, int>(this->pool, n)),
                     std::bad_array_new_length);
        EXPECT_THROW(static_cast<void>(TypeParam::template make_with_tail_by_default<header, int>(n)),
                     std::bad_array_new_length);
        EXPECT_EQ((TypeParam::template try_make_with_tail<header, int>(this->pool, n)), nullptr);
    }
    for (std::size_t less = 0; less <= 128; ++less)  // with what is in front of the elements
        EXPECT_EQ((TypeParam::template try_make_with_tail<plain_header, char>(this->pool, k_most - less)),
                  nullptr)
            << less;
}

TYPED_TEST(an_object_with_a_tail, refuses_by_an_empty_pointer_only_what_the_pool_refuses) {
    struct without_memory {
        without_memory() { throw std::bad_alloc(); }
    };
    EXPECT_THROW(
        static_cast<void>(TypeParam::template try_make_with_tail<without_memory, int>(this->pool, 1)),
        std::bad_alloc);
    EXPECT_THROW(
        static_cast<void>(TypeParam::template try_make_with_tail<header, without_memory>(this->pool, 1)),
        std::bad_alloc);
}

TYPED_TEST(an_object_with_a_tail, may_be_const_as_a_whole_or_in_its_elements) {
    auto const whole = TypeParam::template make_with_tail<header const, int>(this->pool, 2, 1);
    static_assert(std::same_as<decltype(tail(whole)), std::span<int const>>);
    static_assert(std::is_const_v<std::remove_reference_t<decltype(*whole)>>);
    auto const elements = TypeParam::template make_with_tail<header, std::string const>(this->pool, 2, 1);
    static_assert(std::same_as<decltype(tail(elements)), std::span<std::string const>>);
    static_assert(std::same_as<decltype(tail(*elements)), std::span<std::string const>>);
    elements->number = 2;
    EXPECT_EQ(tail(whole).size() + tail(elements).size(), 4U);
    EXPECT_EQ(pooled::tail(*whole).data(), pooled::tail(whole).data());
}

TYPED_TEST(an_object_with_a_tail, for_overwrite_writes_neither_trivial_elements_nor_a_trivial_object) {
    if (POOLED_CHECKED != 0 || POOLED_SANITIZE != 0)
        GTEST_SKIP() << "this build writes to new or free blocks";
    constexpr std::size_t k_count = 4000;
    void const* before = nullptr;
    {
        auto const p = TypeParam::template make_with_tail_for_overwrite<plain_header, unsigned char>(
            this->pool, k_count);
        p->length = 0xA5A5A5A5U;
        std::memset(tail(p).data(), 0xA5, k_count);
        before = p.get();
        asm volatile("" : : "r"(before) : "memory");  // the compiler may omit stores before a drop
    }
    auto const p = TypeParam::template try_make_with_tail_for_overwrite<plain_header, unsigned char>(
        this->pool, k_count);
    EXPECT_EQ(p.get(), before);
    EXPECT_EQ(p->length, 0xA5A5A5A5U);
    EXPECT_TRUE(std::all_of(tail(p).begin(), tail(p).end(), [](unsigned char c) { return c == 0xA5; }));
    auto const q = TypeParam::template make_with_tail_for_overwrite<header, std::string>(this->pool, 3, 7);
    EXPECT_EQ(q->number, 7);
    EXPECT_TRUE(tail(q)[2].empty());
}

TYPED_TEST(an_object_with_a_tail, has_an_empty_tail_if_there_is_no_object) {
    auto p = TypeParam::template make_with_tail<header, int>(this->pool, 3);
    p = nullptr;
    EXPECT_TRUE(tail(p).empty());
}

TYPED_TEST(an_object_with_a_tail, comes_from_the_default_pool_too) {
    auto p = TypeParam::template make_with_tail_by_default<header, std::string>(3, 5);
    tail(p)[1] = std::string(50, 'y');
    EXPECT_EQ(p->number, 5);
    std::thread([p = std::move(p)]() mutable { p = nullptr; }).join();
}

TYPED_TEST(an_object_with_a_tail, is_torn_down_in_every_mode) {
    struct node {
        explicit node(test::life_log& log, std::shared_ptr<void> rest) : life(log), next(std::move(rest)) {}
        test::counted<> life;
        std::shared_ptr<void> next;
    };
    for (auto const mode :
         {pooled::teardown::immediate, pooled::teardown::unordered, pooled::teardown::incremental}) {
        typename TypeParam::pool deferring{{.teardown = mode}};
        test::life_log::scope const scope(this->log);
        constexpr int k_length = 20'000;
        std::shared_ptr<void> first;
        for (int i = 0; i < k_length; ++i) {
            auto p = TypeParam::template make_with_tail<node, test::counted<>>(
                deferring, static_cast<std::size_t>(i % 5), this->log, std::move(first));
            if constexpr (std::constructible_from<std::shared_ptr<void>, decltype(p)>)
                first = std::move(p);
            else  // a unique_ptr becomes a shared_ptr above; an rc_ptr here
                first = pooled::to_shared(std::move(p));
        }
        EXPECT_EQ(this->log.alive(), k_length * 3);
        {
            pooled::reclaim_scope const reclaim;
            first.reset();
        }
        while (deferring.drain() != 0) {}
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_EQ(deferring.stats().in_use, 0U);
    }
}

template <class Kind>
class a_counted_object_with_a_tail : public an_object_with_a_tail<Kind> {};
TYPED_TEST_SUITE(a_counted_object_with_a_tail, test::counted_maker_kinds, test::maker_kind_names);

TYPED_TEST(a_counted_object_with_a_tail, is_observed_and_its_block_kept_by_weak_pointers) {
    for (auto const mode :
         {pooled::teardown::immediate, pooled::teardown::unordered, pooled::teardown::incremental}) {
        typename TypeParam::pool observed{{.teardown = mode}};
        test::life_log::scope const scope(this->log);
        auto p = TypeParam::template make_with_tail<test::counted<>, test::counted<>>(observed, 3, this->log);
        EXPECT_EQ(this->log.alive(), 4);
        typename decltype(p)::weak_type observer = p;
        EXPECT_EQ(tail(observer.lock()).data(), tail(p).data());
        auto const q = p;
        p.reset();
        EXPECT_EQ(this->log.alive(), 4);
        const_cast<std::remove_const_t<decltype(q)>&>(q).reset();
        observed.drain();
        EXPECT_EQ(this->log.alive(), 0);
        EXPECT_TRUE(observer.expired());
        EXPECT_EQ(observed.stats().in_use, 1U);
        observer.reset();
        EXPECT_EQ(observed.stats().in_use, 0U);
    }
}

TEST(object_with_a_tail, is_seen_as_its_class_by_every_pointer) {
    struct self_shared : header, std::enable_shared_from_this<self_shared> {};
    struct self_counted : header, pooled::enable_rc_from_this<self_counted> {};
    std::shared_ptr<header> const shared = pooled::make_shared_with_tail<self_shared, int>(3);
    EXPECT_EQ(shared->number, -1);
    auto const again = static_cast<self_shared&>(*shared).shared_from_this();
    EXPECT_EQ(again.use_count(), 2);
    EXPECT_EQ(tail(std::static_pointer_cast<pooled::with_tail<self_shared, int>>(again)).size(), 3U);
    pooled::rc_ptr<self_counted> const counted = pooled::make_rc_with_tail<self_counted, int>(3);
    EXPECT_EQ(counted->rc_from_this().use_count(), 2);

    struct polymorphic {
        virtual ~polymorphic() = default;
    };
    pooled::unique_ptr<polymorphic> unique = pooled::make_unique_with_tail<polymorphic, std::string>(3);
    pooled::rc_ptr<polymorphic> const taken = std::move(unique);
    EXPECT_EQ(taken.use_count(), 1);
}

struct guard {};

struct of_common_names {
    int first = 1;
    int count = 2;
    int all = 3;
    int m_count = 4;
};

TEST(object_with_a_tail, may_have_members_of_any_name) {
    auto const p = pooled::make_shared_with_tail<of_common_names, double>(5);
    EXPECT_EQ(p->first + p->count + p->all + p->m_count, 10);
    EXPECT_EQ(pooled::tail(p).size(), 5U);
}

TEST(object_with_a_tail, is_trivially_destroyed_if_both_parts_are) {
    static_assert(std::is_trivially_destructible_v<pooled::with_tail<plain_header, int>>);
    static_assert(!std::is_trivially_destructible_v<pooled::with_tail<plain_header, std::string>>);
    static_assert(!std::is_trivially_destructible_v<pooled::with_tail<header, int>>);
    static_assert(!std::is_copy_constructible_v<pooled::with_tail<header, int>>);
}

}  // namespace

template <>
inline constexpr bool pooled::destroy_in_place<guard> = true;

namespace {

TEST(object_with_a_tail, is_destroyed_in_place_if_a_part_of_it_must_be) {
    static_assert(pooled::destroy_in_place<pooled::with_tail<guard, int>>);
    static_assert(pooled::destroy_in_place<pooled::with_tail<plain_header, guard const>>);
    static_assert(!pooled::destroy_in_place<pooled::with_tail<plain_header, int>>);
}

}  // namespace
