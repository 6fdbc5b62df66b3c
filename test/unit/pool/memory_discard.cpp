// SPDX-License-Identifier: BSL-1.0
// pool_memory::discard(): all slabs go back to upstream, those with blocks in use, too. For compat/pmr.hpp's release().

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace {

template <class Pool>
class discard : public testing::Test {
protected:
    test::counting_upstream upstream;
};
TYPED_TEST_SUITE(discard, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(discard, gives_slabs_with_blocks_in_use_free_or_cached_back_and_leaves_a_valid_pool) {
    TypeParam pool({.upstream = &this->upstream});
    for (int round = 0; round < 5; ++round) {
        for (std::size_t bytes = 16; bytes <= 32'768; bytes = bytes * 5 / 4) {
            std::vector<void*> out;
            for (int i = 0; i < 50; ++i)
                out.push_back(pool.allocate(bytes));
            for (std::size_t i = 0; i < out.size(); i += 2)
                pool.deallocate(out[i], bytes);
        }
        EXPECT_TRUE(test::is_valid(pool));
        test::core_of(pool).memory().discard();
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_EQ(this->upstream.bytes(), 0U);
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    }
}

TYPED_TEST(discard, ends_reservations) {
    TypeParam pool({.upstream = &this->upstream});
    pool.reserve_bytes(10'000, 64);
    static_cast<void>(pool.allocate(64));
    test::core_of(pool).memory().discard();
    EXPECT_EQ(this->upstream.bytes(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
    EXPECT_NE(pool.allocate(64), nullptr);
    test::core_of(pool).memory().discard();
}

TYPED_TEST(discard, lets_the_pool_be_destroyed_without_waiting_for_the_blocks) {
    {
        TypeParam pool({.upstream = &this->upstream});
        for (int i = 0; i < 1000; ++i)
            static_cast<void>(pool.allocate(100));
        test::core_of(pool).memory().discard();
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

}  // namespace
