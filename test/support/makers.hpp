// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests that hold for whatever a pool makes: each handle, from a pool and from a local_pool.
//
//   template <class Kind>
//   class made : public test::makers_test<Kind> {};
//   TYPED_TEST_SUITE(made, test::maker_kinds, test::maker_kind_names);
//   TYPED_TEST(made, is_owned) { auto const p = TypeParam::template make<int>(this->pool, 7); ... }

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace test {

// Tests write lengths as ints, which are converted here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#define POOLED_TEST_FORM(name, function)                                                           \
    template <class T, class... Element>                                                           \
    [[nodiscard]] static auto name(auto& pool, auto&&... args) {                                   \
        return pool.template function<T, Element...>(std::forward<decltype(args)>(args)...);       \
    }                                                                                              \
    template <class T, class... Element>                                                           \
    [[nodiscard]] static auto try_##name(auto& pool, auto&&... args) {                             \
        return pool.template try_##function<T, Element...>(std::forward<decltype(args)>(args)...); \
    }                                                                                              \
    template <class T, class... Element>                                                           \
    [[nodiscard]] static auto name##_by_default(auto&&... args) {                                  \
        return pooled::function<T, Element...>(std::forward<decltype(args)>(args)...);             \
    }
#define POOLED_TEST_HANDLE(word)                                      \
    static constexpr char const* k_name = #word "_ptr";               \
    POOLED_TEST_FORM(make, make_##word)                               \
    POOLED_TEST_FORM(make_for_overwrite, make_##word##_for_overwrite) \
    POOLED_TEST_FORM(make_with_tail, make_##word##_with_tail)         \
    POOLED_TEST_FORM(make_with_tail_for_overwrite, make_##word##_with_tail_for_overwrite)

struct by_shared_ptr {
    template <class, class T>
    using ptr_of = std::shared_ptr<T>;
    POOLED_TEST_HANDLE(shared)
};
struct by_unique_ptr {
    template <class, class T>
    using ptr_of = pooled::unique_ptr<T>;
    POOLED_TEST_HANDLE(unique)
};
struct by_rc_ptr {
    template <class Pool, class T>
    using ptr_of =
        std::conditional_t<std::same_as<Pool, pooled::pool>, pooled::rc_ptr<T>, pooled::local_rc_ptr<T>>;
    POOLED_TEST_HANDLE(rc)
};
#undef POOLED_TEST_HANDLE
#undef POOLED_TEST_FORM
#pragma GCC diagnostic pop

template <class Handle, class Pool>
struct maker_kind : Handle {
    using pool = Pool;
    template <class T>
    using ptr = typename Handle::template ptr_of<Pool, T>;
};

// Those of which several may own an object, with weak pointers and arrays of known bound.
using counted_maker_kinds =
    testing::Types<maker_kind<by_shared_ptr, pooled::pool>, maker_kind<by_shared_ptr, pooled::local_pool>,
                   maker_kind<by_rc_ptr, pooled::pool>, maker_kind<by_rc_ptr, pooled::local_pool>>;
using maker_kinds =
    testing::Types<maker_kind<by_shared_ptr, pooled::pool>, maker_kind<by_shared_ptr, pooled::local_pool>,
                   maker_kind<by_unique_ptr, pooled::pool>, maker_kind<by_unique_ptr, pooled::local_pool>,
                   maker_kind<by_rc_ptr, pooled::pool>, maker_kind<by_rc_ptr, pooled::local_pool>>;

struct maker_kind_names {
    template <class Kind>
    static std::string GetName(int) {
        bool const is_shared = std::same_as<typename Kind::pool, pooled::pool>;
        return std::string(Kind::k_name) + (is_shared ? "_of_pool" : "_of_local_pool");
    }
};

// Each kind with a pool and a log that must be as they were when the test ends.
template <class Kind>
class makers_test : public testing::Test {
protected:
    typename Kind::pool pool;
    life_log log;

    ~makers_test() override {
        EXPECT_EQ(in_use(), 0U);
        EXPECT_EQ(log.alive(), 0);
        EXPECT_TRUE(is_valid(pool));
    }
    [[nodiscard]] std::uint64_t in_use() const { return pool.stats().in_use; }
    template <class T>
    [[nodiscard]] auto make(auto&&... args) {
        return Kind::template make<T>(pool, std::forward<decltype(args)>(args)...);
    }
};

}  // namespace test
