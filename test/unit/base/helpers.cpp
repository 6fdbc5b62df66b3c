// SPDX-License-Identifier: BSL-1.0
// Small helpers. Rounding and arithmetic at the edges of std::size_t; algorithms; callables; lists; the message of
// `exhausted`; the version.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/intrusive_list.hpp"
#include "pooled/error.hpp"
#include "pooled/lifecycle.hpp"
#include "pooled/version.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

TEST(bits, round_up_to_the_unit_and_leave_multiples_alone) {
    EXPECT_EQ(round_up(0, 64), 0U);
    EXPECT_EQ(round_up(1, 64), 64U);
    EXPECT_EQ(round_up(64, 64), 64U);
    EXPECT_EQ(round_up(65, 64), 128U);
    EXPECT_EQ(round_up(7, 1), 7U);
}

TEST(bits, round_down_to_the_unit) {
    EXPECT_EQ(round_down(63, 64), 0U);
    EXPECT_EQ(round_down(64, 64), 64U);
    EXPECT_EQ(round_down(k_size_max, 2), k_size_max - 1);
}

TEST(bits, add_without_wrapping_round) {
    EXPECT_EQ(saturating_add(2, 3), 5U);
    EXPECT_EQ(saturating_add(k_size_max - 1, 1), k_size_max);
    EXPECT_EQ(saturating_add(k_size_max, 1), k_size_max);
    EXPECT_EQ(saturating_add(k_size_max, k_size_max), k_size_max);
}

TEST(bits, multiply_without_wrapping_round) {
    EXPECT_EQ(saturating_multiply(6, 7), 42U);
    EXPECT_EQ(saturating_multiply(k_size_max, 0), 0U);
    EXPECT_EQ(saturating_multiply(0, k_size_max), 0U);
    EXPECT_EQ(saturating_multiply(k_size_max / 2 + 1, 2), k_size_max);
    EXPECT_EQ(saturating_multiply(k_size_max / 8, 8), k_size_max - 7);
}

namespace detail = pooled::detail;

TEST(the_small_algorithms, return_the_first_of_equal_values_as_the_standard_does) {
    int const a = 1;
    int const b = 1;
    EXPECT_EQ(&detail::smaller(a, b), &a);
    EXPECT_EQ(&detail::larger(a, b), &a);
    EXPECT_EQ(&detail::clamp(a, b, b), &a);
}

TEST(the_small_algorithms, find_the_least_the_greatest_and_the_nearest_within_limits) {
    static_assert(detail::smaller(2, 1) == 1 && detail::smaller(1, 2) == 1);
    static_assert(detail::larger(2, 1) == 2 && detail::larger(1, 2) == 2);
    static_assert(detail::clamp(0, 2, 4) == 2 && detail::clamp(3, 2, 4) == 3 && detail::clamp(5, 2, 4) == 4);
    static_assert(detail::any_of(std::array{1, 2}, [](int i) { return i == 2; }));
    static_assert(!detail::any_of(std::array{1, 2}, [](int i) { return i == 3; }));
}

TEST(the_small_algorithms, copy_ranges_that_overlap) {
    std::array numbers{1, 2, 3, 4};
    detail::copy_n(numbers.data() + 1, 3, numbers.data());
    EXPECT_EQ(numbers, (std::array{2, 3, 4, 4}));
    detail::copy_n<int>(nullptr, 0, nullptr);
}

using pooled::detail::callable;

int twice(int i) { return 2 * i; }

struct counter {
    int value = 0;
    void add(int i) { value += i; }
};

static_assert(!std::is_constructible_v<callable<int(int)>, int>);
static_assert(!std::is_constructible_v<callable<void()>, decltype([p = std::unique_ptr<int>()] {})>,
              "what it holds is copied with it");

TEST(a_callable, calls_functions_lambdas_and_member_functions) {
    EXPECT_EQ(callable<int(int)>(twice)(3), 6);
    EXPECT_EQ(callable<int(int)>(&twice)(3), 6);
    int seen = 0;
    callable<void(int&&)> const move = [&seen](int i) { seen = i; };
    move(7);
    EXPECT_EQ(seen, 7);
    counter c;
    callable<void(counter&, int)> const add = &counter::add;
    add(c, 4);
    callable<void(counter*, int)> const add_to = &counter::add;
    add_to(&c, 1);
    EXPECT_EQ(c.value, 5);
}

TEST(a_callable, may_discard_a_result_and_return_a_reference) {
    int number = 1;
    callable<int&()> const get = [&number]() -> int& { return number; };
    get() = 2;
    EXPECT_EQ(number, 2);
    callable<void(int)> const discards = twice;
    discards(1);
}

TEST(a_callable, is_empty_when_what_it_is_made_of_is) {
    EXPECT_FALSE(callable<int(int)>());
    EXPECT_FALSE(callable<int(int)>(nullptr));
    EXPECT_FALSE(callable<int(int)>(std::function<int(int)>()));
    EXPECT_FALSE(callable<int(int)>(static_cast<int (*)(int)>(nullptr)));
    EXPECT_TRUE(callable<int(int)>(std::function<int(int)>(twice)));
    EXPECT_TRUE(callable<int(int)>() == nullptr);
    callable<int(int)> one = twice;
    EXPECT_FALSE(one == nullptr);
    one = nullptr;
    EXPECT_FALSE(one);
}

TEST(a_callable, copies_the_function_object_and_its_state) {
    callable<int()> const first = [count = 0]() mutable { return ++count; };
    EXPECT_EQ(first(), 1);
    callable<int()> second = first;
    EXPECT_EQ(first(), 2);
    EXPECT_EQ(second(), 2);
    second = first;
    EXPECT_EQ(second(), 3);
    second = callable<int()>();
    EXPECT_FALSE(second);
    callable<int()> third = first;
    callable<int()> const moved = std::move(third);
    EXPECT_EQ(moved(), 3);
}

TEST(a_callable, passes_on_what_its_function_throws_and_frees_what_it_holds) {
    auto const held = std::make_shared<int>(1);
    {
        callable<void()> const throwing = [held] { throw std::runtime_error("asked to"); };
        EXPECT_THROW(throwing(), std::runtime_error);
        callable<void()> const copy = throwing;
        EXPECT_EQ(held.use_count(), 3);
    }
    EXPECT_EQ(held.use_count(), 1);
}

struct element {
    int number = 0;
    list_links<element> links;
};
std::array<element, 4> numbered() { return {{{0, {}}, {1, {}}, {2, {}}, {3, {}}}}; }

// Empty if the links in the other direction differ.
std::vector<int> numbers(intrusive_list<element> const& list) {
    std::vector<int> forth;
    element* last = nullptr;
    for (element& one : list) {
        if (one.links.previous != last) return {};
        last = &one;
        forth.push_back(one.number);
    }
    return forth;
}

TEST(an_intrusive_list, keeps_the_order_in_which_elements_are_put_at_its_ends) {
    auto all = numbered();
    intrusive_list<element> list;
    EXPECT_TRUE(list.empty());
    list.push_back(all[1]);
    list.push_front(all[0]);
    list.push_back(all[2]);
    list.push_back(all[3]);
    EXPECT_EQ(numbers(list), (std::vector{0, 1, 2, 3}));
    EXPECT_EQ(list.after(all[1]), &all[2]);
}

TEST(an_intrusive_list, loses_any_element_also_the_one_that_a_loop_visits) {
    for (int const gone : {0, 1, 3}) {
        auto all = numbered();
        intrusive_list<element> list;
        for (element& one : all)
            list.push_back(one);
        for (element& one : list)
            if (one.number == gone) list.remove(one);
        std::vector expected{0, 1, 2, 3};
        std::erase(expected, gone);
        EXPECT_EQ(numbers(list), expected);
        list.push_back(all[static_cast<std::size_t>(gone)]);
        expected.push_back(gone);
        EXPECT_EQ(numbers(list), expected);
    }
}

TEST(an_intrusive_list, returns_its_first_until_it_is_empty) {
    auto all = numbered();
    intrusive_list<element> list;
    list.push_back(all[0]);
    list.push_back(all[1]);
    EXPECT_EQ(list.pop_front(), &all[0]);
    EXPECT_EQ(list.pop_front(), &all[1]);
    EXPECT_EQ(list.pop_front(), nullptr);
    EXPECT_TRUE(list.empty());
}

TEST(exhausted, keeps_the_advice_with_the_longest_name) {
    pooled::exhausted const error(std::string(47, 'n').c_str(), ~std::size_t{0}, ~std::size_t{0},
                                  ~std::size_t{0});
    EXPECT_NE(std::string(error.what()).find("try_ form"), std::string::npos) << error.what();
}

TEST(exhausted, is_a_bad_alloc_that_copies_without_throwing) {
    static_assert(std::is_base_of_v<std::bad_alloc, pooled::exhausted>);
    static_assert(std::is_nothrow_copy_constructible_v<pooled::exhausted>);
    pooled::exhausted const error("p", 1, 2, 3);
    pooled::exhausted const copy = error;
    EXPECT_STREQ(error.what(), copy.what());
}

// The macros, the constants and the text of the version agree.

TEST(version, is_the_same_in_each_form) {
    EXPECT_EQ(POOLED_VERSION,
              pooled::version_major * 10000 + pooled::version_minor * 100 + pooled::version_patch);
    EXPECT_EQ(pooled::version_string, std::to_string(pooled::version_major) + "." +
                                          std::to_string(pooled::version_minor) + "." +
                                          std::to_string(pooled::version_patch));
}

}  // namespace
