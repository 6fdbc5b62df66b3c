// SPDX-License-Identifier: BSL-1.0
#pragma once

// The contract (platform_contract.hpp) by Linux: what it has beyond POSIX, by its system calls.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/base/algorithm.hpp"
#include "pooled/os/platform_posix.hpp"

#include <limits.h>

#include <sys/syscall.h>

POOLED_BEGIN_DETAIL

// Huge pages, as far as they are worth their price.
//
// The first touch of each chunk is timed, of a huge page or of a small one (docs/mechanisms.md). What huge pages cost more than small ones
// comes to a tenth of the time at most: after one that took `t` longer, small pages are used for 10 t, and one that was quicker
// makes that shorter. The state is the machine's: one for all pools.
POOLED_STATE(atomic<std::int64_t>, g_small_pages_until, {0});
POOLED_STATE(atomic<std::int64_t>, g_small_page_time, {1'500});  // nanoseconds, averaged
POOLED_STATE(atomic<bool>, g_has_huge_pages, {false});           // the system has provided one

#if defined(__GLIBC__)
// Weak: versions may differ in what they export.
extern "C" {
[[gnu::weak]] void pooled_lock_streams() POOLED_SYMBOL("_IO_list_lock");
[[gnu::weak]] void pooled_unlock_streams() POOLED_SYMBOL("_IO_list_unlock");
[[gnu::weak]] extern char pooled_has_one_thread POOLED_SYMBOL("__libc_single_threaded");
}
#endif

struct linux_platform : posix_platform {
    static constexpr bool k_discards_to_zero = true;

    // The kernel's headers would be included in every user's code: test/unit/os/platform.cpp compares these constants with them.
    static constexpr int k_futex_wait = 128;       // FUTEX_WAIT_PRIVATE
    static constexpr int k_futex_wake = 129;       // FUTEX_WAKE_PRIVATE
    static constexpr int k_barrier_register = 16;  // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
    static constexpr int k_barrier = 8;            // MEMBARRIER_CMD_PRIVATE_EXPEDITED
    static constexpr int k_populate = 23;          // MADV_POPULATE_WRITE
    static constexpr int k_collapse = 25;          // MADV_COLLAPSE
    static constexpr int k_move = 7;               // MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP
    struct machine_memory {                        // sysinfo(2)
        long uptime;
        unsigned long loads[3], total_ram, free_ram, shared_ram, buffer_ram, total_swap, free_swap;
        unsigned short processes, padding;
        unsigned long total_high, free_high;
        unsigned unit;  // of the sizes, in bytes
    };

    static bool discard_pages(std::byte* p, std::size_t bytes) noexcept {
        kept_errno const kept;
        return ::madvise(p, bytes, MADV_DONTNEED) == 0;
    }
    // What is long goes first, as munmap() would keep the lock of the address space until all pages are free.
    static bool unmap_pages(void* p, std::size_t bytes) noexcept {
        if (bytes >= k_large_align) static_cast<void>(discard_pages(static_cast<std::byte*>(p), bytes));
        return posix_platform::unmap_pages(p, bytes);
    }
    // Since Linux 5.14.
    static bool populate_pages(std::byte* p, std::size_t bytes) noexcept {
        return ::madvise(p, bytes, k_populate) == 0;
    }
    // Since Linux 5.7.
    static bool move_pages(void* from, void* to, std::size_t bytes) noexcept {
        return ::syscall(__NR_mremap, from, bytes, bytes, k_move, to) == static_cast<long>(address_of(to));
    }
    [[nodiscard]] static bool may_hold(std::size_t bytes) noexcept {
        machine_memory machine{};
        return ::syscall(__NR_sysinfo, &machine) != 0 || machine.unit == 0 ||
               bytes / machine.unit <= std::size_t{machine.total_ram} + machine.total_swap;
    }

    [[nodiscard]] static std::size_t resident_bytes(void* p, std::size_t bytes) noexcept {
        kept_errno const kept;
        unsigned char states[512];
        std::size_t const pages = round_up(bytes, page_bytes()) / page_bytes();  // mincore() writes as many
        if (pages > sizeof(states) || ::mincore(p, bytes, states) != 0) return 0;
        std::size_t resident = 0;
        for (std::size_t i = 0; i < pages; ++i)
            resident += states[i] & 1U;
        return resident * page_bytes();
    }
    static void take_huge_pages(void* p, std::size_t bytes) noexcept {
        bool const is_worth_it = coarse_time() >= g_small_pages_until.load(std::memory_order_relaxed);
        if (is_worth_it) ::madvise(p, bytes, MADV_HUGEPAGE);
        std::int64_t const took = time_of([p] { *static_cast<std::byte volatile*>(p) = std::byte{0}; });
        if (is_worth_it && took >= k_least_huge_page) return note_huge_page(took);
        std::int64_t const average = g_small_page_time.load(std::memory_order_relaxed);
        g_small_page_time.fetch_add((detail::smaller(took, k_least_huge_page) - average) / 8,
                                    std::memory_order_relaxed);
    }
    [[nodiscard]] static bool may_collapse() noexcept {
        return g_has_huge_pages.load(std::memory_order_relaxed);
    }
    // Since Linux 6.1. The kernel holds the lock of the address space meanwhile: too long for a thread that others preempt for seconds.
    static std::int64_t collapse_page(void* p, std::size_t bytes, bool& is_huge) noexcept {
        kept_errno const kept;
        return time_of([&] {
            constexpr long k_reset_on_fork = 0x40000000;
            is_huge = (::syscall(__NR_sched_getscheduler, 0) & ~k_reset_on_fork) == SCHED_OTHER &&
                      resident_bytes(p, bytes) >= bytes / 8 * 7 && ::madvise(p, bytes, k_collapse) == 0;
        });
    }

    [[nodiscard]] static bool enable_barrier() noexcept {
        return ::syscall(__NR_membarrier, k_barrier_register, 0, 0) == 0;
    }
    static bool run_barrier() noexcept { return ::syscall(__NR_membarrier, k_barrier, 0, 0) == 0; }

    // Takes microseconds, allocates, and for the main thread reads /proc/self/maps.
    static void find_stack(std::uintptr_t& low, std::uintptr_t& high) noexcept {
        kept_errno const kept;
        pthread_attr_t attributes;
        if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
            void* first = nullptr;
            std::size_t bytes = 0;
            std::size_t guard = 0;
            if (::pthread_attr_getstack(&attributes, &first, &bytes) == 0 &&
                ::pthread_attr_getguardsize(&attributes, &guard) == 0 && bytes > guard) {
                low = address_of(first) + guard;
                high = address_of(first) + bytes;
            }
            ::pthread_attr_destroy(&attributes);
        }
    }

    static void wait_while(atomic<std::uint32_t>& state, std::uint32_t value, std::int64_t ns) noexcept {
        kept_errno const kept;
        timespec const most{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
        ::syscall(__NR_futex, &state, k_futex_wait, value, ns < 0 ? nullptr : &most, nullptr, 0);
    }
    static void wake_one(atomic<std::uint32_t>& state) noexcept {
        ::syscall(__NR_futex, &state, k_futex_wake, 1, nullptr, nullptr, 0);
    }
    static void wake_all(atomic<std::uint32_t>& state) noexcept {
        ::syscall(__NR_futex, &state, k_futex_wake, INT_MAX, nullptr, nullptr, 0);
    }
    // A system call, because nanosleep() is a cancellation point, and the caller may hold a lock.
    static void sleep(std::int64_t ns) noexcept {
        kept_errno const kept;
        timespec const moment{0, static_cast<long>(ns)};
        ::syscall(__NR_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, nullptr);
    }

    // With glibc, whose fork() takes the same lock, and frees it in the child, unless the process has one thread.
    [[nodiscard]] static bool lock_streams() noexcept {
#if defined(__GLIBC__)
        bool const can = pooled_lock_streams != nullptr && pooled_unlock_streams != nullptr &&
                         &pooled_has_one_thread != nullptr && pooled_has_one_thread == 0;
        if (can) pooled_lock_streams();
        return can;
#else
        return false;
#endif
    }
    static void unlock_streams() noexcept {
#if defined(__GLIBC__)
        pooled_unlock_streams();
#endif
    }

    [[nodiscard]] static std::size_t processor() noexcept {
        return static_cast<std::size_t>(::sched_getcpu());
    }

    // With glibc, file capabilities count, too.
    [[nodiscard]] static char const* trusted_variable(char const* name) noexcept {
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
        return ::secure_getenv(name);
#else
        return posix_platform::trusted_variable(name);
#endif
    }
    [[nodiscard]] static bool random(std::uint64_t& bits) noexcept {
        constexpr unsigned k_do_not_wait = 1;  // GRND_NONBLOCK: does not wait for entropy early in the boot
        return ::syscall(__NR_getrandom, &bits, sizeof(bits), k_do_not_wait) == long{sizeof(bits)};
    }
    // A container may refuse the call.
    [[nodiscard]] static std::size_t read_own_memory(void const* from, void* to, std::size_t bytes) noexcept {
        struct part {  // iovec
            void const* begin;
            std::size_t bytes;
        };
        part const here{to, bytes};
        part const there{from, bytes};
        auto const read =
            ::syscall(__NR_process_vm_readv, static_cast<long>(::getpid()), &here, 1L, &there, 1L, 0L);
        if (read >= 0) return static_cast<std::size_t>(read);
        return errno == EFAULT ? 0 : posix_platform::read_own_memory(from, to, bytes);
    }

private:
    static constexpr std::int64_t k_least_huge_page = 20'000;  // a small one takes 10 us at most
    static constexpr std::int64_t k_price = 10;                // a tenth of the time
    static constexpr std::int64_t k_credit = 100'000'000;      // of quick ones

    static void note_huge_page(std::int64_t took) noexcept {
        g_has_huge_pages.store(true, std::memory_order_relaxed);
        std::int64_t const dearer = took - 512 * g_small_page_time.load(std::memory_order_relaxed);
        std::int64_t const until = g_small_pages_until.load(std::memory_order_relaxed);
        std::int64_t const from = detail::larger(until, coarse_time() - k_credit);
        g_small_pages_until.store(from + k_price * dearer, std::memory_order_relaxed);
    }
    // The time of the processor that call() takes, without that in which other threads ran.
    template <class Call>
    [[nodiscard]] static std::int64_t time_of(Call&& call) noexcept {
        std::int64_t const begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
        call();
        return read_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
};

POOLED_END_DETAIL

#endif
