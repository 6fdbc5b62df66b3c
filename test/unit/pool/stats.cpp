// SPDX-License-Identifier: BSL-1.0
// The statistics of a pool: exact while no other thread uses it.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/sleeper.hpp"

// Tests do not depend on it; where the benchmark has brought it along, the JSON is read by an independent parser.
#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#endif

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using pooled::detail::class_for;
using pooled::detail::class_geometry;
using pooled::detail::k_geometry;

constexpr std::size_t k_bytes = 48;
constexpr pooled::detail::class_index k_class = class_for(k_bytes, 8);
constexpr class_geometry k_shape = k_geometry[k_class];
constexpr std::size_t k_slab_blocks = pooled::detail::k_slab_bytes / k_shape.block_bytes;
constexpr std::size_t k_chunk_bytes =
    pooled::detail::k_default_chunk_bytes;  // of a pool whose slabs all have as many

template <class Pool>
struct held : test::held_blocks<Pool> {
    held(Pool& pool, std::size_t count) : test::held_blocks<Pool>(pool, k_bytes, 8) { this->take(count); }
};

template <class Pool>
class stats_of : public testing::Test {};
TYPED_TEST_SUITE(stats_of, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(stats_of, new_pool_are_zero) {
    TypeParam pool{{.name = "new"}};
    pooled::pool_stats const s = pool.stats();
    EXPECT_EQ(s.name, "new");
    EXPECT_EQ(s.in_use + s.free + s.cached + s.high_water + s.bytes_in_use + s.upstream_bytes +
                  s.upstream_calls,
              0U);
    EXPECT_EQ(s.refills + s.flushes + s.remote_frees + s.large_in_use + s.large_bytes + s.large_cached_bytes +
                  s.max_bytes,
              0U);
}

TYPED_TEST(stats_of, blocks_in_use_are_exact_at_every_step) {
    TypeParam pool;
    held blocks(pool, 0);
    for (std::size_t i = 1; i <= 3000; ++i) {
        blocks.take(1);
        if (i % 97 == 0) {
            ASSERT_EQ(pool.stats().in_use, i);
        }
    }
    for (std::size_t i = 3000; i-- != 0;) {
        blocks.give_back(1);
        if (i % 97 == 0) {
            ASSERT_EQ(pool.stats().in_use, i);
        }
    }
}

TYPED_TEST(stats_of, a_class_account_for_every_block_of_its_slabs) {
    TypeParam pool{{.chunk_bytes = k_chunk_bytes}};
    held blocks(pool, 5000);
    for (std::size_t const drop : {0UL, 1UL, 700UL, 1300UL, 2999UL}) {
        blocks.give_back(drop);
        auto const c = pool.stats().classes[k_class];
        EXPECT_EQ(c.block_bytes, k_shape.block_bytes);
        EXPECT_EQ(c.in_use, blocks.size());
        EXPECT_EQ(c.in_use + c.free + c.cached, c.slab_bytes / pooled::detail::k_slab_bytes * k_slab_blocks);
    }
    EXPECT_TRUE(blocks.empty());
}

TYPED_TEST(stats_of, the_sum_are_the_sum_of_the_classes) {
    TypeParam pool;
    std::vector<test::raw_block> blocks;
    for (std::size_t i = 0; i < 4000; ++i)
        blocks.push_back({pool.allocate(i * 8, 8), i * 8, 8});
    pooled::pool_stats const s = pool.stats();
    pooled::size_class_stats sum;
    std::uint64_t bytes = 0;
    for (auto const& c : s.classes) {
        sum += c;
        bytes += c.in_use * c.block_bytes;
    }
    EXPECT_EQ(s.in_use, sum.in_use);
    EXPECT_EQ(s.free, sum.free);
    EXPECT_EQ(s.cached, sum.cached);
    EXPECT_EQ(s.high_water, sum.high_water);
    EXPECT_EQ(s.refills, sum.refills);
    EXPECT_EQ(s.flushes, sum.flushes);
    EXPECT_EQ(s.bytes_in_use, bytes);
    for (auto const& b : blocks)
        pool.deallocate(b.p, b.bytes, b.align);
}

TEST(pool_stats, high_water_counts_what_another_thread_freed) {
    for (std::size_t const bytes : {64U, 4'096U, 65'536U, 300'000U}) {
        pooled::pool pool;
        test::held_blocks blocks(pool, bytes);
        blocks.take(1000);
        std::thread([&] { blocks.give_back(); }).join();
        EXPECT_GE(pool.stats().high_water, 1000U) << bytes;
    }
}

TYPED_TEST(stats_of, high_water_is_the_most_that_was_in_use_at_once) {
    TypeParam pool;
    held blocks(pool, 1000);
    EXPECT_EQ(pool.stats().high_water, 1000U);
    blocks.give_back();
    blocks.take(400);
    EXPECT_EQ(pool.stats().high_water, 1000U);
    blocks.give_back();
    pool.trim();
    EXPECT_EQ(pool.stats().high_water, 1000U) << "a trim does not change the past";
    blocks.take(400);
    held const more(pool, 601);
    EXPECT_EQ(pool.stats().high_water, 1001U);
}

// Nobody asked meanwhile.
TYPED_TEST(stats_of, high_water_is_noted_before_blocks_return) {
    for (std::size_t const bytes : {48U, 4'096U, 65'536U, 300'000U})
        for (std::size_t const count : {1U, 5U, 100U, 3'000U}) {
            if (count * bytes > (64U << 20)) continue;
            TypeParam pool;
            test::held_blocks<TypeParam> blocks(pool, bytes, 8);
            blocks.take(count);
            blocks.give_back();
            pool.trim();
            blocks.take(1);
            EXPECT_EQ(pool.stats().high_water, count) << bytes;
        }
}

TEST(pool_stats, high_water_is_what_was_in_use_when_all_was_discarded) {
    for (std::uint64_t count = 1; count < 100; ++count) {
        pooled::pool pool;
        for (std::uint64_t i = 0; i < count; ++i)
            static_cast<void>(pool.allocate(k_bytes));
        test::core_of(pool).discard();
        EXPECT_EQ(pool.stats().high_water, count);
    }
}

TYPED_TEST(stats_of, high_water_is_no_more_than_what_fits_into_the_pool) {
    TypeParam pool{{.max_bytes = 1 << 20}};
    std::size_t most = 0;
    for (std::size_t const bytes : {48UL, 64UL, 80UL, 96UL, 1000UL}) {
        test::held_blocks<TypeParam> blocks(pool, bytes, 8);
        most = std::max(most, blocks.take_all());
    }
    EXPECT_GE(pool.stats().high_water, most);
    EXPECT_LE(pool.stats().high_water, (1U << 20) / 48);
}

TYPED_TEST(stats_of, high_water_covers_large_allocations) {
    TypeParam pool;
    test::held_blocks(pool, 100'000).take(3);
    void* const other = pool.allocate(100'000);
    EXPECT_EQ(pool.stats().in_use, 1U);
    EXPECT_EQ(pool.stats().high_water, 3U);
    pool.deallocate(other, 100'000);
}

TYPED_TEST(stats_of, upstream_are_what_upstream_itself_counts) {
    test::counting_upstream upstream;
    TypeParam pool{{.max_bytes = 64 << 20, .upstream = &upstream}};
    held blocks(pool, 200'000);
    void* const large = pool.allocate(5'000'000);
    EXPECT_EQ(pool.stats().upstream_bytes, upstream.bytes());
    EXPECT_EQ(pool.stats().upstream_calls, upstream.allocations());
    EXPECT_EQ(pool.stats().max_bytes, std::size_t{64} << 20);
    pool.deallocate(large, 5'000'000);
    blocks.give_back();
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
    EXPECT_EQ(pool.stats().upstream_calls, upstream.allocations());
}

TYPED_TEST(stats_of, large_blocks_count_with_their_whole_blocks) {
    TypeParam pool;
    void* const a = pool.allocate(100'000);
    void* const b = pool.allocate(10, 32'768);
    pooled::pool_stats const s = pool.stats();
    EXPECT_EQ(s.large_in_use, 2U);
    EXPECT_EQ(s.large_bytes, 8U * 16'384U);
    EXPECT_EQ(s.in_use, 2U);
    EXPECT_EQ(s.bytes_in_use, s.large_bytes);
    pool.deallocate(a, 100'000);
    pool.deallocate(b, 10, 32'768);
    EXPECT_EQ(pool.stats().large_in_use, 0U);
    EXPECT_EQ(pool.stats().large_bytes, 0U);
    EXPECT_EQ(pool.stats().bytes_in_use, 0U);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(stats_of, pool_of_less_than_a_granule_count_no_more_than_it_has) {
    constexpr std::size_t k_align = 2 * pooled::detail::k_max_class_align;  // no class serves it
    TypeParam pool{{.max_bytes = 3000}};
    void* const p = pool.allocate(512, k_align);
    pooled::pool_stats const s = pool.stats();
    EXPECT_EQ(s.large_bytes, s.upstream_bytes);
    EXPECT_EQ(s.bytes_in_use, s.upstream_bytes);
    pool.deallocate(p, 512, k_align);
}

TYPED_TEST(stats_of, large_blocks_that_are_kept_count_with_all_that_upstream_gave) {
    TypeParam pool;
    pool.deallocate(pool.allocate(100'000), 100'000);
    EXPECT_GE(pool.stats().large_cached_bytes, 100'000U);
    EXPECT_EQ(pool.stats().large_cached_bytes, pool.stats().upstream_bytes);
    pool.trim();
    EXPECT_EQ(pool.stats().large_cached_bytes, 0U);
}

TYPED_TEST(stats_of, refills_and_flushes_are_exchanges_with_the_central_free_list) {
    TypeParam pool{{.chunk_bytes = k_chunk_bytes}};
    std::size_t const half = k_shape.cache_blocks / 2;
    held blocks(pool, k_slab_blocks);
    pooled::pool_stats s = pool.stats();
    EXPECT_GE(s.refills, k_slab_blocks / half) << "each brings half an array at most";
    EXPECT_LE(s.refills, k_slab_blocks / half + 3) << "the array grows in three steps";
    EXPECT_EQ(s.flushes, 0U);
    EXPECT_EQ(s.classes[k_class].refills, s.refills);
    std::size_t const most = k_shape.burst_blocks();
    held more(pool, 3 * most - k_slab_blocks);
    more.give_back();
    blocks.give_back();
    s = pool.stats();
    EXPECT_EQ(s.free + s.cached,
              s.classes[k_class].slab_bytes / pooled::detail::k_slab_bytes * k_slab_blocks);
    EXPECT_LE(s.cached, most + 1) << "of a thread that frees what it allocated";
    EXPECT_NE(s.flushes, 0U);
    EXPECT_GE(s.flushes * most / 2, 3 * most - s.cached);
    EXPECT_EQ(s.classes[k_class].flushes, s.flushes);
}

TYPED_TEST(stats_of, one_thread_know_no_remote_frees) {
    TypeParam pool;
    for (int i = 0; i < 5; ++i)
        held(pool, 3000);
    pool.trim();
    held(pool, 3000);
    EXPECT_EQ(pool.stats().remote_frees, 0U);
}

TYPED_TEST(stats_of, any_pool_print_as_a_table) {
    TypeParam pool{{.name = "packets"}};
    held const blocks(pool, 3);
    std::ostringstream out;
    out << pool.stats();
    EXPECT_NE(out.str().find("pool 'packets': 3 blocks in use"), std::string::npos) << out.str();
    EXPECT_NE(out.str().find("\n  48 B: 3 in use"), std::string::npos) << out.str();
}

TYPED_TEST(stats_of, a_class_that_has_no_memory_any_more_are_not_in_the_table) {
    TypeParam pool;
    test::held_blocks(pool, 1500).take(10);
    pool.trim();
    std::ostringstream out;
    out << pool.stats();
    EXPECT_EQ(out.str().find(": 0 in use, 0 free, 0 cached"), std::string::npos) << out.str();
}

TYPED_TEST(stats_of, long_name_is_cut_not_lost) {
    TypeParam pool{{.name = "0123456789012345678901234567890123456789012345678901234567890123456789"}};
    EXPECT_EQ(pool.name(), "01234567890123456789012345678901234567890123456");
}

TEST(pool_stats, count_every_free_on_another_thread) {
    pooled::pool pool;
    held blocks(pool, 3000);
    test::sleeper other;
    other.run([&] { blocks.give_back(1); });
    EXPECT_EQ(pool.stats().remote_frees, 1U);
    other.run([&] { blocks.give_back(1999); });
    EXPECT_EQ(pool.stats().remote_frees, 2000U);
    EXPECT_EQ(pool.stats().in_use, 1000U);
    other.end();
    EXPECT_EQ(pool.stats().remote_frees, 2000U) << "and keep them when the thread ends";
    pool.trim();
    EXPECT_EQ(pool.stats().remote_frees, 2000U);
    blocks.give_back();
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST(pool_stats, count_the_threads_that_have_a_cache) {
    pooled::pool pool;
    EXPECT_EQ(pool.stats().threads, 0U);
    held const blocks(pool, 1);
    EXPECT_EQ(pool.stats().threads, 1U);
    test::sleeper other;
    other.run([&] { pool.deallocate(pool.allocate(k_bytes, 8), k_bytes, 8); });
    EXPECT_EQ(pool.stats().threads, 2U);
    other.end();
    EXPECT_EQ(pool.stats().threads, 1U);
}

TEST(pool_stats, are_exact_after_many_threads_came_and_went) {
    pooled::pool pool;
    std::list<held<pooled::pool>> kept;
    while (kept.size() != 8)
        kept.emplace_back(pool, 0);
    for (int round = 0; round < 5; ++round) {
        std::vector<std::thread> threads;
        for (auto& mine : kept)
            threads.emplace_back([&] {
                mine.take(500);
                mine.give_back(400);
            });
        for (std::thread& t : threads)
            t.join();
        EXPECT_EQ(pool.stats().in_use, (static_cast<std::size_t>(round) + 1) * 800);
        EXPECT_EQ(pool.stats().cached, 0U);
    }
    EXPECT_TRUE(test::is_valid(pool));
    kept.clear();
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST(pool_stats, count_no_remote_free_when_a_thread_frees_what_it_found_in_anothers_cache) {
    pooled::pool pool{{.max_bytes = 64 << 10}};
    auto const take_rest = [&] { test::held_blocks(pool, k_bytes, 8).take_all(); };
    test::sleeper other;
    for (int i = 0; i < 10; ++i) {
        other.run(take_rest);
        take_rest();
    }
    EXPECT_EQ(pool.stats().remote_frees, 0U);
}

#if __has_include(<nlohmann/json.hpp>)
TYPED_TEST(stats_of, any_pool_are_valid_json_with_every_field) {
    TypeParam pool{{.name = "a \"quoted\" \\ name\n\t\x01 of mine", .max_bytes = 1 << 20}};
    held const blocks(pool, 100);
    pooled::pool_stats const s = pool.stats();
    auto const json = nlohmann::json::parse(s.to_json());
    EXPECT_EQ(json.at("name").get<std::string>(), "a \"quoted\" \\ name\n\t\x01 of mine");
    EXPECT_EQ(json.at("in_use"), s.in_use);
    EXPECT_EQ(json.at("free"), s.free);
    EXPECT_EQ(json.at("cached"), s.cached);
    EXPECT_EQ(json.at("high_water"), s.high_water);
    EXPECT_EQ(json.at("refills"), s.refills);
    EXPECT_EQ(json.at("flushes"), s.flushes);
    EXPECT_EQ(json.at("remote_frees"), s.remote_frees);
    EXPECT_EQ(json.at("bytes_in_use"), s.bytes_in_use);
    EXPECT_EQ(json.at("upstream_bytes"), s.upstream_bytes);
    EXPECT_EQ(json.at("upstream_calls"), s.upstream_calls);
    EXPECT_EQ(json.at("max_bytes"), s.max_bytes);
    EXPECT_EQ(json.at("threads"), s.threads);
    EXPECT_EQ(json.at("large_in_use"), s.large_in_use);
    EXPECT_EQ(json.at("large_bytes"), s.large_bytes);
    EXPECT_EQ(json.at("large_cached_bytes"), s.large_cached_bytes);
    ASSERT_EQ(json.at("classes").size(), 1U);
    EXPECT_EQ(json["classes"][0].at("block_bytes"), k_shape.block_bytes);
    EXPECT_EQ(json["classes"][0].at("in_use"), 100U);
    EXPECT_EQ(json["classes"][0].at("slab_bytes"), s.classes[k_class].slab_bytes);
}

TYPED_TEST(stats_of, name_of_any_bytes_are_valid_json) {
    struct {
        std::string_view name;
        std::string_view in_json;
    } const cases[] = {
        {"\xff", "\ufffd"},                                // no byte of any character
        {"a\x80z", "a\ufffdz"},                            // a later byte alone
        {"\xc3(", "\ufffd("},                              // begun, not continued
        {"\xe2\x82", "\ufffd\ufffd"},                      // cut off
        {"\xc0\xaf", "\ufffd\ufffd"},                      // an overlong slash
        {"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},            // overlong, too
        {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},            // a surrogate
        {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},  // over U+10FFFF
        {"\u00e9\u20ac\U0001f600\x7f", "\u00e9\u20ac\U0001f600\x7f"},
    };
    for (auto const& [name, in_json] : cases) {
        auto const json = nlohmann::json::parse(TypeParam{{.name = name}}.stats().to_json());
        EXPECT_EQ(json.at("name").template get<std::string>(), in_json);
    }
}

TYPED_TEST(stats_of, name_that_is_cut_within_a_character_is_still_valid_json) {
    std::string name;
    for (int i = 0; i < 40; ++i)
        name += "\xc3\xa9";
    TypeParam pool{{.name = name}};
    EXPECT_NO_THROW(EXPECT_FALSE(nlohmann::json::parse(pool.stats().to_json()).empty()));
}
#endif

}  // namespace
