// SPDX-License-Identifier: BSL-1.0
// A pool as a std::pmr::memory_resource.

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

namespace {

template <class Pool>
class resource_of : public testing::Test {};
TYPED_TEST_SUITE(resource_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(resource_of, a_pool_serves_any_size_and_alignment_from_the_pool) {
    TypeParam pool;
    for (std::size_t bytes = 1; bytes < 100'000; bytes = bytes * 2 + 1)
        for (std::size_t align = 1; align <= 65'536; align *= 4) {
            void* const p = pool.resource()->allocate(bytes, align);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
            EXPECT_TRUE(pool.owns(p));
            pool.resource()->deallocate(p, bytes, align);
        }
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(resource_of, a_pool_is_equal_to_itself_alone) {
    TypeParam a;
    TypeParam b;
    EXPECT_EQ(*a.resource(), *a.resource());
    EXPECT_NE(*a.resource(), *b.resource());
    EXPECT_NE(*a.resource(), *std::pmr::new_delete_resource());
}

TYPED_TEST(resource_of, a_pool_works_under_other_resources) {
    TypeParam pool;
    {
        std::pmr::unsynchronized_pool_resource inner(pool.resource());
        std::pmr::monotonic_buffer_resource buffer(&inner);
        std::pmr::vector<std::pmr::string> strings(&buffer);
        for (int i = 0; i < 500; ++i)
            strings.emplace_back(static_cast<std::size_t>(i), 'x');
        EXPECT_GT(pool.stats().in_use, 0U);
    }
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(resource_of, a_pool_and_its_own_functions_free_each_others_blocks) {
    TypeParam pool;
    pool.deallocate(pool.resource()->allocate(100, 8), 100, 8);
    pool.resource()->deallocate(pool.allocate(100, 8), 100, 8);
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
