// SPDX-License-Identifier: BSL-1.0
// When a pool calls what a layer above has added to it, and that it calls nothing which is not added.

#include "pooled/pool/extension.hpp"

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace {

using pooled::detail::pool_extension;

struct recording : pool_extension {
    void on_allocate() noexcept override { events += 'a'; }
    std::size_t drain(std::size_t budget) noexcept override {
        events += 'D';
        return budget / 2;
    }
    void on_close() noexcept override { events += 'c'; }
    void on_destroy() noexcept override { events += 'd'; }
    std::string events;
};

TEST(pool_extension, does_nothing_that_it_does_not_override) {
    struct : pool_extension {
    } plain;
    pool_extension& base = plain;
    std::uint64_t seen = 7;
    EXPECT_EQ(base.drain(100), 0U);
    EXPECT_FALSE(base.relieve(seen));
    EXPECT_EQ(seen, 7U);
    base.on_allocate();
    base.on_close();
    base.on_destroy();
    base.after_fork_in_child();
}

template <class Pool>
class extended : public testing::Test {};
TYPED_TEST_SUITE(extended, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(extended, pool_calls_at_slow_allocations_alone) {
    TypeParam pool;
    recording extension;
    test::core_of(pool).set_extension(&extension);
    void* const first = pool.allocate(48);
    EXPECT_EQ(extension.events, "a");
    pool.deallocate(first, 48);
    pool.deallocate(pool.allocate(48), 48);
    EXPECT_EQ(extension.events, "a") << "the cache served it";
    pool.deallocate(pool.allocate(100'000), 100'000);
    EXPECT_EQ(extension.events, "aa");
    test::core_of(pool).set_extension(nullptr);
}

TYPED_TEST(extended, pool_passes_a_drain_on) {
    TypeParam pool;
    EXPECT_EQ(pool.drain(10), 0U);
    recording extension;
    test::core_of(pool).set_extension(&extension);
    EXPECT_EQ(pool.drain(10), 5U);
    EXPECT_EQ(extension.events, "D");
    test::core_of(pool).set_extension(nullptr);
}

TYPED_TEST(extended, pool_calls_when_its_handle_goes_and_last_when_no_block_is_in_use) {
    recording extension;
    auto pool = std::make_unique<TypeParam>();
    auto object = pool->template make_shared<int>(1);
    test::core_of(*pool).set_extension(&extension);
    pool.reset();
    EXPECT_EQ(extension.events, "c");
    object.reset();
    EXPECT_EQ(extension.events, "cd");
}

}  // namespace
