// SPDX-License-Identifier: BSL-1.0
// The callers of a function, found from its return address.
#include "pooled/os/callers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace {

template <std::size_t Count>
using callers = pooled::detail::callers<Count>;

// Not a tail call: the frame stays.
template <class Result>
[[gnu::noinline]] Result kept(Result const& result) {
    asm volatile("" ::: "memory");
    return result;
}
template <std::size_t Count>
[[gnu::noinline]] auto of_this_call() {
    return kept(callers<Count>::find(__builtin_return_address(0)));
}

struct seen {
    std::array<void const*, 3> callers;
    void const* own;  // where the function that asks returns to
};
[[gnu::noinline]] seen inner() { return kept(seen{of_this_call<3>(), __builtin_return_address(0)}); }
struct seen_outer {
    seen from_inner;
    void const* own;
};
[[gnu::noinline]] seen_outer outer() { return kept(seen_outer{inner(), __builtin_return_address(0)}); }

TEST(callers, are_those_of_the_place_innermost_first) {
    seen_outer const result = outer();
    EXPECT_EQ(result.from_inner.callers[0], result.from_inner.own);
    EXPECT_EQ(result.from_inner.callers[1], result.own);
    EXPECT_NE(result.from_inner.callers[2], nullptr) << "what runs the tests";
}

TEST(callers, are_null_behind_the_outermost) {
    auto const all = of_this_call<200>();
    EXPECT_NE(all.front(), nullptr);
    EXPECT_EQ(all.back(), nullptr);
}

TEST(callers, are_none_of_a_place_that_is_not_on_the_stack) {
    int elsewhere = 0;
    EXPECT_EQ(callers<3>::find(&elsewhere)[0], nullptr);
}

TEST(callers, are_none_where_none_are_asked_for) { EXPECT_EQ(of_this_call<0>().size(), 0U); }

}  // namespace
