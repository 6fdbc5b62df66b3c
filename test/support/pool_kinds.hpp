// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests that hold for every kind of pool:
//
//   template <class Pool>
//   class any_pool : public testing::Test {};
//   TYPED_TEST_SUITE(any_pool, test::pool_kinds, test::pool_kind_names);
//   TYPED_TEST(any_pool, does_what_it_says) { TypeParam pool; ... }

#include "pooled/pool.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace test {

using pool_kinds = testing::Types<pooled::pool, pooled::local_pool>;

struct pool_kind_names {
    template <class Pool>
    static std::string GetName(int) {
        return std::is_same_v<Pool, pooled::pool> ? "pool" : "local_pool";
    }
};

}  // namespace test
