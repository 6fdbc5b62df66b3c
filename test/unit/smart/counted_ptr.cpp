// SPDX-License-Identifier: BSL-1.0

#include "pooled/detail/counted_ptr.hpp"

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <functional>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

namespace {

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

}  // namespace
