// SPDX-License-Identifier: BSL-1.0
#pragma once

// The contract of os/platform.hpp by macOS: what it has beyond POSIX. Compiled and linked by `make lint`, never run.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/os/platform_posix.hpp"

#include <pthread.h>
#include <sys/mman.h>

POOLED_BEGIN_NAMESPACE
namespace detail {

// What std::atomic::wait() of the system's library calls, too; os_sync_wait_on_address() is there since macOS 14.4.
extern "C" int pooled_ulock_wait(std::uint32_t operation, void* at, std::uint64_t value,
                                 std::uint32_t microseconds) POOLED_SYMBOL("__ulock_wait");
extern "C" int pooled_ulock_wake(std::uint32_t operation, void* at, std::uint64_t)
    POOLED_SYMBOL("__ulock_wake");

struct apple_platform : posix_platform {
    static constexpr std::uint32_t k_compare_and_wait = 0x1000001;  // UL_COMPARE_AND_WAIT | ULF_NO_ERRNO
    static constexpr std::uint32_t k_wake_all = 0x100;              // ULF_WAKE_ALL

    // MADV_FREE would leave the pages in what the system says of the process's memory.
    static bool discard_pages(std::byte* p, std::size_t bytes) noexcept {
        return ::madvise(p, bytes, MADV_FREE_REUSABLE) == 0;
    }

    static void find_stack(std::uintptr_t& low, std::uintptr_t& high) noexcept {
        high = address_of(::pthread_get_stackaddr_np(::pthread_self()));
        low = high - ::pthread_get_stacksize_np(::pthread_self());
    }

    static void wait_while(atomic<std::uint32_t>& state, std::uint32_t value,
                           std::int64_t nanoseconds) noexcept {
        constexpr std::int64_t k_most = 1'000'000'000;  // 0 would be for ever
        std::int64_t const microseconds = nanoseconds < 0 ? 0 : nanoseconds / 1'000 + 1;
        pooled_ulock_wait(k_compare_and_wait, &state, value,
                          static_cast<std::uint32_t>(microseconds < k_most ? microseconds : k_most));
    }
    static void wake_one(atomic<std::uint32_t>& state) noexcept {
        pooled_ulock_wake(k_compare_and_wait, &state, 0);
    }
    static void wake_all(atomic<std::uint32_t>& state) noexcept {
        pooled_ulock_wake(k_compare_and_wait | k_wake_all, &state, 0);
    }
};

}  // namespace detail
POOLED_END_NAMESPACE

#endif
