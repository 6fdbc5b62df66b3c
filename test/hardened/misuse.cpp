// SPDX-License-Identifier: BSL-1.0
// The hardened build misses no double and no foreign free (support/misuse_suite.hpp, and what it alone promises here).
//
// A report is caught by leaving the library with longjmp: one process then sees many. POOLED_TEST_ITERATIONS says how many.

#ifndef POOLED_CHECKED
#define POOLED_CHECKED 0
#endif

#include <gtest/gtest.h>

#if !POOLED_CHECKED && !defined(__SANITIZE_THREAD__)
#undef POOLED_SANITIZE
#define POOLED_SANITIZE 0
#undef POOLED_HARDENED
#define POOLED_HARDENED 1

#include "support/caught_report.hpp"

#define POOLED_FAIL(message) ::test::on_report(message)

#include "pooled/pooled.hpp"

#include "support/misuse_suite.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

template <class Pool>
class hardened : public test::misused_pool<Pool> {};
TYPED_TEST_SUITE(hardened, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(hardened, pool_reports_every_double_free_of_a_cached_block) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = this->any_size();
        std::array<void*, 4> blocks{};
        for (void*& p : blocks)
            p = this->pool.allocate(bytes);
        for (void* const p : blocks)
            this->pool.deallocate(p, bytes);
        static_cast<void>(this->pool.try_allocate(bytes));  // no block in the front slot
        void* const again = blocks[this->any() % 3];
        found += is_report(report_of([&] { this->pool.deallocate(again, bytes); }), "double free");
    }
    EXPECT_EQ(found, iterations());
    EXPECT_TRUE(test::is_valid(this->pool));
}

TYPED_TEST(hardened, pool_reports_every_double_free_after_a_flush) {
    int found = 0;
    int expected = 0;
    while (expected < iterations()) {
        std::size_t const bytes = this->any_size();
        std::vector<void*> blocks;
        for (int i = 0; i < 300; ++i)
            blocks.push_back(this->pool.allocate(bytes));
        for (void* const p : blocks)
            this->pool.deallocate(p, bytes);
        bool const is_trimmed = this->any() % 4 == 0;
        // Also from memory that was returned to the system, or now belongs to another size.
        if (is_trimmed) this->pool.trim();
        std::vector<void*> others;
        if (is_trimmed && this->any() % 2 == 0)
            for (int i = 0; i < 10; ++i)
                others.push_back(this->pool.allocate(bytes + 200));
        for (void* const p : blocks) {
            bool const is_reused = std::find(others.begin(), others.end(), p) != others.end();
            if (is_reused) continue;
            ++expected;
            found += is_report(report_of([&] { this->pool.deallocate(p, bytes); }), "bad deallocation");
        }
        for (void* const p : others)
            this->pool.deallocate(p, bytes + 200);
    }
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(test::is_valid(this->pool));
}

// In slabs that other blocks keep: their pages stay, with the marks.
TYPED_TEST(hardened, pool_reports_every_free_of_a_block_that_was_not_used_since_a_trim) {
    constexpr std::size_t k_bytes = 64;
    constexpr std::size_t k_count = 4000;
    std::vector<std::byte*> blocks;
    for (std::size_t i = 0; i < k_count; ++i)
        blocks.push_back(static_cast<std::byte*>(this->pool.allocate(k_bytes)));
    std::vector<std::byte*> kept;
    for (std::size_t i = 0; i < k_count; i += 250)
        kept.push_back(std::exchange(blocks[i], nullptr));
    auto const free_all = [&](auto free) {
        for (std::byte* const p : blocks)
            if (p != nullptr) free(p);
    };
    free_all([&](std::byte* p) { this->pool.deallocate(p, k_bytes); });
    static_cast<void>(this->pool.trim());
    auto const expect_reports = [&] {
        std::size_t found = 0;
        free_all([&](std::byte* p) {
            found += is_report(report_of([&] { this->pool.deallocate(p, k_bytes); }), "double free");
        });
        EXPECT_EQ(found, k_count - kept.size());
    };
    expect_reports();
    for (std::byte*& one : kept)
        this->pool.deallocate(std::exchange(one, static_cast<std::byte*>(this->pool.allocate(k_bytes))),
                              k_bytes);
    for (std::byte* const one : kept)
        this->pool.deallocate(one, k_bytes);
    expect_reports();
    kept.clear();
    for (std::size_t i = 0; i < k_count; ++i)
        kept.push_back(static_cast<std::byte*>(this->pool.allocate(k_bytes)));
    for (std::byte* const one : kept)
        this->pool.deallocate(one, k_bytes);
    EXPECT_TRUE(test::is_valid(this->pool));
}

TYPED_TEST(hardened, pool_reports_the_free_of_a_block_that_it_never_gave) {
    auto* const p = static_cast<std::byte*>(this->pool.allocate(64));
    EXPECT_PRED2(is_report, report_of([&] { this->pool.deallocate(p + 200 * 64, 64); }), "bad deallocation");
    this->pool.deallocate(p, 64);
    EXPECT_TRUE(test::is_valid(this->pool));
}

// The mark of the block's former use is not that of a free block.
TYPED_TEST(hardened, pool_reports_nothing_of_a_large_block_that_is_used_again) {
    struct alignas(64) aligned {
        std::array<char, 1000> bytes{};
    };
    for (int i = 0; i < 100; ++i) {
        this->pool.deallocate(this->pool.allocate(50'000), 50'000);
        auto const array = this->pool.template make_rc<aligned[]>(45);
        auto const other = this->pool.template make_unique<aligned[]>(45);
        void* const empty = this->pool.allocate(0, 8192);
        this->pool.deallocate(empty, 0, 8192);
    }
    EXPECT_EQ(this->pool.stats().in_use, 0U);
}

TYPED_TEST(hardened, pool_reports_an_object_that_was_deferred_twice_before_it_is_destroyed_again) {
    struct alignas(64) aligned {
        std::string text = "text";
    };
    auto const defer_twice = [](auto p) {
        using pointer = decltype(p);
        alignas(pointer) std::array<std::byte, sizeof(pointer)> memory;
        std::memcpy(memory.data(), static_cast<void const*>(&p), sizeof(pointer));
        pooled::reclaim_scope const scope;
        p.reset();
        reinterpret_cast<pointer*>(memory.data())->reset();
    };
    EXPECT_DEATH(defer_twice(this->pool.template make_unique<std::string>(100, 'x')),
                 "double free.*CHECKED=1 for more");
    EXPECT_DEATH(defer_twice(this->pool.template make_unique<aligned>()), "double free");
}

TYPED_TEST(hardened, pool_reports_nothing_of_blocks_that_are_not_written_to) {
    for (int i = 0; i < iterations(); ++i) {
        std::size_t const bytes = this->any_size();
        void* const p = this->pool.allocate(bytes);
        { auto const object = this->pool.template make_unique<int>(i); }
        this->pool.deallocate(p, bytes);
    }
    EXPECT_EQ(this->pool.stats().in_use, 0U);
}

// At the flush at the latest, whatever else is flushed.
TYPED_TEST(hardened, pool_reports_a_pointer_into_a_block) {
    constexpr std::size_t k_bytes = 48;
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 40; ++i)
        blocks.push_back(static_cast<std::byte*>(this->pool.allocate(k_bytes)));
    // Not by report_of(): the flush holds a lock.
    EXPECT_DEATH(
        {
            for (std::size_t i = 0; i < blocks.size(); ++i)
                this->pool.deallocate(blocks[i] + (i == 20 ? 16 : 0), k_bytes);
            this->pool.trim();
        },
        "pool 'packets': no block starts there");
    for (std::byte* const p : blocks)
        this->pool.deallocate(p, k_bytes);
}

// The second free met no mark, as when another thread frees the block at the same moment.
TYPED_TEST(hardened, pool_hands_no_block_out_twice_when_its_mark_was_overwritten) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        bool const is_object = i % 2 == 0;
        std::size_t const bytes = is_object ? sizeof(int) + 8 : this->any_size() + 8;
        void* const p = this->pool.allocate(bytes, 8);
        this->pool.deallocate(p, bytes, 8);
        std::memset(p, 1, 8);
        static_cast<void>(report_of([&] { this->pool.deallocate(p, bytes, 8); }));
        auto const use_again = [&] {
            if (is_object)
                this->pool.template make_unique<int>(i).release();
            else
                std::memset(this->pool.allocate(bytes, 8), 2, 8);
        };
        bool is_found = false;
        for (int k = 0; k < 2; ++k)
            is_found |= is_report(report_of(use_again), "double free");
        found += is_found;
    }
    EXPECT_EQ(found, iterations());
}

TEST(hardened_pool, reports_every_double_free_from_another_thread) {
    pooled::pool pool{{.name = "packets"}};
    std::mt19937_64 random(7);
    int found = 0;
    for (int round = 0; round * 100 < iterations(); ++round) {
        std::size_t const bytes = 16 + random() % 1000;
        std::vector<void*> blocks;
        for (int i = 0; i < 100; ++i)
            blocks.push_back(pool.allocate(bytes));
        for (void* const p : blocks)
            pool.deallocate(p, bytes);
        std::thread([&] {
            for (void* const p : blocks)
                found += is_report(report_of([&] { pool.deallocate(p, bytes); }), "double free");
        }).join();
    }
    EXPECT_EQ(found, (iterations() + 99) / 100 * 100);
    EXPECT_TRUE(test::is_valid(pool));
}

// The other thread dropped the object, too, after this one had read the header's word.
TEST(hardened_pool, reports_a_drop_of_a_plain_object_that_another_thread_drops_at_the_same_moment) {
    using header = pooled::detail::count_header;
    pooled::rc_ptr<int> p = pooled::make_rc<int>(1);
    header& h = *(reinterpret_cast<header*>(p.get()) - 1);
    std::uint64_t const word = h.word.load(std::memory_order_relaxed);
    std::thread([&] { p.reset(); }).join();
    std::string const report = report_of([&] { static_cast<void>(h.retires(word, header::k_sole)); });
    EXPECT_NE(report.find("double free"), std::string::npos) << report;
}

// Both pools mark a free block with the same word when it starts at the same address.
TEST(hardened_pool, takes_back_the_chunks_of_a_pool_on_top_of_it) {
    pooled::pool outer{{.name = "outer"}};
    pooled::pool inner{{.name = "inner", .upstream = outer.resource()}};
    for (int round = 0; round < 3; ++round) {
        std::vector<void*> blocks;
        for (int i = 0; i < 3'000; ++i)
            blocks.push_back(inner.allocate(64));
        for (void* const each : blocks)
            inner.deallocate(each, 64);
        inner.trim();
    }
    EXPECT_EQ(outer.stats().in_use, inner.stats().upstream_bytes);
}

}  // namespace

#else

TEST(hardened_pool, is_tested_without_the_checks_of_other_builds) { GTEST_SKIP(); }

#endif
