// SPDX-License-Identifier: BSL-1.0
// What the heap detects in every build, not only in the checked one: a bad deallocation that reaches it ends the program with
// a message that names the pool and the address. What lies in a thread's cache is only looked at when that is flushed: trim()
// does it.

#include "pooled/pooled.hpp"

#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace {

template <class Pool>
class bad_deallocation : public testing::Test {
protected:
    bad_deallocation() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
    static std::string report(char const* kind) {
        return std::string("bad deallocation of 0x[0-9a-f]+ into pool 'packets': .*") + kind;
    }
    void free_and_flush(void* p, std::size_t bytes) {
        pool.deallocate(p, bytes);
        pool.trim();
    }
    void free_twice(std::size_t bytes, bool flushes = false) {
        void* const p = pool.allocate(bytes);
        pool.deallocate(p, bytes);
        if (flushes) pool.trim();
        pool.deallocate(p, bytes);
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
            for (std::size_t i = 0; i < 9; ++i)
                this->pool.deallocate(blocks[i], 48);
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
            this->free_twice(48);
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
        TestFixture::report(""));
}

TYPED_TEST(bad_deallocation, of_a_large_block_twice_is_reported) {
    EXPECT_DEATH(this->free_twice(300'000), TestFixture::report("(double free|freed before)"));
    EXPECT_DEATH(this->free_twice(300'000, true), TestFixture::report("no large block"));
    EXPECT_DEATH(this->free_twice(20'000'000), TestFixture::report("(no large block|freed before)"));
    EXPECT_DEATH(
        {
            this->free_twice(100'000);  // what the inlined code caches is reported at the flush
            this->pool.trim();
        },
        TestFixture::report("(double free|freed before)"));
    EXPECT_DEATH(
        {
            this->free_twice(100'000, true);
            this->pool.trim();
        },
        TestFixture::report(""));
}

// One is in the thread's cache, the last 32 in the central list, not yet in their slabs.
TYPED_TEST(bad_deallocation, of_a_large_block_that_was_freed_a_while_ago_twice_is_reported) {
    for (std::size_t const again : {1U, 8U, 39U})
        EXPECT_DEATH(
            {
                std::vector<void*> blocks(40);
                for (void*& block : blocks)
                    block = this->pool.allocate(300'000);
                for (void* const block : blocks)
                    this->pool.deallocate(block, 300'000);
                this->pool.deallocate(blocks[again], 300'000);
            },
            TestFixture::report("(double free|no large block)"));
}

// A thread that frees what others allocated leaves large blocks to them without a lock.
TEST(bad_deallocation_by_another_thread, of_a_large_block_twice_is_reported) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (std::size_t const bytes : {100'000U, 300'000U, 1'000'000U})
        for (std::size_t const again : {0U, 1U, 9U})
            EXPECT_DEATH(
                {
                    pooled::pool pool{{.name = "packets"}};
                    std::vector<void*> blocks(20);
                    for (void*& block : blocks)
                        block = pool.allocate(bytes);
                    std::thread([&] {
                        for (std::size_t i = 0; i < blocks.size(); ++i) {
                            pool.deallocate(blocks[i], bytes);
                            if (i == again) pool.deallocate(blocks[i], bytes);
                        }
                    }).join();
                    for (void*& block : blocks)
                        block = pool.allocate(bytes);
                    pool.trim();
                },
                "bad deallocation of 0x[0-9a-f]+ into pool 'packets': .*(double free|freed before|no large "
                "block)")
                << bytes << " bytes, block " << again;
}

TYPED_TEST(bad_deallocation, of_a_pointer_into_a_large_block_is_reported) {
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(300'000));
            this->pool.deallocate(p + 64, 300'000);
        },
        TestFixture::report("(no large block|no block in use)"));
    EXPECT_DEATH(
        {
            auto* const p = static_cast<std::byte*>(this->pool.allocate(100'000));
            this->free_and_flush(p + 64, 100'000);
        },
        TestFixture::report(""));
}

TYPED_TEST(bad_deallocation, of_foreign_memory_is_reported) {
    static std::array<std::byte, 100'000> foreign;
    EXPECT_DEATH(this->free_and_flush(foreign.data(), 48), TestFixture::report("of no pool"));
    EXPECT_DEATH(this->free_and_flush(foreign.data(), 100'000), TestFixture::report(""));
    TypeParam other;
    EXPECT_DEATH(this->free_and_flush(other.allocate(48), 48), TestFixture::report("another pool"));
}

TYPED_TEST(bad_deallocation, with_another_size_is_reported) {
    EXPECT_DEATH(this->free_and_flush(this->pool.allocate(48), 100), TestFixture::report(""));
    EXPECT_DEATH(this->free_and_flush(this->pool.allocate(48), 300'000),
                 TestFixture::report("no large block"));
    EXPECT_DEATH(this->free_and_flush(this->pool.allocate(48), 100'000), TestFixture::report(""));
    EXPECT_DEATH(this->free_and_flush(this->pool.allocate(100'000), 48), TestFixture::report(""));
}

template <class Pool>
class bad_alignment : public bad_deallocation<Pool> {};
TYPED_TEST_SUITE(bad_alignment, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(bad_alignment, is_reported_where_no_size_class_serves_the_request) {
    EXPECT_DEATH(static_cast<void>(this->pool.try_allocate(48, 0)), "alignment .*not a power of two");
    EXPECT_DEATH(static_cast<void>(this->pool.allocate(300'000, 24)), "alignment .*not a power of two");
    EXPECT_DEATH(this->pool.reserve_bytes(10, 48, 0), "alignment .*not a power of two");
}

}  // namespace
