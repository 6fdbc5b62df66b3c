// SPDX-License-Identifier: BSL-1.0
#pragma once

// The whole interface to the operating system: to port the library, port this file.
//
//   pages      map_pages, may_map, unmap_pages, release_pages, touch_pages, advise_huge_pages
//   barrier    enable_heavy_barrier, is_barrier_refused, heavy_barrier: a full barrier on every running thread of the process
//   lifetime   at_thread_exit, at_fork
//   schedule   wait_while, wake_one, wake_all, relax, pause, coarse_time
//
// Implemented for POSIX. On Linux the barrier is membarrier(2); elsewhere it is a sequentially consistent fence, and so is
// std_atomics::light_barrier(). Any thread may call any function.

#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

#if !defined(__unix__) && !defined(__APPLE__)
#error "pooled: os/platform.hpp needs POSIX"
#endif

#include <limits.h>
#include <time.h>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform {

inline constexpr std::size_t k_page_bytes =
    4096;  // the unit that sizes are rounded to; real pages may be larger

// The real pages: 16 or 64 KiB on some processors. What the kernel is given is rounded to them by ourselves, because madvise
// rounds lengths up, to pages that are in use.
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

// Fresh zero pages of `bytes` at a multiple of `align`, a power of two; null when the system has no more. Nothing is
// touched, so nothing is resident yet. Usually one call: the kernel places mappings of one size side by side, and an
// aligned one is followed by another; only otherwise is more mapped and cut to fit.
[[nodiscard]] inline void* map_pages(std::size_t bytes, std::size_t align) noexcept {
    auto const map = [](std::size_t length) noexcept -> std::byte* {
        void* const p = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
    };
    std::byte* const first = map(bytes);
    if (first == nullptr || (address_of(first) & (align - 1)) == 0) return first;
    ::munmap(first, bytes);

    std::size_t const page = platform::page_bytes();
    std::size_t const span = saturating_add(round_up(bytes, page), align);
    if (span == k_size_max) return nullptr;
    std::byte* const wide = map(span);
    if (wide == nullptr) return nullptr;
    std::size_t const before = round_up(address_of(wide), align) - address_of(wide);
    std::size_t const after = span - before - round_up(bytes, page);
    if (before != 0) ::munmap(wide, before);
    if (after != 0) ::munmap(wide + before + round_up(bytes, page), after);
    return wide + before;
}

// Whether map_pages might give so many bytes, in pieces: no more than memory and swap can hold, and no more than limits of
// the process and the kernel's settings let it map. They are mapped at once, untouched, and given back.
[[nodiscard]] inline bool may_map(std::size_t bytes) noexcept {
#if defined(__linux__)
    struct sysinfo machine{};
    if (::sysinfo(&machine) == 0 &&
        bytes / machine.mem_unit > std::size_t{machine.totalram} + machine.totalswap)
        return false;
#endif
    void* const p = map_pages(bytes, 1);
    if (p != nullptr) ::munmap(p, bytes);
    return p != nullptr;
}

// Requires a result of map_pages with the same `bytes`.
inline void unmap_pages(void* p, std::size_t bytes) noexcept { ::munmap(p, bytes); }

// Asks for huge pages; only advice.
inline void advise_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
    ::madvise(p, bytes, MADV_HUGEPAGE);
#endif
}

// The pages within [p, p + bytes) go back to the system; they stay mapped and read as zero when they are next used.
// Returns how many bytes.
inline std::size_t release_pages(std::byte* p, std::size_t bytes) noexcept {
    auto const [first, end] = whole_pages(address_of(p), bytes, platform::page_bytes());
    if (first >= end || ::madvise(p + (first - address_of(p)), end - first, MADV_DONTNEED) != 0) return 0;
    return end - first;
}

// Makes the pages of [p, p + bytes) resident and writable, so that the first use of them is no page fault. Contents are
// kept. Where the kernel cannot (Linux before 5.14), one byte a page is written: only for pages that hold nothing yet.
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

// Once, before the first heavy_barrier. False where the kernel or a sandbox refuses it: threads then keep no caches, and
// every call takes a lock.
[[nodiscard]] inline bool enable_heavy_barrier() noexcept {
#if POOLED_HAS_MEMBARRIER
    return ::syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
    return true;
#endif
}

// Nanoseconds since some moment, precise to a few milliseconds, and cheap.
[[nodiscard]] inline std::int64_t coarse_time() noexcept {
    timespec now{};
#ifdef CLOCK_MONOTONIC_COARSE
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
    ::clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Under a second; may return early. On Linux no cancellation point: the caller may hold a lock.
inline void sleep(long nanoseconds) noexcept {
    timespec const moment{0, nanoseconds};
#if defined(__linux__)
    ::syscall(__NR_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, nullptr);
#else
    ::nanosleep(&moment, nullptr);
#endif
}

// Set for good when the system refuses the barrier that it offered before: a seccomp filter was installed meanwhile. From
// then on no cache that was stopped is opened again, and none is made: threads keep no caches, and every call takes a lock.
POOLED_STATE(std::atomic<bool>, g_is_barrier_refused, {false});
[[nodiscard]] inline bool is_barrier_refused() noexcept {
    return g_is_barrier_refused.load(std::memory_order_relaxed);
}

// Every thread of the process that runs passes a full barrier before this returns. When the system refuses it: what every
// thread has stored before is seen by all, since a store waits in its processor for microseconds at most (Morrison and
// Afek, "Temporally bounding TSO", 2015, measured half a millisecond with interrupts; this waits 20).
inline void heavy_barrier() noexcept {
#if POOLED_HAS_MEMBARRIER
    auto const barrier = [] {
        return ::syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
    };
    // A forked child may have to enable it anew.
    if (!is_barrier_refused() && (barrier() || (enable_heavy_barrier() && barrier()))) return;
    g_is_barrier_refused.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::int64_t const end = coarse_time() + 20'000'000; coarse_time() < end;)
        platform::sleep(5'000'000);
#endif
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// A per-thread hook. pthread keys and not thread_local objects: they run after all of the thread's thread_local
// destructors, and arming one takes no memory (the first 32 keys of a thread lie in its own control block).
class thread_exit_hook {
public:
    constexpr thread_exit_hook() noexcept = default;

    // Once, before the first arm().
    void create(void (*hook)(void*)) noexcept { m_created = ::pthread_key_create(&m_key, hook) == 0; }

    // The hook will run with `argument`, not null, when the calling thread ends. False when that cannot be had.
    [[nodiscard]] bool arm(void* argument) const noexcept {
        return m_created && ::pthread_setspecific(m_key, argument) == 0;
    }

private:
    pthread_key_t m_key{};
    bool m_created = false;
};

// Requires that `prepare` leaves every lock of the library held, and that the other two release them. False when the system
// has no memory for it.
[[nodiscard]] inline bool at_fork(void (*prepare)(), void (*parent)(), void (*child)()) noexcept {
    return ::pthread_atfork(prepare, parent, child) == 0;
}

// Sleeps while `state` is `value`, or a moment; may return early.
inline void wait_while(std::atomic<std::uint32_t>& state, std::uint32_t value) noexcept {
#if defined(__linux__)
    ::syscall(__NR_futex, &state, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
    state.wait(value, std::memory_order_relaxed);
#endif
}

// The same, for at most `nanoseconds`, under 10^9 times 2^31.
inline void wait_while(std::atomic<std::uint32_t>& state, std::uint32_t value,
                       std::int64_t nanoseconds) noexcept {
#if defined(__linux__)
    timespec const at_most{static_cast<time_t>(nanoseconds / 1'000'000'000),
                           static_cast<long>(nanoseconds % 1'000'000'000)};
    ::syscall(__NR_futex, &state, FUTEX_WAIT_PRIVATE, value, &at_most, nullptr, 0);
#else
    if (state.load(std::memory_order_relaxed) != value) return;
    platform::sleep(static_cast<long>(nanoseconds < 1'000'000 ? nanoseconds : 1'000'000));
#endif
}

inline void wake_one(std::atomic<std::uint32_t>& state) noexcept {
#if defined(__linux__)
    ::syscall(__NR_futex, &state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
    state.notify_one();
#endif
}

inline void wake_all(std::atomic<std::uint32_t>& state) noexcept {
#if defined(__linux__)
    ::syscall(__NR_futex, &state, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
#else
    state.notify_all();
#endif
}

// In a loop that waits for another processor, for a few hundred instructions at most.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // `yield` is no wait on processors without threads of their own
#elif defined(__riscv)
    asm volatile(
        ".4byte 0x0100000f");  // `pause`, which processors without Zihintpause take for an empty fence
#endif
}

// Between two looks at something that another thread is about to change. Sleeps after a few: a thread of real-time
// priority must let the other one run.
inline constexpr unsigned k_attempts_awake = 16;
inline void pause(unsigned attempt) noexcept {
    if (attempt < k_attempts_awake) {
        ::sched_yield();
    } else {
        platform::sleep(50'000);
    }
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The policy of base/atomics.hpp with what the system adds to it.
struct platform_atomics : std_atomics {
    static void heavy_barrier() noexcept { platform::heavy_barrier(); }
    static void wait_while(std::atomic<std::uint32_t>& state, std::uint32_t value) noexcept {
        platform::wait_while(state, value);
    }
    static void wait_while(std::atomic<std::uint32_t>& state, std::uint32_t value,
                           std::int64_t timeout_ns) noexcept {
        platform::wait_while(state, value, timeout_ns);
    }
    static void wake_one(std::atomic<std::uint32_t>& state) noexcept { platform::wake_one(state); }
    static void wake_all(std::atomic<std::uint32_t>& state) noexcept { platform::wake_all(state); }
    static void relax() noexcept { platform::relax(); }
    static void pause(unsigned attempt) noexcept { platform::pause(attempt); }
    // A thread_local object of the calling thread.
    template <class T>
    [[nodiscard]] static T& per_thread(T& own) noexcept {
        return own;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
