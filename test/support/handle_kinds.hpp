// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests that hold for both kinds of counted pointers. `pool` is a pool whose make_rc returns that kind.
//
//   template <class Kind>
//   class any_handle : public testing::Test {};
//   TYPED_TEST_SUITE(any_handle, test::handle_kinds, test::handle_kind_names);

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

namespace test {

struct counted_among_threads {
    using pool = pooled::pool;
    template <class T>
    using ptr = pooled::rc_ptr<T>;
    template <class T>
    using weak = pooled::weak_rc_ptr<T>;
};

struct counted_on_one_thread {
    using pool = pooled::local_pool;
    template <class T>
    using ptr = pooled::local_rc_ptr<T>;
    template <class T>
    using weak = pooled::weak_local_rc_ptr<T>;
};

using handle_kinds = testing::Types<counted_among_threads, counted_on_one_thread>;

struct handle_kind_names {
    template <class Kind>
    static std::string GetName(int) {
        return std::is_same_v<Kind, counted_among_threads> ? "rc_ptr" : "local_rc_ptr";
    }
};

// Both kinds with a pool and a log that must be as they were when the test ends.
template <class Kind>
class handles_test : public testing::Test {
protected:
    typename Kind::pool pool;
    life_log log;

    ~handles_test() override {
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
    }
    template <class T, class... Args>
    [[nodiscard]] typename Kind::template ptr<T> make(Args&&... args) {
        return pool.template make_rc<T>(std::forward<Args>(args)...);
    }
    [[nodiscard]] std::size_t in_use() const { return static_cast<std::size_t>(pool.stats().in_use); }
};

}  // namespace test
