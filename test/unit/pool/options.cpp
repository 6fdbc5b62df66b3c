// SPDX-License-Identifier: BSL-1.0
// The options that a pool accepts.

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace {

template <class Pool>
class options_of : public testing::Test {};
TYPED_TEST_SUITE(options_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(options_of, any_pool_are_an_aggregate_in_the_published_order) {
    static_assert(std::is_aggregate_v<pooled::pool_options>);
    test::counting_upstream upstream;
    TypeParam pool{{.name = "all",
                    .max_bytes = 1 << 20,
                    .chunk_bytes = 1 << 16,
                    .huge_pages = false,
                    .upstream = &upstream,
                    .teardown = pooled::teardown::immediate}};
    EXPECT_EQ(pool.name(), "all");
}

TYPED_TEST(options_of, any_pool_have_a_name_by_default) { EXPECT_EQ(TypeParam{}.name(), "pool"); }

TYPED_TEST(options_of, any_pool_need_the_name_only_for_the_call) {
    std::string name = "short-lived";
    TypeParam pool{{.name = name}};
    name.assign("overwritten!");
    EXPECT_EQ(pool.name(), "short-lived");
}

TYPED_TEST(options_of, chunk_bytes_are_what_upstream_is_asked_for_in_units_of_16_kib_and_a_slab_at_least) {
    for (std::size_t const chunk : {1UL, 65536UL, 65537UL, 1UL << 20}) {
        test::counting_upstream upstream;
        TypeParam pool{{.chunk_bytes = chunk, .upstream = &upstream}};
        void* const p = pool.allocate(48);
        EXPECT_EQ(upstream.bytes(), std::max(65536UL, (chunk + 16383) / 16384 * 16384)) << chunk;
        pool.deallocate(p, 48);
    }
}

TYPED_TEST(options_of, chunk_bytes_may_be_over_the_bound) {
    test::counting_upstream upstream;
    TypeParam pool{{.max_bytes = 100'000, .chunk_bytes = std::size_t{1} << 30, .upstream = &upstream}};
    void* const p = pool.allocate(48);
    EXPECT_LE(upstream.bytes(), 100'000U);
    pool.deallocate(p, 48);
}

TYPED_TEST(options_of, chunk_bytes_that_make_no_sense_are_refused) {
    EXPECT_THROW((TypeParam{{.chunk_bytes = ~std::size_t{0}}}), std::invalid_argument);
}

TYPED_TEST(options_of, huge_pages_work_either_way) {
    for (bool const huge : {false, true}) {
        TypeParam pool{{.huge_pages = huge}};
        std::vector<void*> blocks;
        for (int i = 0; i < 300; ++i)
            blocks.push_back(pool.allocate(32'768));
        for (void* const p : blocks)
            *static_cast<char*>(p) = 1;
        for (void* const p : blocks)
            pool.deallocate(p, 32'768);
        EXPECT_TRUE(test::is_valid(pool));
    }
}

}  // namespace
