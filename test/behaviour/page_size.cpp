// SPDX-License-Identifier: BSL-1.0
// Pages of 64 and of 16 KiB, as some processors have them, on any machine: support/page_size.hpp. No memory of a block in use is
// returned with that of its neighbours, and no call has an address that such a kernel refuses.

#include <gtest/gtest.h>

#if !defined(POOLED_TEST_SANITIZER_ADDRESS) && !defined(POOLED_TEST_SANITIZER_THREAD)

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/page_size.hpp"
#include "support/pool_kinds.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace page_size = test::page_size;

struct block {
    std::byte* p;
    std::size_t bytes;
    std::byte mark;

    void fill() const { std::memset(p, static_cast<int>(mark), bytes); }
    [[nodiscard]] bool is_whole() const {
        return std::all_of(p, p + bytes, [this](std::byte one) { return one == mark; });
    }
};

template <class Pool>
class pages : public testing::Test {
protected:
    void SetUp() override { ASSERT_EQ(::sysconf(_SC_PAGESIZE), static_cast<long>(page_size::bytes())); }
    void TearDown() override { EXPECT_EQ(page_size::g_refused, 0U) << "calls with an address within a page"; }
};
TYPED_TEST_SUITE(pages, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(pages, of_blocks_in_use_keep_their_contents_when_free_memory_is_given_back) {
    for (std::size_t const max_bytes : {std::size_t{0}, std::size_t{3} << 20}) {
        TypeParam pool{{.max_bytes = max_bytes, .release_unused_after = std::chrono::milliseconds(1)}};
        std::mt19937_64 random(7);
        std::vector<block> blocks;
        for (int step = 0; step < 30'000; ++step) {
            bool const is_shrinking = step / 2000 % 2 != 0;
            if (random() % 8 < (is_shrinking ? 2U : 6U) || blocks.empty()) {
                std::size_t const bytes = 1 + random() % (std::size_t{16} << random() % 14);
                auto* const p = static_cast<std::byte*>(pool.try_allocate(bytes));
                if (p == nullptr) continue;
                blocks.push_back({p, bytes, static_cast<std::byte>(random())});
                blocks.back().fill();
            } else {
                std::swap(blocks[random() % blocks.size()], blocks.back());
                ASSERT_TRUE(blocks.back().is_whole()) << step;
                pool.deallocate(blocks.back().p, blocks.back().bytes);
                blocks.pop_back();
            }
            if (step % 500 == 0) {
                static_cast<void>(pool.trim());
                ASSERT_TRUE(std::all_of(blocks.begin(), blocks.end(), [](block const& one) {
                    return one.is_whole();
                })) << step;
            }
        }
        EXPECT_TRUE(test::is_valid(pool));
        for (block const& one : blocks)
            pool.deallocate(one.p, one.bytes);
    }
}

// A slab with one block in use, at its end: no page of that block is returned.
TYPED_TEST(pages, that_a_block_shares_with_free_ones_stay) {
    TypeParam pool;
    for (std::size_t const bytes :
         {std::size_t{48}, std::size_t{1500}, std::size_t{4096}, std::size_t{21'000}}) {
        std::vector<block> blocks;
        for (int i = 0; i < 3000; ++i) {
            blocks.push_back({static_cast<std::byte*>(pool.allocate(bytes)), bytes, std::byte{0x5a}});
            blocks.back().fill();
        }
        for (std::size_t i = 0; i < blocks.size(); ++i)
            if (i % 97 != 0) pool.deallocate(blocks[i].p, bytes);
        EXPECT_EQ(pool.trim() % page_size::bytes(), 0U) << bytes;
        for (std::size_t i = 0; i < blocks.size(); i += 97) {
            EXPECT_TRUE(blocks[i].is_whole()) << bytes;
            pool.deallocate(blocks[i].p, bytes);
        }
    }
}

TYPED_TEST(pages, of_large_blocks_are_given_back_whole) {
    TypeParam pool;
    for (std::size_t const bytes : {std::size_t{33'000}, std::size_t{70'000}, std::size_t{1'000'001}}) {
        std::array<block, 5> blocks{};
        for (block& one : blocks) {
            one = {static_cast<std::byte*>(pool.allocate(bytes)), bytes, std::byte{0x77}};
            one.fill();
        }
        for (std::size_t const i : {std::size_t{0}, std::size_t{2}, std::size_t{4}})
            pool.deallocate(blocks[i].p, bytes);
        EXPECT_GT(pool.trim(), 0U);
        for (std::size_t const i : {std::size_t{1}, std::size_t{3}}) {
            EXPECT_TRUE(blocks[i].is_whole()) << bytes;
            pool.deallocate(blocks[i].p, bytes);
        }
    }
}

TYPED_TEST(pages, may_be_made_resident_when_they_are_reserved) {
    for (std::size_t const max_bytes :
         {std::size_t{0}, std::size_t{3} << 20}) {  // the slabs of the second are 16 KiB
        TypeParam pool{{.max_bytes = max_bytes, .touch_reserved = true}};
        block const used{static_cast<std::byte*>(pool.allocate(1000)), 1000, std::byte{1}};
        used.fill();
        pool.reserve_bytes(1000, 1000);
        pool.reserve_bytes(10, 100'000);
        EXPECT_TRUE(used.is_whole());
        pool.deallocate(used.p, used.bytes);
    }
}

TEST(page_size, of_16_kib_is_tested_too) {
    if (std::getenv("POOLED_TEST_PAGE_BYTES") != nullptr) GTEST_SKIP();
    std::array<char, 4096> path{};
    ASSERT_GT(::readlink("/proc/self/exe", path.data(), path.size() - 1), 0);
    std::string const run = std::string("POOLED_TEST_PAGE_BYTES=16384 ") + path.data();
    EXPECT_EQ(std::system((run + " >/dev/null").c_str()), 0) << run;
}

}  // namespace

#else

TEST(page_size, is_simulated_without_sanitizers) { GTEST_SKIP(); }

#endif
