// SPDX-License-Identifier: BSL-1.0
// Arrays of make_rc: what they contain, which pointers hold them, and what is left when one cannot be constructed.

#include "pooled/detail/make_elements.hpp"

#include "pooled/pooled.hpp"

#include "support/handle_kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

template <class Kind>
class make_rc_of_an_array : public test::handles_test<Kind> {
protected:
    test::life_log log;
    ~make_rc_of_an_array() override { EXPECT_EQ(log.alive(), 0); }
};
TYPED_TEST_SUITE(make_rc_of_an_array, test::handle_kinds, test::handle_kind_names);

TYPED_TEST(make_rc_of_an_array, value_initialises_its_elements) {
    for (int i = 0; i < 100; ++i) {
        auto const many = this->pool.template make_rc<int[]>(10);
        auto const four = this->pool.template make_rc<int[4]>();
        ASSERT_TRUE(std::all_of(many.get(), many.get() + 10, [](int n) { return n == 0; }));
        ASSERT_TRUE(std::all_of(four.get(), four.get() + 4, [](int n) { return n == 0; }));
        std::fill_n(many.get(), 10, -1);
        std::fill_n(four.get(), 4, -1);
    }
    EXPECT_TRUE(this->pool.template make_rc<std::string[]>(3)[2].empty());
}

TYPED_TEST(make_rc_of_an_array, copies_a_value_to_each_element) {
    std::string const text(100, 'x');
    EXPECT_EQ(this->pool.template make_rc<std::string[]>(3, text)[2], text);
    EXPECT_EQ(this->pool.template make_rc<std::string const[2]>("converted")[1], "converted");
    int const row[2] = {1, 2};
    auto const rows = this->pool.template make_rc<int[][2]>(3, row);
    EXPECT_EQ(rows[2][0] * 10 + rows[2][1], 12);
    EXPECT_EQ((this->pool.template make_rc<int[3][2]>(row)[2][1]), 2);
    EXPECT_EQ((this->pool.template make_rc<int[][2]>(3, {1, 2})[2][1]), 2) << "as std::make_shared";
    EXPECT_EQ((this->pool.template try_make_rc<int[3][2]>({1, 2})[2][1]), 2);
    EXPECT_EQ((pooled::make_local_rc<int[][2]>(3, {1, 2})[2][1]), 2);
}

TYPED_TEST(make_rc_of_an_array, gives_the_pointer_of_its_type) {
    using four = typename TypeParam::template ptr<int[4]>;
    using many = typename TypeParam::template ptr<int[]>;
    static_assert(std::same_as<decltype(this->pool.template make_rc<int[4]>()), four>);
    static_assert(std::same_as<decltype(this->pool.template try_make_rc<int[]>(1)), many>);
    static_assert(
        std::same_as<decltype(this->pool.template make_local_rc<int[]>(1)), pooled::local_rc_ptr<int[]>>);
    static_assert(std::same_as<decltype(pooled::make_rc<int const[]>(1, 2)), pooled::rc_ptr<int const[]>>);
    static_assert(std::same_as<typename many::element_type, int> && sizeof(many) == 8);
    static_assert(std::same_as<decltype(std::declval<many>()[0]), int&>);
}

TYPED_TEST(make_rc_of_an_array, converts_as_std_shared_ptr_does) {
    using many = typename TypeParam::template ptr<int[]>;
    using constant = typename TypeParam::template ptr<int const[]>;
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

TYPED_TEST(make_rc_of_an_array,
           destroys_the_elements_when_the_last_owner_goes_and_keeps_the_block_while_observed) {
    test::life_log::scope const scope(this->log);
    auto p = this->pool.template make_rc<test::counted<>[]>(5);
    typename TypeParam::template ptr<void> last = p;
    typename TypeParam::template weak<test::counted<>[]> const observer = p;
    p.reset();
    EXPECT_EQ(this->log.alive(), 5);
    EXPECT_EQ(observer.lock().get(), last.get());
    last.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(observer.lock(), nullptr);
    EXPECT_EQ(this->in_use(), 1U);
}

TYPED_TEST(make_rc_of_an_array, aligns_its_elements_and_may_be_empty_or_large) {
    struct alignas(64) line {
        unsigned char bytes[64];
    };
    auto const lines = this->pool.template make_rc<line[]>(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.get()) % 64, 0U);
    auto const none = this->pool.template make_rc<std::string[]>(0);
    EXPECT_NE(none, nullptr);
    auto const large = this->pool.template make_rc<unsigned char[]>(1U << 20, 7);
    EXPECT_EQ(large[(1 << 20) - 1], 7);
    EXPECT_EQ(this->in_use(), 3U);
}

TYPED_TEST(make_rc_of_an_array, leaves_the_pool_as_it_was_when_a_constructor_throws) {
    auto const keep = this->pool.template make_rc<int>(1);
    test::life_log::scope const scope(this->log);
    using element = test::counted<>;
    {
        element const value;
        element const row[2];
        for (std::int64_t n : {1, 3, 4}) {
            this->log.throw_at(n);
            EXPECT_THROW(static_cast<void>(this->pool.template make_rc<element[]>(4)),
                         test::constructor_failed);
            this->log.throw_at(n);
            EXPECT_THROW(static_cast<void>(this->pool.template make_rc<element[4]>(value)),
                         test::constructor_failed);
            this->log.throw_at(n);
            EXPECT_THROW(static_cast<void>(this->pool.template make_rc<element[][2]>(2, row)),
                         test::constructor_failed);
            this->log.throw_at(n);
            EXPECT_THROW(static_cast<void>(this->pool.template make_rc_for_overwrite<element[]>(4)),
                         test::constructor_failed);
            this->log.throw_at(n);
            EXPECT_THROW(static_cast<void>(this->pool.template try_make_rc<element[]>(4)),
                         test::constructor_failed)
                << "a constructor's exception is not mistaken for an exhausted pool";
            EXPECT_EQ(this->log.alive(), 3);
            EXPECT_EQ(this->in_use(), 1U);
        }
        this->log.throw_at(0);
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

TYPED_TEST(make_rc_of_an_array, destroys_what_it_made_from_last_to_first_when_a_constructor_throws) {
    for (bool const overwrites : {false, true}) {
        fourth_fails::made = 0;
        fourth_fails::destroyed.clear();
        if (overwrites)
            EXPECT_THROW(static_cast<void>(this->pool.template make_rc_for_overwrite<fourth_fails[]>(8)),
                         test::constructor_failed);
        else
            EXPECT_THROW(static_cast<void>(this->pool.template make_rc<fourth_fails[]>(8)),
                         test::constructor_failed);
        EXPECT_EQ(fourth_fails::destroyed, (std::vector<int>{2, 1, 0}));
    }
}

TYPED_TEST(make_rc_of_an_array, throws_or_is_empty_when_the_pool_is_exhausted_or_the_length_is_no_size) {
    typename TypeParam::pool bounded{{.max_bytes = 64U << 10}};
    EXPECT_THROW(static_cast<void>(bounded.template make_rc<int[]>(1U << 20)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(bounded.template make_rc_for_overwrite<int[1 << 20]>()),
                 pooled::exhausted);
    EXPECT_EQ((bounded.template try_make_rc<int[1 << 20]>()), nullptr);
    EXPECT_EQ(bounded.template try_make_rc_for_overwrite<int[]>(1U << 20), nullptr);
    for (std::size_t const count : {std::numeric_limits<std::size_t>::max(),
                                    std::numeric_limits<std::size_t>::max() / sizeof(int[3]) + 1}) {
        EXPECT_THROW(static_cast<void>(this->pool.template make_rc<int[][3]>(count)),
                     std::bad_array_new_length);
        EXPECT_THROW(static_cast<void>(this->pool.template make_rc<int[]>(~std::size_t{0})),
                     std::bad_array_new_length);
        EXPECT_EQ(this->pool.template try_make_rc<int[][3]>(count), nullptr);
        EXPECT_EQ(this->pool.template try_make_rc_for_overwrite<int[][3]>(count), nullptr);
    }
    for (std::size_t less = 0; less <= 32; ++less) {  // with what is in front of the elements
        EXPECT_EQ(this->pool.template try_make_rc<char[]>(~std::size_t{0} - less), nullptr) << less;
        EXPECT_EQ(this->pool.template try_make_shared<char[]>(~std::size_t{0} - less), nullptr) << less;
    }
    EXPECT_NE((bounded.template try_make_rc_for_overwrite<int[10]>()), nullptr);
}

TYPED_TEST(make_rc_of_an_array, for_overwrite_writes_nothing_into_trivial_elements) {
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    void* const before = [this] {
        auto const p = this->pool.template make_rc_for_overwrite<unsigned char[]>(4000);
        std::memset(p.get(), 0xA5, 4000);
        return p.get();
    }();
    auto const p = this->pool.template make_rc_for_overwrite<unsigned char[4000]>();
    EXPECT_EQ(p.get(), before);
    EXPECT_TRUE(std::all_of(p.get(), p.get() + 4000, [](unsigned char c) { return c == 0xA5; }));

    test::life_log::scope const scope(this->log);
    auto const constructed = this->pool.template try_make_rc_for_overwrite<test::counted<>[3]>();
    EXPECT_EQ(this->log.alive(), 3);
}

TEST(make_rc_of_an_array_by_default, is_dropped_by_any_thread_and_becomes_a_std_shared_ptr) {
    auto p = pooled::make_rc<std::string[]>(3, "text");
    std::thread([p = std::move(p)]() mutable { p.reset(); }).join();
    pooled::rc_ptr<int[]> numbers = pooled::make_rc_for_overwrite<int[]>(2);
    numbers[1] = 4;
    std::shared_ptr<int[]> const shared = pooled::to_shared(std::move(numbers));
    EXPECT_EQ(shared[1], 4);
    pooled::rc_ptr<int[]> const moved = pooled::make_local_rc<int[3]>(6);
    EXPECT_EQ(moved[2], 6);
}

}  // namespace
