// SPDX-License-Identifier: BSL-1.0
// Where a block comes from and returns to: the default pool, or the pool that is named during the call and found again by
// the block's address.

#include "pooled/smart/origin.hpp"

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

namespace {

using namespace pooled::detail;

struct alignas(64) wide {
    std::byte bytes[200];
};
struct huge {
    std::byte bytes[100'000];
};

// Allocates one T and an array of them, and deallocates both; the single one as bytes, too.
template <class T, class Origin, class InUse>
void expect_returned(InUse in_use) {
    std::uint64_t const before = in_use();
    T* const one = Origin::template allocate<T>(1);
    T* const bytes = Origin::template allocate<T>(1);
    T* const array = Origin::template allocate<T>(7);
    EXPECT_EQ(in_use(), before + 3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array) % alignof(T), 0U);
    Origin::template deallocate<T>(array, 7);
    Origin::template deallocate<T>(one, 1);
    Origin::deallocate_block(bytes, sizeof(T), alignof(T), pooled::detail::hardened::origin_of(alignof(T)));
    EXPECT_EQ(in_use(), before);
}

TEST(from_default, is_the_default_pool) {
    auto const in_use = [] { return pooled::default_pool().stats().in_use; };
    expect_returned<int, from_default>(in_use);
    expect_returned<wide, from_default>(in_use);
    expect_returned<huge, from_default>(in_use);
}

template <class Pool>
class from_a_pool : public testing::Test {
protected:
    static constexpr sharing k_sharing =
        std::is_same_v<Pool, pooled::pool> ? sharing::shared : sharing::local;
    using origin = from_pool<k_sharing>;
    using trying = from_pool<k_sharing, on_failure::marks_and_throws>;

    ~from_a_pool() override { t_making = nullptr; }

    test::counting_upstream memory;
    test::failing_upstream failing{memory};
};
TYPED_TEST_SUITE(from_a_pool, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(from_a_pool, is_the_pool_named_for_the_call) {
    TypeParam pool{{.upstream = &this->failing}};
    TypeParam other;
    t_making = &test::core_of(pool);
    auto const in_use = [&] {
        EXPECT_EQ(other.stats().in_use, 0U);
        return pool.stats().in_use;
    };
    using named = typename TestFixture::origin;
    using tried = typename TestFixture::trying;
    expect_returned<int, named>(in_use);
    expect_returned<wide, named>(in_use);
    expect_returned<huge, named>(in_use);
    expect_returned<int, tried>(in_use);
    expect_returned<huge, tried>(in_use);
}

TYPED_TEST(from_a_pool, finds_the_pool_again_when_another_one_is_named) {
    TypeParam pool;
    TypeParam other;
    using named = typename TestFixture::origin;
    t_making = &test::core_of(pool);
    int* const p = named::template allocate<int>(1);
    t_making = &test::core_of(other);
    named::template deallocate<int>(p, 1);
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_EQ(other.stats().in_use, 0U);
}

TYPED_TEST(from_a_pool, throws_what_upstream_throws_or_marks_that_the_allocation_failed) {
    TypeParam pool{{.upstream = &this->failing}};
    t_making = &test::core_of(pool);
    using named = typename TestFixture::origin;
    using tried = typename TestFixture::trying;
    this->failing.fail_always(true);
    EXPECT_THROW(static_cast<void>(named::template allocate<int>(1)), test::injected_failure);
    EXPECT_THROW(static_cast<void>(named::template allocate<huge>(1)), test::injected_failure);
    t_making_failed = false;
    EXPECT_THROW(static_cast<void>(tried::template allocate<int>(1)), std::bad_alloc);
    EXPECT_TRUE(t_making_failed);
    this->failing.fail_always(false);
    tried::template deallocate<int>(tried::template allocate<int>(1), 1);
    EXPECT_FALSE(t_making_failed);
    EXPECT_THROW(static_cast<void>(named::template allocate<huge>(k_size_max / 2)),
                 std::bad_array_new_length);
}

TYPED_TEST(from_a_pool, is_prepared_for_deferral_where_objects_are_deferred_in_the_pool) {
    for (auto const mode :
         {pooled::teardown::immediate, pooled::teardown::unordered, pooled::teardown::incremental}) {
        TypeParam pool{{.teardown = mode}};
        EXPECT_TRUE(prepare_deferral(test::core_of(pool)));
        pool_extension* const made = test::core_of(pool).extension();
        EXPECT_EQ(made != nullptr, mode == pooled::teardown::incremental);
        EXPECT_TRUE(prepare_deferral(test::core_of(pool)));
        EXPECT_EQ(test::core_of(pool).extension(), made) << "once";
    }
}

}  // namespace
