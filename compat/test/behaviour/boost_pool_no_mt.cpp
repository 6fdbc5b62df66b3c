// SPDX-License-Identifier: BSL-1.0
// A program for one thread that asks Boost.Pool for no locks asks ours for none, too. In its own program: the macro must be
// the same in all sources.

#define BOOST_POOL_NO_MT

#include "pooled/compat/boost_pool.hpp"

#include "compat/test/unit/boost_pool/boost_pool_sides.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace {

template <class Side>
class boost_pool_no_mt : public testing::Test {};
TYPED_TEST_SUITE(boost_pool_no_mt, test::pool_sides, test::pool_side_names);

TYPED_TEST(boost_pool_no_mt, makes_the_default_mutex_one_that_does_not_lock) {
    using null_mutex = typename TypeParam::null_mutex;
    struct tag;
    using single = typename TypeParam::template singleton_pool<tag, 16>;
    using allocator = typename TypeParam::template fast_pool_allocator<int>;
    EXPECT_TRUE((std::is_same_v<typename TypeParam::default_mutex, null_mutex>));
    EXPECT_TRUE((std::is_same_v<typename single::mutex, null_mutex>));
    EXPECT_TRUE((std::is_same_v<typename allocator::mutex, null_mutex>));
    void* const p = single::malloc();
    ASSERT_NE(p, nullptr);
    single::free(p);
    EXPECT_TRUE(single::release_memory());
}

}  // namespace
