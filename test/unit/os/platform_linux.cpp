// SPDX-License-Identifier: BSL-1.0

// What Linux alone has of the contract with the operating system, and what the library declares of the kernel's interface.

#include "pooled/os/metadata.hpp"
#include "pooled/os/platform.hpp"

#include "support/resident_pages.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

namespace {

using namespace pooled::detail;

static_assert(sizeof(platform::machine_memory) >= offsetof(struct sysinfo, mem_unit) + sizeof(unsigned) &&
              offsetof(platform::machine_memory, total_ram) == offsetof(struct sysinfo, totalram) &&
              offsetof(platform::machine_memory, total_swap) == offsetof(struct sysinfo, totalswap) &&
              offsetof(platform::machine_memory, unit) == offsetof(struct sysinfo, mem_unit));
static_assert(platform::k_futex_wait == FUTEX_WAIT_PRIVATE && platform::k_futex_wake == FUTEX_WAKE_PRIVATE);
static_assert(platform::k_barrier_register == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
static_assert(platform::k_barrier == MEMBARRIER_CMD_PRIVATE_EXPEDITED);
#ifdef MADV_POPULATE_WRITE
static_assert(platform::k_populate == MADV_POPULATE_WRITE);
#endif

TEST(platform, touches_pages_without_changing_them) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    constexpr std::size_t k_bytes = 64 * platform::k_page_bytes;
    auto* const p = static_cast<std::byte*>(platform::map_pages(k_bytes, platform::k_page_bytes));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(test::resident_pages(p, k_bytes), 0U);
    p[5 * platform::k_page_bytes + 7] = std::byte{42};
    platform::touch_pages(p, k_bytes);
    EXPECT_EQ(test::resident_pages(p, k_bytes), 64U);
    EXPECT_EQ(p[5 * platform::k_page_bytes + 7], std::byte{42});
    platform::unmap_pages(p, k_bytes);
}

// What a drop may call, where it fails: of a futex that has changed, and of addresses that the system refuses.
TEST(platform, leaves_errno_as_it_is) {
    auto* const no_page = reinterpret_cast<std::byte*>(8);
    atomic<std::uint32_t> state{1};
    errno = 77;
    platform::wait_while(state, 2);
    EXPECT_EQ(errno, 77);
    platform::wait_while(state, 1, 1'000);
    EXPECT_EQ(errno, 77);
    EXPECT_FALSE(platform::discard_pages(no_page, platform::k_page_bytes));
    EXPECT_EQ(errno, 77);
    EXPECT_FALSE(platform::unmap_pages(no_page, platform::k_page_bytes));
    EXPECT_EQ(errno, 77);
    bool is_huge = true;
    platform::collapse_page(no_page, platform::k_page_bytes, is_huge);
    EXPECT_FALSE(is_huge);
    EXPECT_EQ(errno, 77);
    EXPECT_EQ(platform::map_pages(std::size_t{1} << 60, platform::k_page_bytes), nullptr);
    EXPECT_EQ(errno, 77);
}

TEST(platform, counts_the_bytes_that_are_resident) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    constexpr std::size_t k_bytes = 64 * platform::k_page_bytes;
    auto* const p = static_cast<std::byte*>(platform::map_pages(k_bytes, platform::k_page_bytes));
    EXPECT_EQ(platform::resident_bytes(p, k_bytes), 0U);
    std::memset(p, 1, k_bytes / 8);
    EXPECT_EQ(platform::resident_bytes(p, k_bytes), k_bytes / 8);
    EXPECT_EQ(platform::resident_bytes(p + k_bytes / 16, k_bytes / 2), k_bytes / 16);
    EXPECT_TRUE(platform::unmap_pages(p, k_bytes));
    errno = 77;
    EXPECT_EQ(platform::resident_bytes(p, k_bytes), 0U) << "its chunk may be gone";
    EXPECT_EQ(errno, 77);
}

TEST(platform, counts_a_page_of_which_a_part_is_asked_for_among_those_that_may_be_resident) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    constexpr std::size_t k_most = 512 * platform::k_page_bytes;
    constexpr std::size_t k_bytes = k_most + platform::k_page_bytes;
    auto* const p = static_cast<std::byte*>(platform::map_pages(k_bytes, platform::k_page_bytes));
    EXPECT_EQ(platform::resident_bytes(p, 1), 0U);
    std::memset(p, 1, k_bytes);
    EXPECT_EQ(platform::resident_bytes(p, 1), platform::k_page_bytes);
    EXPECT_EQ(platform::resident_bytes(p, k_most), k_most);
    EXPECT_EQ(platform::resident_bytes(p, k_most + 1), 0U) << "more than 512";
    EXPECT_TRUE(platform::unmap_pages(p, k_bytes));
}

// What the first touch of a huge page costs more than small ones is paid with a time in which none is asked for.
TEST(platform, takes_huge_pages_as_far_as_they_are_worth_their_price) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    constexpr std::size_t k_bytes = std::size_t{2} << 20;
    std::int64_t const until_before = g_small_pages_until.load();
    std::int64_t const small_before = g_small_page_time.load();
    auto const take = [] {
        auto* const p = static_cast<std::byte*>(platform::map_pages(k_bytes, k_bytes));
        platform::take_huge_pages(p, k_bytes);
        std::size_t const resident = test::resident_pages(p, k_bytes);
        EXPECT_TRUE(platform::unmap_pages(p, k_bytes));
        return resident;
    };
    g_small_pages_until.store(platform::coarse_time() + 60'000'000'000);
    g_small_page_time.store(1'000'000'000);
    EXPECT_EQ(take(), 1U) << "the first of the small ones";
    EXPECT_LT(g_small_page_time.load(), 1'000'000'000) << "it was timed";
    g_small_pages_until.store(0);
    if (take() != 1) {  // the system has huge pages
        EXPECT_LT(g_small_pages_until.load(), platform::coarse_time()) << "small ones are slower";
        g_small_page_time.store(-1'000'000'000);
        EXPECT_NE(take(), 1U);
        EXPECT_GT(g_small_pages_until.load(), platform::coarse_time()) << "small ones are quicker";
        EXPECT_EQ(take(), 1U);
    }
    g_small_pages_until.store(until_before);
    g_small_page_time.store(small_before);
}

TEST(platform, collapses_pages_only_where_nearly_all_are_resident) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    constexpr std::size_t k_bytes = std::size_t{2} << 20;
    auto* const p = static_cast<std::byte*>(platform::map_pages(k_bytes, k_bytes));
    ASSERT_NE(p, nullptr);
    bool is_huge = true;
    platform::touch_pages(p, k_bytes / 4 * 3);
    platform::collapse_page(p, k_bytes, is_huge);
    EXPECT_FALSE(is_huge);
    EXPECT_EQ(test::resident_pages(p, k_bytes), 384U);
    platform::touch_pages(p, k_bytes / 16 * 15);
    platform::collapse_page(p, k_bytes, is_huge);
    EXPECT_EQ(test::resident_pages(p, k_bytes), is_huge ? 512U : 480U) << "the system may have no huge page";
    EXPECT_TRUE(platform::unmap_pages(p, k_bytes));
}

TEST(platform, maps_memory_beside_what_it_mapped_before) {
    constexpr std::size_t k_bytes = std::size_t{2} << 20;
    std::vector<std::byte*> mapped;
    for (int i = 0; i < 16; ++i)
        mapped.push_back(static_cast<std::byte*>(platform::map_pages(k_bytes, k_bytes)));
    std::size_t beside = 0;
    for (std::size_t i = 1; i < mapped.size(); ++i)
        beside += mapped[i] + k_bytes == mapped[i - 1] ? 1 : 0;
    EXPECT_GE(beside, 12U) << "few are mappings of their own to the kernel";
    EXPECT_TRUE(platform::unmap_pages(mapped[5], k_bytes));
    EXPECT_EQ(platform::map_pages(k_bytes, k_bytes), mapped[5]) << "a gap is filled again";
    for (std::byte* const p : mapped)
        EXPECT_TRUE(platform::unmap_pages(p, k_bytes));
}

TEST(metadata, gives_back_the_region_that_has_no_piece_in_use) {
    static metadata_arena arena;
    constexpr std::size_t k_piece = 1000;
    std::vector<void*> pieces;
    for (int i = 0; i < 1000; ++i)  // far more than one region holds
        pieces.push_back(arena.allocate(k_piece));
    for (void* const p : pieces)
        arena.deallocate(p, k_piece);
    std::size_t mapped = 0;
    for (void* const p : pieces) {
        auto const page =
            reinterpret_cast<std::uintptr_t>(p) / platform::k_page_bytes * platform::k_page_bytes;
        unsigned char state = 0;
        mapped += ::mincore(reinterpret_cast<void*>(page), 1, &state) == 0 ? 1 : 0;  // NOLINT: an address
    }
    EXPECT_LE(mapped, (std::size_t{128} << 10) / k_piece) << "one region is kept";
    EXPECT_GT(mapped, 0U);
}

}  // namespace
