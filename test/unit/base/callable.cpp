// SPDX-License-Identifier: BSL-1.0

#include "pooled/detail/callable.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace {

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

}  // namespace
