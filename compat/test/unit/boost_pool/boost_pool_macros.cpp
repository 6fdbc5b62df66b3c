// SPDX-License-Identifier: BSL-1.0
// Names that a program defines as macros, as leak detectors do.
#define BOOST_POOL_MACROS_ALONE  // before the first include: tools/unity.py compiles this file alone

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>

#define malloc(bytes) no_such_malloc(bytes, __FILE__, __LINE__)
#define free(p) no_such_free(p, __FILE__, __LINE__)

#include "pooled/compat/boost_pool.hpp"

namespace {

namespace compat = pooled::compat;

TEST(boost_pool_macros, members_named_malloc_and_free_survive_macros_of_these_names) {
    struct tag;
    compat::pool<> pool(48);
    (pool.free)((pool.malloc)());
    (pool.free)(pool.ordered_malloc(2), 2);
    compat::pool<compat::default_user_allocator_malloc_free> other(48);
    EXPECT_NE((other.malloc)(), nullptr);
    compat::object_pool<int> objects;
    (objects.free)((objects.malloc)());
    using single = compat::singleton_pool<tag, 48>;
    (single::free)((single::malloc)());
    std::list<int, compat::fast_pool_allocator<int, compat::default_user_allocator_malloc_free>> list(100, 1);
    EXPECT_EQ(list.size(), 100U);
}

}  // namespace
