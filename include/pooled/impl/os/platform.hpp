// SPDX-License-Identifier: BSL-1.0
#pragma once

// The whole interface to the operating system: to port the library, port this file.
//
//   pages      page_bytes, whole_pages, map_pages, may_map, unmap_pages, release_pages, touch_pages, take_huge_pages, collapse_page
//   barrier    has_heavy_barrier, is_barrier_refused, heavy_barrier: a full barrier on every running thread of the process
//   lifetime   thread_exit_hook, at_fork
//   program    trusted_variable, allows_huge_pages, random_bits
//   schedule   processor, wait_while, wake_one, wake_all, relax, pause, sleep, time, coarse_time, thread_time
//
// Implemented for POSIX. On Linux the barrier is membarrier(2); elsewhere it is a sequentially consistent fence, and so is
// std_atomics::light_barrier(). Any thread may call any function.

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/bits.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if !defined(__unix__) && !defined(__APPLE__)
#error "pooled: impl/os/platform.hpp needs POSIX"
#endif

#include <limits.h>
#include <time.h>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform {

// Of the kernel's interface, whose headers would be included in every user's code: test/unit/os/platform.cpp compares them.
inline constexpr int k_futex_wait = 128;       // FUTEX_WAIT_PRIVATE
inline constexpr int k_futex_wake = 129;       // FUTEX_WAKE_PRIVATE
inline constexpr int k_barrier_register = 16;  // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
inline constexpr int k_collapse = 25;          // MADV_COLLAPSE
inline constexpr int k_barrier = 8;            // MEMBARRIER_CMD_PRIVATE_EXPEDITED

inline constexpr std::size_t k_page_bytes =
    4096;  // the unit to which sizes are rounded; actual pages may be larger

// The actual page size: 16 or 64 KiB on some processors. This file rounds arguments to it before it calls the kernel, because
// madvise rounds lengths up and would include pages that are in use.
[[nodiscard]] inline std::size_t page_bytes() noexcept {
    long const bytes = ::sysconf(_SC_PAGESIZE);
    return bytes > static_cast<long>(k_page_bytes) ? static_cast<std::size_t>(bytes) : k_page_bytes;
}

struct page_range {
    std::uintptr_t first;
    std::uintptr_t end;
};
// The pages of `page` bytes that lie wholly within [address, address + bytes); empty: first >= end.
[[nodiscard]] constexpr page_range whole_pages(std::uintptr_t address, std::size_t bytes,
                                               std::size_t page) noexcept {
    return {round_up(address, page), round_down(address + bytes, page)};
}

// Whether map_pages could provide `bytes` in pieces: memory and swap must be able to hold them, and the limits of the process
// and the kernel's settings must allow the mapping. To find out, it maps all of them, untouched, and unmaps them again.
[[nodiscard]] POOLED_API bool may_map(std::size_t bytes) noexcept;

#if POOLED_HAS_CODE
// Where map_pages() looks first: below what it mapped last, or where something was unmapped since. Mappings that touch are one to
// the kernel, which allows a process 65,530.
POOLED_STATE(atomic<std::uintptr_t>, g_map_hint, {0});
inline constexpr std::size_t k_hinted_align = std::size_t{2} << 20;

// Fresh zero pages of `bytes` at a multiple of `align`, a power of two; null when the system has no more. The pages are not
// touched, so none is resident yet. Usually one call. Otherwise it maps more and unmaps the excess, so that what remains touches
// the mapping above it: `align` bytes below that are free again.
[[nodiscard]] inline void* map_pages(std::size_t bytes, std::size_t align) noexcept {
    auto const map = [](std::uintptr_t at, std::size_t length) noexcept -> std::byte* {
        void* const p = ::mmap(reinterpret_cast<void*>(at), length, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
    };
    std::size_t const page = platform::page_bytes();
    if (bytes > k_size_max - page) return nullptr;
    std::size_t const length = round_up(bytes, page);
    bool const has_hint = align >= k_hinted_align;
    std::uintptr_t const hint = has_hint ? g_map_hint.load(std::memory_order_relaxed) & ~(align - 1) : 0;
    std::byte* p = map(hint, length);
    if (p == nullptr) return nullptr;
    if ((address_of(p) & (align - 1)) != 0) {
        ::munmap(p, length);
        std::size_t const span = saturating_add(length, align);
        std::byte* const wide = span == k_size_max ? nullptr : map(0, span);
        if (wide == nullptr) return nullptr;
        std::size_t const before = round_down(address_of(wide) + align, align) - address_of(wide);
        p = wide + before;
        ::munmap(wide, before);
        if (before != align) ::munmap(p + length, align - before);
    }
    if (has_hint) g_map_hint.store(address_of(p) - length, std::memory_order_relaxed);
    return p;
}

// Requires a result of map_pages with the same `bytes`. False when the system did not take them back, because the process has as
// many mappings as it may have.
inline bool unmap_pages(void* p, std::size_t bytes) noexcept {
    if (::munmap(p, bytes) != 0) return false;
    if (bytes >= k_hinted_align) g_map_hint.store(address_of(p), std::memory_order_relaxed);
    return true;
}

// Returns the pages within [p, p + bytes) to the system. They stay mapped and read as zero when next used. Returns the bytes.
inline std::size_t release_pages(std::byte* p, std::size_t bytes) noexcept {
    auto const [first, end] = whole_pages(address_of(p), bytes, platform::page_bytes());
    if (first >= end || ::madvise(p + (first - address_of(p)), end - first, MADV_DONTNEED) != 0) return 0;
    return end - first;
}

// Makes the pages of [p, p + bytes) resident and writable, so that their first use causes no page fault. The contents are kept.
// Where the kernel does not support this (Linux before 5.14), it writes a byte per page: only for pages that are empty.
inline void touch_pages(std::byte* p, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
    std::size_t const page = platform::page_bytes();
    auto const first = round_down(address_of(p), page);
    if (::madvise(p - (address_of(p) - first), round_up(address_of(p) + bytes, page) - first,
                  MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (std::size_t i = 0; i < bytes; i += k_page_bytes)
        *reinterpret_cast<std::byte volatile*>(p + i) = std::byte{0};
}
#endif

#if POOLED_HAS_CODE
struct machine_memory {  // sysinfo(2)
    long uptime;
    unsigned long loads[3], total_ram, free_ram, shared_ram, buffer_ram, total_swap, free_swap;
    unsigned short processes, padding;
    unsigned long total_high, free_high;
    unsigned unit;  // of the sizes, in bytes
};

POOLED_CODE bool may_map(std::size_t bytes) noexcept {
#if defined(__linux__)
    machine_memory machine{};
    if (::syscall(__NR_sysinfo, &machine) == 0 && machine.unit != 0 &&
        bytes / machine.unit > std::size_t{machine.total_ram} + machine.total_swap)
        return false;
#endif
    void* const p = map_pages(bytes, 1);
    if (p != nullptr) ::munmap(p, bytes);
    return p != nullptr;
}
#endif

// Asks the system, each time: see has_heavy_barrier().
[[nodiscard]] inline bool enable_heavy_barrier() noexcept {
#if POOLED_HAS_MEMBARRIER
    return ::syscall(__NR_membarrier, k_barrier_register, 0, 0) == 0;
#else
    return true;
#endif
}

// 1: the system allows heavy_barrier; -1: it does not; 0: not asked yet. Not a guarded static: a fork may happen at any moment.
POOLED_STATE(atomic<int>, g_has_heavy_barrier, {0});

// Called before the first heavy_barrier. False where the kernel or a sandbox does not allow the barrier: threads then keep no
// caches, and every call takes a lock. Only the first call asks, which takes microseconds.
[[nodiscard]] inline bool has_heavy_barrier() noexcept {
    int has = g_has_heavy_barrier.load(std::memory_order_relaxed);
    if (has == 0) {
        has = enable_heavy_barrier() ? 1 : -1;
        g_has_heavy_barrier.store(has, std::memory_order_relaxed);
    }
    return has == 1;
}

[[nodiscard]] inline std::int64_t read_clock(clockid_t clock) noexcept {
    timespec now{};
    ::clock_gettime(clock, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
// Nanoseconds since an unspecified moment.
[[nodiscard]] inline std::int64_t time() noexcept { return platform::read_clock(CLOCK_MONOTONIC); }

// As time(), with a resolution of a few milliseconds; cheap.
[[nodiscard]] inline std::int64_t coarse_time() noexcept {
#ifdef CLOCK_MONOTONIC_COARSE
    return platform::read_clock(CLOCK_MONOTONIC_COARSE);
#else
    return platform::time();
#endif
}

#if POOLED_HAS_CODE
// Processor time of the calling thread, in nanoseconds: exact, and without the time in which other threads ran.
[[nodiscard]] inline std::int64_t thread_time() noexcept {
    return platform::read_clock(CLOCK_THREAD_CPUTIME_ID);
}

// Huge pages, as far as they are quick to get.
//
// The first touch of a huge page takes 0.2 ms, which 512 small ones exceed. But it takes 5 ms where a hypervisor had taken the memory
// back and must supply 512 small pages again. So each huge page that the library asks for is timed. After a slow one, small pages are used
// for twenty times as long: slow ones take at most a twentieth of the time. The state is the machine's: one for all pools.
POOLED_STATE(atomic<std::int64_t>, g_small_pages_until, {0});
POOLED_STATE(atomic<bool>, g_has_huge_pages, {false});  // the system has provided one
inline constexpr std::int64_t k_slow_huge_page = 1'500'000;
inline constexpr std::int64_t k_least_huge_page = 20'000;  // a small one takes 2 µs at most

[[nodiscard]] inline bool are_huge_pages_quick() noexcept {
    return platform::coarse_time() >= g_small_pages_until.load(std::memory_order_relaxed);
}
// Calls get(), which gets a huge page from the system. Returns the time it took.
template <class Get>
std::int64_t time_huge_page(Get&& get) noexcept {
    std::int64_t const begin = platform::thread_time();
    get();
    std::int64_t const took = platform::thread_time() - begin;
    if (took >= k_least_huge_page) g_has_huge_pages.store(true, std::memory_order_relaxed);
    if (took >= k_slow_huge_page)
        g_small_pages_until.store(platform::coarse_time() + 20 * took, std::memory_order_relaxed);
    return took;
}

// Asks for huge pages for fresh pages that begin at a multiple of 2 MiB, and touches the first one. The system may ignore it.
inline void take_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
    if (!are_huge_pages_quick()) return;
    ::madvise(p, bytes, MADV_HUGEPAGE);
    platform::time_huge_page([p] { *static_cast<std::byte volatile*>(p) = std::byte{0}; });
#endif
}

// Whether the system has provided a huge page before, and is quick to do so.
[[nodiscard]] inline bool may_collapse() noexcept {
    return g_has_huge_pages.load(std::memory_order_relaxed) && are_huge_pages_quick();
}
// Replaces the small pages of 2 MiB in use by a huge one, where the system supports that (Linux 6.1). Returns the time it took.
inline std::int64_t collapse_page([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef __linux__
    return platform::time_huge_page([&] { ::madvise(p, bytes, k_collapse); });
#else
    return 0;
#endif
}
#endif

// Sleeps for less than a second; may return early. Not a cancellation point on Linux, since the caller may hold a lock.
inline void sleep(long nanoseconds) noexcept {
    timespec const moment{0, nanoseconds};
#if defined(__linux__)
    ::syscall(__NR_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, nullptr);
#else
    ::nanosleep(&moment, nullptr);
#endif
}

// Set permanently when the system refuses the barrier that it allowed before, because a seccomp filter was installed meanwhile.
// From then on, no stopped cache is resumed and none is created: threads keep no caches, and every call takes a lock.
POOLED_STATE(atomic<bool>, g_is_barrier_refused, {false});
[[nodiscard]] inline bool is_barrier_refused() noexcept {
    return g_is_barrier_refused.load(std::memory_order_relaxed);
}

// Every running thread of the process executes a full barrier before this returns. If the system refuses, this waits until all
// earlier stores of every thread are visible: a store stays in its processor's store buffer for microseconds at most (Morrison
// and Afek, "Temporally bounding TSO", 2015, measured half a millisecond with interrupts; this waits 20).
inline void heavy_barrier() noexcept {
#if POOLED_HAS_MEMBARRIER
    auto const barrier = [] { return ::syscall(__NR_membarrier, k_barrier, 0, 0) == 0; };
    // A forked child may have to enable it again.
    if (!is_barrier_refused() && (barrier() || (enable_heavy_barrier() && barrier()))) return;
    g_is_barrier_refused.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::int64_t const end = coarse_time() + 20'000'000; coarse_time() < end;)
        platform::sleep(5'000'000);
#endif
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// A per-thread hook. It uses pthread keys rather than thread_local objects, because their functions run after all thread_local
// destructors of the thread, and setting one allocates no memory (a thread's control block contains its first 32 keys).
class thread_exit_hook {
public:
    constexpr thread_exit_hook() noexcept = default;

    // Called once, before the first arm().
    void create(void (*hook)(void*)) noexcept { m_created = ::pthread_key_create(&m_key, hook) == 0; }

    // When the calling thread ends, the hook will run with `argument`, which is not null. False: not supported.
    [[nodiscard]] bool arm(void* argument) const noexcept {
        return m_created && ::pthread_setspecific(m_key, argument) == 0;
    }

private:
    pthread_key_t m_key{};
    bool m_created = false;
};

// Requires that `prepare` leaves every lock of the library held, and that the other two release them. False when the system has
// no memory for the handlers.
[[nodiscard]] inline bool at_fork(void (*prepare)(), void (*parent)(), void (*child)()) noexcept {
    return ::pthread_atfork(prepare, parent, child) == 0;
}

// Sleeps while `state` is `value`, for at most `nanoseconds`, under 10^9 times 2^31; negative: without an end. May return early.
inline void wait_while(atomic<std::uint32_t>& state, std::uint32_t value,
                       std::int64_t nanoseconds = -1) noexcept {
#if defined(__linux__)
    timespec const at_most{static_cast<time_t>(nanoseconds / 1'000'000'000),
                           static_cast<long>(nanoseconds % 1'000'000'000)};
    ::syscall(__NR_futex, &state, k_futex_wait, value, nanoseconds < 0 ? nullptr : &at_most, nullptr, 0);
#else
    if (nanoseconds < 0) return std::atomic_ref(state.word()).wait(value, std::memory_order_relaxed);
    if (state.load(std::memory_order_relaxed) != value) return;
    platform::sleep(static_cast<long>(nanoseconds < 1'000'000 ? nanoseconds : 1'000'000));
#endif
}

inline void wake_one(atomic<std::uint32_t>& state) noexcept {
#if defined(__linux__)
    ::syscall(__NR_futex, &state, k_futex_wake, 1, nullptr, nullptr, 0);
#else
    std::atomic_ref(state.word()).notify_one();
#endif
}

inline void wake_all(atomic<std::uint32_t>& state) noexcept {
#if defined(__linux__)
    ::syscall(__NR_futex, &state, k_futex_wake, INT_MAX, nullptr, nullptr, 0);
#else
    std::atomic_ref(state.word()).notify_all();
#endif
}

// For a loop that waits until another processor has executed a few hundred instructions at most.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // on processors without hardware threads, `yield` does not wait
#elif defined(__riscv)
    asm volatile(".4byte 0x0100000f");  // `pause`, which is an empty fence on processors without Zihintpause
#endif
}

// The number of the processor that runs the calling thread, which may change at any moment. Not exact where the system does not tell.
[[nodiscard]] inline std::size_t processor() noexcept {
#if defined(__linux__)
    return static_cast<std::size_t>(::sched_getcpu());
#else
    return reinterpret_cast<std::uintptr_t>(::pthread_self()) / 4096;
#endif
}

// For a loop that polls something that another thread is about to change. Sleeps after a few calls, because a thread with
// real-time priority must let the other one run.
inline constexpr unsigned k_attempts_awake = 16;
inline void pause(unsigned attempt) noexcept {
    if (attempt < k_attempts_awake) {
        ::sched_yield();
    } else {
        platform::sleep(50'000);
    }
}

// The environment. Nothing is allocated, so it may be read before main.

// Null in a program that has more rights than its user: set-user-ID, set-group-ID and, with glibc, file capabilities.
[[nodiscard]] inline char const* trusted_variable(char const* name) noexcept {
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    return ::secure_getenv(name);
#else
    return ::getuid() == ::geteuid() && ::getgid() == ::getegid() ? std::getenv(name) : nullptr;
#endif
}

// 1: allowed; -1: not; 0: not read yet. Not a guarded static: a fork may happen at any moment.
POOLED_STATE(atomic<int>, g_allows_huge_pages, {0});
// Whether a pool may ask for huge pages, as the variable POOLED_HUGE_PAGES says to a program that runs already: 0 turns them off, 1 is the
// default. Read once, when the first pool is made.
[[nodiscard]] inline bool allows_huge_pages() noexcept {
    int allows = g_allows_huge_pages.load(std::memory_order_relaxed);
    if (allows != 0) return allows == 1;
    constexpr char const* k_name = "POOLED_HUGE_PAGES";
    char const* const value = platform::trusted_variable(k_name);
    bool const is_digit = value != nullptr && (value[0] == '0' || value[0] == '1') && value[1] == '\0';
    allows = is_digit && value[0] == '0' ? -1 : 1;
    int unread = 0;
    bool const is_first =
        g_allows_huge_pages.compare_exchange_strong(unread, allows, std::memory_order_relaxed);
    if (is_first && value != nullptr && !is_digit)
        std::fprintf(
            stderr,
            "pooled: the environment variable %s is \"%.32s\" and is ignored; 0 turns huge pages off, 1 is "
            "the default\n",
            k_name, value);
    return allows == 1;
}

// Numbers that a program's input does not predict: for marks and the order of addresses, not for cryptography.

// A bijection on 64 bits in which each input bit affects all output bits (the finaliser of SplitMix64).
[[nodiscard]] constexpr std::uint64_t scatter(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// From the operating system; where it has none, or refuses, from the clock and the addresses of this process.
[[nodiscard]] inline std::uint64_t random_bits() noexcept {
    std::uint64_t bits = 0;
#if defined(__linux__)
    constexpr unsigned k_do_not_wait = 1;  // GRND_NONBLOCK: does not wait for entropy early in the boot
    if (::syscall(__NR_getrandom, &bits, sizeof(bits), k_do_not_wait) == long{sizeof(bits)}) return bits;
#endif
    return scatter(static_cast<std::uint64_t>(platform::time()) ^ scatter(address_of(&bits)));
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The policy of detail/atomics.hpp, extended by functions of the system.
struct platform_atomics : std_atomics {
    static void heavy_barrier() noexcept { platform::heavy_barrier(); }
    static void wait_while(detail::atomic<std::uint32_t>& state, std::uint32_t value,
                           std::int64_t timeout_ns = -1) noexcept {
        platform::wait_while(state, value, timeout_ns);
    }
    static void wake_one(detail::atomic<std::uint32_t>& state) noexcept { platform::wake_one(state); }
    static void wake_all(detail::atomic<std::uint32_t>& state) noexcept { platform::wake_all(state); }
    static void relax() noexcept { platform::relax(); }
    [[nodiscard]] static std::int64_t time() noexcept { return platform::time(); }
    static void pause(unsigned attempt) noexcept { platform::pause(attempt); }
    // A thread_local object of the calling thread.
    template <class T>
    [[nodiscard]] static T& per_thread(T& own) noexcept {
        return own;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
