// SPDX-License-Identifier: BSL-1.0

// What the library declares of Windows is what the system's headers declare; and their macros, before and after the library's
// headers, disturb neither. What GCC's emulated thread_local would break: thread ends.

#define WIN32_LEAN_AND_MEAN
#include "pooled/os/platform.hpp"
#include "pooled/pooled.hpp"

#include <gtest/gtest.h>
#include <windows.h>

#include <cstddef>
#include <thread>

namespace {

using namespace pooled::detail;

static_assert(platform::k_commit == MEM_COMMIT && platform::k_reserve == MEM_RESERVE &&
              platform::k_release == MEM_RELEASE && platform::k_reset == MEM_RESET &&
              platform::k_read_write == PAGE_READWRITE);
static_assert(sizeof(platform::memory_status) == sizeof(MEMORYSTATUSEX) &&
              offsetof(platform::memory_status, commit_limit) == offsetof(MEMORYSTATUSEX, ullTotalPageFile));

TEST(windows, has_the_pages_that_the_library_counts_on) {
    SYSTEM_INFO info{};
    GetSystemInfo(&info);
    EXPECT_EQ(info.dwPageSize, platform::page_bytes());
    EXPECT_EQ(info.dwAllocationGranularity, platform::k_map_unit);
}

TEST(windows, aligns_pages_with_and_without_VirtualAlloc2) {
    auto* const known = g_windows.find().allocate_aligned.load();
    for (auto* const found : {known, static_cast<windows_functions::allocate_type*>(nullptr)}) {
        g_windows.allocate_aligned.store(found);
        for (std::size_t align = 65536; align <= std::size_t{64} << 20; align *= 2) {
            void* const p = platform::map_pages(100'000, align);
            ASSERT_NE(p, nullptr);
            EXPECT_EQ(address_of(p) % align, 0U);
            EXPECT_TRUE(platform::unmap_pages(p, 100'000));
        }
    }
    g_windows.allocate_aligned.store(known);
}

TEST(windows, gives_each_thread_variables_that_last_until_its_exit_hook_has_run) {
    static void* seen = nullptr;
    std::uintptr_t key = 0;
    ASSERT_TRUE(
        platform::make_exit_key(key, [](void* state) { seen = state == &t_state() ? state : nullptr; }));
    void* of_thread = nullptr;
    std::thread([&] {
        of_thread = &t_state();
        EXPECT_TRUE(platform::set_exit_argument(key, of_thread));
    }).join();
    EXPECT_EQ(seen, of_thread);
    EXPECT_NE(of_thread, &t_state());
}

unsigned long __stdcall use_a_pool(void* pool) {
    static_cast<void>(static_cast<pooled::pool*>(pool)->make_unique<int>(1));
    return 0;
}

TEST(windows, returns_what_a_thread_of_CreateThread_cached) {
    pooled::pool pool;
    HANDLE const thread = CreateThread(nullptr, 0, use_a_pool, &pool, 0, nullptr);
    ASSERT_NE(thread, nullptr);
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
    pool.trim();
    EXPECT_EQ(pool.stats().threads, 0U);
    EXPECT_EQ(pool.stats().upstream_bytes, 0U);
}

}  // namespace
