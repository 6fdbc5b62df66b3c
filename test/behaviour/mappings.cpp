// SPDX-License-Identifier: BSL-1.0
// A process may have 65,530 mappings. A pool has as many as it has pieces of memory from the system, whatever is freed in whatever order;
// and where the system does not take memory back, because that would divide a mapping, the pool keeps it. While a thread returns
// pages, which takes microseconds for each piece, other threads use the pool. mmap(), munmap() and madvise() are replaced here.

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
std::size_t g_least_mmap = 0;       // mmap() of fewer bytes fails
std::function<void()> g_meanwhile;  // called once, by madvise()
}  // namespace

extern "C" {
// NOLINTBEGIN: names and types of libc
void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
    if (length >= g_least_mmap)
        return reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, protection, flags, file, offset));
    errno = ENOMEM;
    return MAP_FAILED;
}
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

struct kind_of_blocks {
    std::size_t bytes;
    std::size_t count;
    std::size_t align = alignof(std::max_align_t);
};

// Blocks of one kind, of which some are freed. Mappings beyond those for chunks: of the library's own tables, of the C library's heap.
class mappings_of : public testing::TestWithParam<kind_of_blocks> {
protected:
    static constexpr std::ptrdiff_t k_others = 60;

    void SetUp() override { blocks.take(count); }
    void TearDown() override {
        blocks.give_back();
        EXPECT_TRUE(test::is_valid(pool));
    }
    void drop_every_other() {
        for (std::size_t i = 0; i < blocks.size(); i += 2)
            pool.deallocate(std::exchange(blocks[i], nullptr), GetParam().bytes, GetParam().align);
        std::erase(blocks, nullptr);
    }
    // As many as chunks of 2 MiB, or of one block.
    void expect_few() const {
        std::size_t const unit = std::max<std::size_t>(GetParam().align, 16384);
        std::size_t const all = (GetParam().bytes + unit - 1) / unit * unit * count;
        std::size_t const chunks = std::min(count, all * 9 / 8 / (2 * k_mib)) + 10;
        std::size_t const calls = pool.stats().upstream_calls;
        EXPECT_LE(calls, chunks);
        EXPECT_LE(mappings() - before, k_others + static_cast<std::ptrdiff_t>(calls));
    }

    // The checked build fills each block.
    std::size_t const count = GetParam().count / (POOLED_CHECKED != 0 ? 2 : 1);
    std::ptrdiff_t const before = mappings();
    pooled::pool pool{{.huge_pages = false}};
    test::held_blocks<pooled::pool> blocks{pool, GetParam().bytes, GetParam().align};
};

TEST_P(mappings_of, a_pool_do_not_grow_when_every_other_block_is_dropped) {
    expect_few();
    drop_every_other();
    expect_few();
    pool.trim();
    expect_few();
    std::ranges::shuffle(blocks, std::mt19937(1));
    blocks.insert(blocks.end(), 2, nullptr);
    for (void*& p : blocks) {
        pool.deallocate(p, GetParam().bytes, GetParam().align);
        p = pool.allocate(GetParam().bytes, GetParam().align);
    }
    expect_few();
}

INSTANTIATE_TEST_SUITE_P(blocks_of, mappings_of,
                         testing::Values(kind_of_blocks{1500, 20'000}, kind_of_blocks{40'000, 20'000},
                                         kind_of_blocks{300'000, 2'700}, kind_of_blocks{2 * k_mib, 400},
                                         kind_of_blocks{20 * k_mib, 40}, kind_of_blocks{64, 80'000, 32768},
                                         kind_of_blocks{100'000, 8'000, 65536},
                                         kind_of_blocks{64, 4'000, k_mib},
                                         kind_of_blocks{64, 1'000, 4 * k_mib}),
                         [](auto const& tested) {
                             std::string const name = std::to_string(tested.param.bytes) + "_bytes";
                             return tested.param.align <= 16
                                        ? name
                                        : name + "_at_" + std::to_string(tested.param.align);
                         });

class a_system_that_takes_no_memory_back : public testing::Test {
protected:
    ~a_system_that_takes_no_memory_back() override {
        g_munmap_fails = false;
        g_least_mmap = 0;
    }
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

TEST_F(a_system_that_takes_no_memory_back, leaves_nothing_counted_that_no_record_could_be_made_for) {
    pooled::pool pool{{.max_bytes = 200 * k_mib, .huge_pages = false}};
    pool.deallocate(pool.allocate(100), 100);
    std::uint64_t const before = pool.stats().upstream_bytes;
    std::size_t const calls = g_munmap_calls;
    g_munmap_fails = true;
    g_least_mmap = k_mib;
    for (int i = 0; i < 20; ++i)
        EXPECT_THROW(static_cast<void>(pool.allocate(20 * k_mib)), std::bad_alloc);
    EXPECT_GT(g_munmap_calls, calls) << "no call has failed: the test shows nothing";
    EXPECT_EQ(pool.stats().upstream_bytes, before);
    g_least_mmap = 0;
    void* const p = pool.allocate(20 * k_mib);
    EXPECT_TRUE(test::is_valid(pool));
    pool.deallocate(p, 20 * k_mib);
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
