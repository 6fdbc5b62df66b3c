// SPDX-License-Identifier: BSL-1.0
// What the heap detects in every build, not only in the checked one: a bad deallocation that reaches it ends the program with
// a message that names the pool and the address. What lies in a thread's cache is only looked at when that is flushed: trim()
// does it.

#include "pooled/pooled.hpp"

#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

template <class Pool>
class bad_deallocation : public testing::Test {
protected:
    bad_deallocation() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
    static std::string report(char const* kind) {
        return std::string("bad deallocation of 0x[0-9a-f]+ into pool 'packets': .*") + kind;
    }
    Pool pool{{.name = "packets"}};
};
TYPED_TEST_SUITE(bad_deallocation, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(bad_deallocation, of_a_block_that_was_freed_and_flushed_is_reported) {
    EXPECT_DEATH(
        {
            std::vector<void*> blocks;
            for (int i = 0; i < 10; ++i)
                blocks.push_back(this->pool.allocate(48));
            for (int i = 0; i < 9; ++i)
                this->pool.deallocate(blocks[static_cast<std::size_t>(i)], 48);
            this->pool.trim();
            this->pool.deallocate(blocks[3], 48);
            this->pool.trim();
        },
        TestFixture::report("double free"));
}

TYPED_TEST(bad_deallocation, of_a_block_that_is_cached_twice_is_reported_at_the_flush) {
    EXPECT_DEATH(
        {
            void* const keep = this->pool.allocate(48);
            void* const p = this->pool.allocate(48);
            this->pool.deallocate(p, 48);
            this->pool.deallocate(p, 48);
            this->pool.trim();
            this->pool.deallocate(keep, 48);
        },
        TestFixture::report("double free"));
}

TYPED_TEST(bad_deallocation, of_many_blocks_twice_is_reported_without_a_trim) {
    EXPECT_DEATH(
        {
            std::vector<void*> blocks;
            for (int i = 0; i < 2000; ++i)
                blocks.push_back(this->pool.allocate(48));
            for (int round = 0; round < 2; ++round)
                for (void* const p : blocks)
                    this->pool.deallocate(p, 48);
        },
        "bad deallocation of 0x[0-9a-f]+ into pool 'packets'");
}

TYPED_TEST(bad_deallocation, of_a_large_block_twice_is_reported) {
    EXPECT_DEATH(
        {
            void* const p = this->pool.allocate(100'000);
            this->pool.deallocate(p, 100'000);
            this->pool.deallocate(p, 100'000);
        },
        TestFixture::report("(double free|freed before)"));
    EXPECT_DEATH(
        {
            void* const p = this->pool.allocate(100'000);
            this->pool.deallocate(p, 100'000);
            this->pool.trim();
            this->pool.deallocate(p, 100'000);
        },
        TestFixture::report("no large block"));
}

TYPED_TEST(bad_deallocation, of_a_pointer_into_a_large_block_is_reported) {
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(100'000));
            this->pool.deallocate(p + 64, 100'000);
        },
        "bad deallocation of 0x[0-9a-f]+ into pool 'packets'");
}

TYPED_TEST(bad_deallocation, of_foreign_memory_is_reported) {
    EXPECT_DEATH(
        {
            alignas(16) static std::uint64_t foreign[8];
            this->pool.deallocate(foreign, 48);
            this->pool.trim();
        },
        "bad deallocation of 0x[0-9a-f]+ into pool 'packets'");
    EXPECT_DEATH(
        {
            static std::byte foreign[100'000];
            this->pool.deallocate(foreign, 100'000);
        },
        "bad deallocation of 0x[0-9a-f]+ into pool 'packets'");
    EXPECT_DEATH(
        {
            TypeParam other;
            this->pool.deallocate(other.allocate(48), 48);
            this->pool.trim();
        },
        "bad deallocation of 0x[0-9a-f]+ into pool 'packets'");
}

TYPED_TEST(bad_deallocation, with_another_size_is_reported) {
    EXPECT_DEATH(
        {
            this->pool.deallocate(this->pool.allocate(48), 100);
            this->pool.trim();
        },
        "bad deallocation of 0x[0-9a-f]+ into pool 'packets'");
    EXPECT_DEATH(this->pool.deallocate(this->pool.allocate(48), 100'000),
                 TestFixture::report("no large block"));
    EXPECT_DEATH(
        {
            this->pool.deallocate(this->pool.allocate(100'000), 48);
            this->pool.trim();
        },
        "bad deallocation of 0x[0-9a-f]+ into pool 'packets'");
}

template <class Pool>
class bad_alignment : public bad_deallocation<Pool> {};
TYPED_TEST_SUITE(bad_alignment, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(bad_alignment, is_reported_where_no_size_class_serves_the_request) {
    EXPECT_DEATH(static_cast<void>(this->pool.try_allocate(48, 0)), "alignment .*not a power of two");
    EXPECT_DEATH(static_cast<void>(this->pool.allocate(100'000, 24)), "alignment .*not a power of two");
    EXPECT_DEATH(this->pool.reserve_bytes(10, 48, 0), "alignment .*not a power of two");
}

}  // namespace
