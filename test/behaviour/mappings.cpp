// SPDX-License-Identifier: BSL-1.0
// A process may have 65,530 mappings. A pool has as many as it has pieces of memory from the system, whatever is freed in whatever order;
// and where the system does not take memory back, because that would divide a mapping, the pool keeps it. While a thread returns
// pages, which takes microseconds for each piece, other threads use the pool. munmap() and madvise() are replaced here.

#include <gtest/gtest.h>

#if !defined(POOLED_TEST_SANITIZER_ADDRESS) && !defined(POOLED_TEST_SANITIZER_THREAD)

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/internals.hpp"
#include "support/resident_pages.hpp"
#include "support/sleeper.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <utility>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
bool g_munmap_fails = false;
std::size_t g_munmap_calls = 0;
std::function<void()> g_meanwhile;  // called once, by madvise()
}  // namespace

extern "C" {
// NOLINTBEGIN: names and types of libc
int munmap(void* address, std::size_t length) noexcept {
    ++g_munmap_calls;
    if (!g_munmap_fails) return static_cast<int>(::syscall(SYS_munmap, address, length));
    errno = ENOMEM;
    return -1;
}
int madvise(void* address, std::size_t length, int advice) noexcept {
    if (auto const meanwhile = std::exchange(g_meanwhile, nullptr)) meanwhile();
    return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}
// NOLINTEND
}

namespace {

constexpr std::size_t k_mib = std::size_t{1} << 20;

[[nodiscard]] std::ptrdiff_t mappings() {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

// Blocks of one size, of which some are freed. Mappings beyond those for chunks: of the library's own tables, of the C library's heap.
class mappings_of : public testing::TestWithParam<std::size_t> {
protected:
    static constexpr std::size_t k_bytes = std::size_t{800} << 20;
    static constexpr std::ptrdiff_t k_others = 60;

    void SetUp() override { blocks.take(std::min<std::size_t>(k_bytes / GetParam() + 1, 20'000)); }
    void TearDown() override {
        blocks.give_back();
        EXPECT_TRUE(test::is_valid(pool));
    }
    void drop_every_other() {
        for (std::size_t i = 0; i < blocks.size(); i += 2)
            pool.deallocate(std::exchange(blocks[i], nullptr), GetParam());
        std::erase(blocks, nullptr);
    }

    std::ptrdiff_t const before = mappings();
    pooled::pool pool{{.huge_pages = false}};
    test::held_blocks<pooled::pool> blocks{pool, GetParam()};
};

TEST_P(mappings_of, a_pool_do_not_grow_when_every_other_block_is_dropped) {
    EXPECT_LE(mappings() - before, k_others + static_cast<std::ptrdiff_t>(pool.stats().upstream_calls));
    drop_every_other();
    std::ptrdiff_t const chunks = static_cast<std::ptrdiff_t>(pool.stats().upstream_calls);
    EXPECT_LE(mappings() - before, k_others + chunks);
    pool.trim();
    EXPECT_LE(mappings() - before, k_others + chunks);
    std::ranges::shuffle(blocks, std::mt19937(1));
    blocks.insert(blocks.end(), 2, nullptr);
    for (void*& p : blocks) {
        pool.deallocate(p, GetParam());
        p = pool.allocate(GetParam());
    }
    EXPECT_LE(mappings() - before, k_others + chunks);
}

INSTANTIATE_TEST_SUITE_P(blocks_of, mappings_of,
                         testing::Values(std::size_t{1500}, std::size_t{40'000}, std::size_t{300'000},
                                         2 * k_mib, 20 * k_mib),
                         [](auto const& tested) { return std::to_string(tested.param) + "_bytes"; });

class a_system_that_takes_no_memory_back : public testing::Test {
protected:
    ~a_system_that_takes_no_memory_back() override { g_munmap_fails = false; }
};

TEST_F(a_system_that_takes_no_memory_back, leaves_it_counted_and_usable) {
    pooled::pool pool{{.max_bytes = 64 * k_mib, .huge_pages = false}};
    test::held_blocks blocks(pool, 100'000);
    std::size_t const count = blocks.take_all();
    for (int round = 0; round < 3; ++round) {
        blocks.give_back();
        std::uint64_t const held = pool.stats().upstream_bytes;
        g_munmap_fails = true;
        std::size_t const calls = g_munmap_calls;
        pool.trim();
        EXPECT_GT(g_munmap_calls, calls) << "no call has failed: the test shows nothing";
        EXPECT_EQ(pool.stats().upstream_bytes, held);
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_EQ(blocks.take_all(), count) << "none of it is lost";
        for (void* const p : blocks)
            EXPECT_TRUE(pool.owns(p));
        g_munmap_fails = false;
    }
    blocks.give_back();
    pool.trim();
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

TEST_F(a_system_that_takes_no_memory_back, gets_the_pages_at_least) {
    if (!test::can_count_resident_pages()) GTEST_SKIP() << "pages are larger, or are emulated";
    std::size_t const bytes = 20 * k_mib;
    std::byte* memory = nullptr;
    for (bool const is_destroyed : {false, true}) {
        pooled::pool pool{{.huge_pages = false}};
        memory = static_cast<std::byte*>(pool.allocate(bytes));
        std::fill_n(memory, bytes, std::byte{1});
        pool.deallocate(memory, bytes);
        g_munmap_fails = true;
        if (!is_destroyed) {
            EXPECT_GE(pool.trim(), bytes) << "what the system got counts";
            EXPECT_EQ(pool.trim(), 0U);
            EXPECT_EQ(test::resident_pages(memory, bytes), 0U);
        }
    }
    EXPECT_EQ(test::resident_pages(memory, bytes), 0U);
}

TEST_F(a_system_that_takes_no_memory_back, does_not_make_a_bounded_pool_fail_for_another_size) {
    pooled::pool pool{{.max_bytes = 64 * k_mib, .huge_pages = false}};
    test::held_blocks(pool, 100'000).take_all();
    g_munmap_fails = true;
    EXPECT_EQ(pool.try_allocate(32 * k_mib), nullptr) << "no chunk is that long, and none can be exchanged";
    EXPECT_GT(test::held_blocks(pool, 48).take_all(), 64 * k_mib / 48 * 9 / 10);
    g_munmap_fails = false;
    void* const large = pool.try_allocate(32 * k_mib);
    EXPECT_NE(large, nullptr);
    pool.deallocate(large, 32 * k_mib);
}

TEST(a_trim, of_the_pages_of_one_size_class_lets_other_threads_use_the_others) {
    pooled::pool pool{{.name = "trimmed"}};
    test::sleeper other;
    void* kept = nullptr;
    other.run([&] { kept = pool.allocate(5000); });  // its class has a slab with more, and comes later
    test::held_blocks all(pool, 4096);
    all.take(1000);
    all.give_back(999);

    bool was_called = false;
    g_meanwhile = [&] {
        other.run([&] {
            for (int i = 0; i < 10; ++i)
                pool.deallocate(pool.allocate(5000), 5000);
        });
        was_called = true;
    };
    EXPECT_GT(pool.trim(), 0U);
    EXPECT_TRUE(was_called);
    other.run([&] { pool.deallocate(kept, 5000); });
}

}  // namespace

#endif
