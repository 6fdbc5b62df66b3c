// SPDX-License-Identifier: BSL-1.0
// The for_overwrite forms of make_unique and make_rc: default-initialised, so what no constructor writes is not written.

#include "pooled/detail/make_counted.hpp"

#include "pooled/pooled.hpp"

#include "support/lives.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>

namespace {

struct bytes {
    std::array<unsigned char, 4000> of;
};

template <class Pool>
class made_for_overwrite : public testing::Test {
protected:
    Pool pool;
    test::life_log log;

    // Whether `object`, in the block that was freed last, still has what its predecessor wrote.
    static bool keeps(unsigned char const* object, void const* predecessor) {
        return object == predecessor &&
               std::all_of(object + 64, object + 4000, [](unsigned char c) { return c == 0xA5; });
    }
    template <class Make, class Write>
    static void* write_and_drop(Make make, Write write) {
        auto p = make();
        void* const where = write(p);
        std::memset(where, 0xA5, 4000);
        return where;
    }

    ~made_for_overwrite() override {
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_EQ(log.alive(), 0);
    }
};
TYPED_TEST_SUITE(made_for_overwrite, test::pool_kinds, test::pool_kind_names);

// A block is allocated again as it was freed, except in the checked build.
TYPED_TEST(made_for_overwrite, a_pool_writes_nothing_into_a_trivial_object) {
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    auto const address = [](auto& p) -> void* { return p.get(); };
    auto const unique = [this] { return this->pool.template make_unique_for_overwrite<bytes>(); };
    auto const rc = [this] { return this->pool.template make_rc_for_overwrite<bytes>(); };
    auto const array = [this] {
        return this->pool.template make_unique_for_overwrite<unsigned char[]>(4000);
    };
    void* last = this->write_and_drop(unique, address);
    EXPECT_TRUE(this->keeps(unique()->of.data(), last));
    last = this->write_and_drop(rc, address);
    EXPECT_TRUE(this->keeps(rc()->of.data(), last));
    last = this->write_and_drop(array, address);
    EXPECT_TRUE(this->keeps(array().get(), last));
}

TYPED_TEST(made_for_overwrite, a_pool_constructs_what_has_a_constructor) {
    test::life_log::scope const scope(this->log);
    auto const one = this->pool.template make_unique_for_overwrite<test::counted<>>();
    auto const many = this->pool.template make_unique_for_overwrite<test::counted<>[]>(10);
    auto const counted = this->pool.template make_rc_for_overwrite<test::counted<>>();
    auto const shared = this->pool.template try_make_shared_for_overwrite<test::counted<>>();
    EXPECT_EQ(this->log.alive(), 13);
    EXPECT_TRUE(this->pool.template make_unique_for_overwrite<std::string>()->empty());
}

TYPED_TEST(made_for_overwrite, an_exhausted_pool_throws_or_is_empty) {
    TypeParam small{pooled::pool_options{.max_bytes = 1 << 16}};
    auto const held = small.try_allocate(1 << 16);
    ASSERT_NE(held, nullptr);
    EXPECT_THROW(static_cast<void>(small.template make_unique_for_overwrite<bytes>()), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(small.template make_unique_for_overwrite<char[]>(9)), pooled::exhausted);
    EXPECT_THROW(static_cast<void>(small.template make_rc_for_overwrite<bytes>()), pooled::exhausted);
    EXPECT_FALSE(small.template try_make_unique_for_overwrite<bytes>());
    EXPECT_FALSE(small.template try_make_unique_for_overwrite<char[]>(9));
    EXPECT_FALSE(small.template try_make_rc_for_overwrite<bytes>());
    EXPECT_FALSE(small.template try_make_shared_for_overwrite<bytes>());
    EXPECT_FALSE(small.template try_make_shared_for_overwrite<char[]>(9));
    small.deallocate(held, 1 << 16);
    EXPECT_TRUE(small.template try_make_shared_for_overwrite<char[]>(9));
    EXPECT_TRUE(small.template try_make_unique_for_overwrite<char[]>(9));
}

TYPED_TEST(made_for_overwrite, a_pool_refuses_arrays_beyond_the_address_space) {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    EXPECT_THROW(static_cast<void>(this->pool.template make_unique_for_overwrite<int[]>(most)),
                 std::bad_array_new_length);
    EXPECT_FALSE(this->pool.template try_make_unique_for_overwrite<int[]>(most));
    EXPECT_FALSE(this->pool.template try_make_shared_for_overwrite<int[]>(most));
}

TEST(made_for_overwrite_by_default, has_the_same_forms) {
    EXPECT_TRUE(pooled::make_unique_for_overwrite<bytes>());
    EXPECT_TRUE(pooled::make_unique_for_overwrite<char[]>(100));
    EXPECT_EQ(pooled::make_rc_for_overwrite<bytes>().use_count(), 1);
}

}  // namespace
