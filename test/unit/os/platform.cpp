// SPDX-License-Identifier: BSL-1.0

// The contract with the operating system: pages at any alignment, and a hook at the end of a thread.

#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform_contract.hpp"

#include "support/blocks.hpp"
#include "support/resident_pages.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

TEST(platform, maps_zero_pages_at_any_alignment) {
    for (std::size_t align = 4096; align <= (std::size_t{256} << 20); align *= 4) {
        for (std::size_t const bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{100'000}}) {
            auto* const p = static_cast<unsigned char*>(platform::map_pages(bytes, align));
            ASSERT_NE(p, nullptr);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0U);
            EXPECT_TRUE(std::all_of(p, p + bytes, [](unsigned char c) { return c == 0; }));
            std::fill_n(p, bytes, static_cast<unsigned char>(0xff));
            platform::unmap_pages(p, bytes);
        }
    }
}

#if defined(__linux__) && defined(__x86_64__) && !defined(POOLED_TEST_SANITIZER_THREAD)
// 64 MiB, where nothing else is.
class place_for_pages : public testing::Test {
protected:
    static constexpr std::uintptr_t k_first = std::uintptr_t{33} << 40;
    static constexpr std::size_t k_bytes = std::size_t{64} << 20;
    void SetUp() override { g_map_places.small.choose(k_first, k_first + k_bytes); }
    void TearDown() override { g_map_places.small.choose(0, 0); }
    [[nodiscard]] static bool contains(void const* p) { return address_of(p) - k_first < k_bytes; }
};

TEST_F(place_for_pages, has_all_of_them_whatever_is_unmapped_and_however_long_they_are) {
    std::vector<std::pair<void*, std::size_t>> mapped;
    std::minstd_rand random(7);
    for (std::size_t i = 0; i < 2'000; ++i) {
        std::size_t const bytes = (random() % 60 + 1) * 16'384;
        void* const p = platform::map_pages(bytes, 16'384);
        ASSERT_TRUE(contains(p)) << i;
        mapped.emplace_back(p, bytes);
        if (mapped.size() < 20) continue;
        auto& gone = mapped[random() % mapped.size()];
        platform::unmap_pages(gone.first, gone.second);
        gone = mapped.back();
        mapped.pop_back();
    }
    for (auto const& [p, bytes] : mapped)
        platform::unmap_pages(p, bytes);
}

TEST_F(place_for_pages, that_is_full_has_others_elsewhere) {
    std::vector<void*> mapped;
    std::size_t const bytes = k_bytes / 16;
    for (std::size_t i = 0; i < 20; ++i) {
        mapped.push_back(platform::map_pages(bytes, 16'384));
        ASSERT_NE(mapped.back(), nullptr);
    }
    EXPECT_GE(std::count_if(mapped.begin(), mapped.end(), contains), 15);
    for (void* const p : mapped)
        platform::unmap_pages(p, bytes);
}
#endif

TEST(platform, says_so_when_there_are_no_more_pages) {
    EXPECT_EQ(platform::map_pages(k_size_max / 2, 4096), nullptr);
    EXPECT_EQ(platform::map_pages(4096, std::size_t{1} << 62), nullptr);
}

TEST(platform, runs_the_exit_hook_once_with_its_argument_when_a_thread_ends) {
    static int runs = 0;
    std::uintptr_t key = 0;
    ASSERT_TRUE(platform::make_exit_key(key, [](void* argument) { *static_cast<int*>(argument) += ++runs; }));
    int seen = 0;
    std::thread([&] {
        EXPECT_TRUE(platform::set_exit_argument(key, &seen));
        EXPECT_TRUE(platform::set_exit_argument(key, &seen));
    }).join();
    EXPECT_EQ(seen, 1);
}

TEST(platform, runs_the_exit_hook_after_thread_local_destructors) {
    struct at_end {
        int* order;
        int* when;
        ~at_end() { *when = ++*order; }
    };
    static int order = 0;
    std::uintptr_t key = 0;
    ASSERT_TRUE(platform::make_exit_key(key, [](void* when) { *static_cast<int*>(when) = ++order; }));
    int hook_ran = 0;
    int destructor_ran = 0;
    std::thread([&] {
        EXPECT_TRUE(platform::set_exit_argument(key, &hook_ran));
        static thread_local at_end last{&order, &destructor_ran};
        last.order = &order;
    }).join();
    EXPECT_EQ(destructor_ran, 1);
    EXPECT_EQ(hook_ran, 2);
}

TEST(platform, has_an_answer_about_the_barrier_that_does_not_change) {
    EXPECT_EQ(platform::has_heavy_barrier(), platform::enable_barrier() || POOLED_HAS_MEMBARRIER == 2)
        << "enabling twice is allowed; a process may find out that it has none, and use fences";
    EXPECT_EQ(platform::has_heavy_barrier(), platform::has_heavy_barrier());
}

TEST(platform, releases_only_whole_pages_within_a_range) {
    std::size_t const k_page = platform::page_bytes();
    auto* const p = static_cast<std::byte*>(platform::map_pages(8 * k_page, k_page));
    ASSERT_NE(p, nullptr);
    std::fill_n(p, 8 * k_page, std::byte{1});
    EXPECT_EQ(platform::release_pages(p + 100, 4 * k_page), 3 * k_page);
    EXPECT_EQ(p[k_page - 1], std::byte{1});
    EXPECT_EQ(p[4 * k_page], std::byte{1});
    if constexpr (platform::k_discards_to_zero) {
        EXPECT_EQ(p[k_page], std::byte{0});
        EXPECT_EQ(p[4 * k_page - 1], std::byte{0});
    }
    EXPECT_EQ(platform::release_pages(p + 1, k_page), 0U);
    EXPECT_EQ(platform::release_pages(p + 1, 100), 0U);
    EXPECT_TRUE(platform::unmap_pages(p, 8 * k_page));
    if (!platform::k_discards_to_zero || test::can_count_resident_pages()) {  // qemu refuses nothing
        EXPECT_EQ(platform::release_pages(p, 8 * k_page), 0U) << "the system refuses pages that it has not";
    }
}

TEST(platform, has_a_clock_that_goes_on) {
    std::int64_t const begin = platform::coarse_time();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_GE(platform::coarse_time() - begin, 10'000'000);
}

TEST(release_pages, gives_back_only_whole_pages_whatever_size_the_system_s_pages_have) {
    std::uintptr_t const base = std::uintptr_t{1} << 20;
    for (std::size_t const page : {std::size_t{4096}, std::size_t{16384}, std::size_t{65536}})
        for (std::size_t from = 0; from < 3 * 65536; from += 4096)
            for (std::size_t bytes = 0; bytes < 3 * 65536; bytes += 4096) {
                auto const [first, end] = platform::whole_pages(base + from, bytes, page);
                if (first >= end) continue;
                EXPECT_TRUE(first % page == 0 && end % page == 0);
                EXPECT_TRUE(first >= base + from && end <= base + from + bytes);
            }
}

// The lock of the library's slow paths.

TEST(mutex, is_not_freed_by_who_did_not_get_it) {
    pooled::detail::mutex lock;
    {
        pooled::detail::scoped_lock const mine(lock);
        EXPECT_FALSE(pooled::detail::try_scoped_lock(lock));
        EXPECT_FALSE(pooled::detail::try_scoped_lock(lock, false));
        EXPECT_FALSE(lock.try_lock()) << "those two freed it";
    }
    EXPECT_TRUE(pooled::detail::try_scoped_lock(lock));
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
}

TEST(mutex, keeps_threads_apart) {
    pooled::detail::mutex lock;
    long guarded = 0;
    long const rounds = test::k_sanitized ? 5'000 : 50'000;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (long n = 0; n < rounds; ++n) {
                std::scoped_lock const held(lock);
                ++guarded;
            }
        });
    for (std::thread& t : threads)
        t.join();
    EXPECT_EQ(guarded, 4 * rounds);
}

// The arena of the library's own structures.

TEST(metadata, gives_pieces_of_any_size_that_do_not_overlap) {
    static metadata_arena arena;
    std::vector<test::raw_block> pieces;
    for (int round = 0; round < 3; ++round)
        for (std::size_t bytes = 1; bytes <= 300'000; bytes = bytes * 2 + bytes / 3 + 1) {
            void* const p = arena.allocate(bytes);
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0U) << bytes;
            std::memset(p, 0xab, bytes);
            pieces.push_back({p, bytes, 64});
        }
    EXPECT_FALSE(test::overlap(pieces));
    for (auto const& [p, bytes, align] : pieces)
        arena.deallocate(p, bytes);
}

TEST(metadata, is_what_a_list_of_its_pieces_says_whatever_is_done_to_it) {
    static metadata_arena arena;
    std::mt19937 random(3);
    std::vector<test::raw_block> pieces;
    for (int step = 0; step < 20'000; ++step) {
        if (pieces.empty() || random() % 9 < 5) {
            std::size_t const bytes = std::size_t{1} << random() % 16;
            pieces.push_back({arena.allocate(bytes), bytes, 2 * k_cache_line});
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pieces.back().p) % (2 * k_cache_line), 0U);
            test::fill_pattern(pieces.back().p, bytes, bytes);
        } else {
            std::swap(pieces[random() % pieces.size()], pieces.back());
            ASSERT_TRUE(test::has_pattern(pieces.back().p, pieces.back().bytes, pieces.back().bytes));
            arena.deallocate(pieces.back().p, pieces.back().bytes);
            pieces.pop_back();
        }
    }
    EXPECT_FALSE(test::overlap(pieces));
    for (auto const& [p, bytes, align] : pieces)
        arena.deallocate(p, bytes);
}

TEST(metadata, has_set_aside_what_was_reserved) {
    static metadata_arena arena;
    arena.reserve(8192, 8);
    std::vector<test::raw_block> pieces;
    for (int i = 0; i < 8; ++i)
        pieces.push_back({arena.allocate(8192), 8192, 64});
    EXPECT_FALSE(test::overlap(pieces));
}

}  // namespace
