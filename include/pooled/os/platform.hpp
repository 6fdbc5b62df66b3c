// SPDX-License-Identifier: BSL-1.0
#pragma once

// The whole interface to the operating system. To port the library: write a class that is an operating_system, and choose it below.
//
//   operating_system       the contract: platform_contract.hpp
//   linux_platform …       the systems: platform_linux.hpp, platform_windows.hpp, platform_posix.hpp
//   platform               the system, and what is built on it alike everywhere. What inlined code calls of it is compiled with the
//                          library: no file of a user of the compiled one includes a system header
//
// Any thread may call any function.

#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#if POOLED_HAS_CODE
#include "pooled/os/kept_errno.hpp"
#endif
#if !defined(_WIN32)  // first, for the single header, which has the text of each file once
#include "pooled/os/platform_posix.hpp"
#endif
#if defined(__linux__)
#include "pooled/os/platform_linux.hpp"
#elif defined(_WIN32)
#include "pooled/os/platform_windows.hpp"
#endif

POOLED_BEGIN_DETAIL

#if !POOLED_HAS_CODE
struct system_platform {};
#elif defined(__linux__)
using system_platform = linux_platform;
#elif defined(_WIN32)
using system_platform = windows_platform;
#else
using system_platform = other_posix_platform;
#endif

#if POOLED_HAS_CODE
// 1: allowed; -1: not; 0: not read yet.
POOLED_STATE(atomic<int>, g_allows_huge_pages, {0});
#endif
// Set permanently when the system refuses the barrier that it allowed before, because a seccomp filter was installed meanwhile.
// From then on, no stopped cache is resumed and none is created: threads keep no caches, and every call takes a lock.
POOLED_STATE(atomic<bool>, g_is_barrier_refused, {false});

// Whether the thread is in a call that returns null when the system has no memory. malloc() must: an exception would call it, and a static
// program's unwinder does so under a lock that a second exception waits for.
POOLED_THREAD_STATE(bool, t_returns_null, {false});
#define POOLED_NO_MEMORY                            \
    do {                                            \
        if (t_returns_null()) return nullptr;       \
        POOLED_THROW_OR(std::bad_alloc(), nullptr); \
    } while (false)

// A variable of the environment says what the library does not understand. `what` says what it may be.
inline void report_variable(char const* name, char const* value, char const* what) noexcept {
    std::fprintf(stderr, "pooled: the environment variable %s is \"%.64s\" and is ignored; %s\n", name, value,
                 what);
}

struct platform : system_platform {
    static constexpr std::size_t k_page_bytes = 4096;  // to which sizes are rounded; pages may be larger

    // A variable of the environment; null where it is not set, or where another user set it (a program that runs setuid).
    [[nodiscard]] POOLED_API static char const* trusted_variable(char const* name) noexcept;

    // A variable of the environment that is 0 or 1; `otherwise` where it is not set. Another value is reported, with `what` it may be.
    [[nodiscard]] static bool read_switch(char const* name, bool otherwise, char const* what) noexcept {
        char const* const value = trusted_variable(name);
        if (value == nullptr) return otherwise;
        if ((*value == '0' || *value == '1') && value[1] == '\0') return *value == '1';
        detail::report_variable(name, value, what);
        return otherwise;
    }

    // Do what those of the system do.
    POOLED_API static void wait_while(atomic<std::uint32_t>& state, std::uint32_t value,
                                      std::int64_t ns = -1) noexcept;
    POOLED_API static void wake_one(atomic<std::uint32_t>& state) noexcept;
    [[nodiscard]] POOLED_API static bool move_pages(void* from, void* to, std::size_t bytes) noexcept;
    [[nodiscard]] POOLED_API static std::int64_t time() noexcept;
    // For a loop that polls something that another thread is about to change. Sleeps after a few calls, because a thread with
    // real-time priority must let the other one run.
    POOLED_API static void pause(unsigned attempt) noexcept;

    // For a loop that waits until another processor has executed a few hundred instructions at most.
    static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("isb");  // on processors without hardware threads, `yield` does not wait
#elif defined(__riscv)
        asm volatile(".4byte 0x0100000f");  // `pause`, or an empty fence on processors without Zihintpause
#endif
    }

    // A bijection on 64 bits in which each input bit affects all output bits (the finaliser of SplitMix64).
    [[nodiscard]] static constexpr std::uint64_t scatter(std::uint64_t x) noexcept {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
    }

    struct page_range {
        std::uintptr_t first;
        std::uintptr_t end;
    };
    // The pages of `page` bytes that lie wholly within [address, address + bytes); empty: first >= end.
    [[nodiscard]] static constexpr page_range whole_pages(std::uintptr_t address, std::size_t bytes,
                                                          std::size_t page) noexcept {
        return {round_up(address, page), round_down(address + bytes, page)};
    }

    [[nodiscard]] static bool is_barrier_refused() noexcept {
        return g_is_barrier_refused.load(std::memory_order_relaxed);
    }

#if !POOLED_HAS_CODE
    [[nodiscard]] static std::size_t page_bytes() noexcept;  // no code of a user calls these
    [[nodiscard]] static std::uint64_t process() noexcept;
    static void wait_for_copy() noexcept;
#else
    // A copy of the process's memory that a fork has begun is complete when this returns. Systems hold the lock of the process's mappings
    // for as long as they copy, and a new mapping needs it, even one that is refused.
    static void wait_for_copy() noexcept {
        if (void* const p = map_pages(k_page_bytes, k_page_bytes)) unmap_pages(p, k_page_bytes);
    }

    // Whether map_pages could provide `bytes` in pieces: the machine must be large enough, and the limits of the process and the
    // kernel's settings must allow the mapping. To find out, it maps all of them, untouched, and unmaps them again.
    [[nodiscard]] static bool may_map(std::size_t bytes) noexcept {
        if (!may_hold(bytes)) return false;
        void* const p = map_pages(bytes, 1);
        if (p != nullptr) unmap_pages(p, bytes);
        return p != nullptr;
    }

    // Returns the pages within [p, p + bytes) to the system. Returns the bytes. Only whole pages, because the system would round
    // lengths up and include pages that are in use.
    static std::size_t release_pages(std::byte* p, std::size_t bytes) noexcept {
        auto const [first, end] = whole_pages(address_of(p), bytes, page_bytes());
        if (first >= end || !discard_pages(p + (first - address_of(p)), end - first)) return 0;
        return end - first;
    }

    // Makes the pages of [p, p + bytes) resident and writable, so that their first use causes no page fault. The contents are kept.
    // Where the system does not support this, it writes a byte per page: only for pages that are empty.
    static void touch_pages(std::byte* p, std::size_t bytes) noexcept {
        std::size_t const page = page_bytes();
        auto const first = round_down(address_of(p), page);
        if (populate_pages(p - (address_of(p) - first), round_up(address_of(p) + bytes, page) - first))
            return;
        for (std::size_t i = 0; i < bytes; i += k_page_bytes)
            *reinterpret_cast<std::byte volatile*>(p + i) = std::byte{0};
    }

    // Called before the first heavy_barrier. False where the kernel or a sandbox does not allow the barrier, and light barriers are no
    // fences: threads then keep no caches, and every call takes a lock. Only the first call asks, which takes microseconds.
    [[nodiscard]] static bool has_heavy_barrier() noexcept {
        if constexpr (POOLED_HAS_MEMBARRIER == 0) return true;
        int has = g_has_heavy_barrier.load(std::memory_order_relaxed);
        if (has == 0) {
            kept_errno const kept;
            has = enable_barrier() ? 1 : -1;
            g_has_heavy_barrier.store(has, std::memory_order_relaxed);
        }
        return has == 1 || POOLED_HAS_MEMBARRIER == 2;
    }
    // Every running thread of the process executes a full barrier before this returns. If the system refuses, this waits until all
    // earlier stores of every thread are visible: a store stays in its processor's store buffer for microseconds at most (Morrison
    // and Afek, "Temporally bounding TSO", 2015, measured half a millisecond with interrupts; this waits 20). Without
    // POOLED_HAS_MEMBARRIER, a fence: std_atomics::light_barrier() is then one, too.
    static void heavy_barrier() noexcept {
        if (POOLED_HAS_MEMBARRIER == 1 ||
            (POOLED_HAS_MEMBARRIER == 2 && g_has_heavy_barrier.load(std::memory_order_relaxed) == 1)) {
            kept_errno const kept;
            // A forked child may have to enable it again.
            if (!is_barrier_refused() && (run_barrier() || (enable_barrier() && run_barrier()))) return;
            g_is_barrier_refused.store(true, std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            std::int64_t const end = coarse_time() + 20'000'000;
            do
                pause(~0U);
            while (coarse_time() < end);
        }
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }

    // Whether a pool may ask for huge pages, as the variable POOLED_HUGE_PAGES says to a program that runs already: 0 turns them off, 1 is
    // the default. Read once, when the first pool is made.
    [[nodiscard]] static bool allows_huge_pages() noexcept {
        int allows = g_allows_huge_pages.load(std::memory_order_relaxed);
        if (allows == 0) {
            allows =
                read_switch("POOLED_HUGE_PAGES", true, "0 turns huge pages off, 1 is the default") ? 1 : -1;
            g_allows_huge_pages.store(allows, std::memory_order_relaxed);
        }
        return allows == 1;
    }

    // Where the system has no random numbers: from the clock and the addresses of this process.
    [[nodiscard]] static std::uint64_t random_bits() noexcept {
        std::uint64_t bits = 0;
        if (random(bits)) return bits;
        return scatter(static_cast<std::uint64_t>(time()) ^ scatter(address_of(&bits)));
    }
#endif
};

// How long threads wait, in a type of its own for the model checker, whose stand-in has smaller numbers.
struct waiting {
    unsigned lock_attempts;  // to take a lock before a thread sleeps
    unsigned waiter_spins;   // looks for an object before a thread sleeps
    std::size_t fork_flags;  // threads that may have a flag of their own in the fork gate: 16 KiB
    std::int64_t
        fork_patience;  // of a fork for the threads inside, and of a thread at the gate, in nanoseconds
};
// 64 spins take some 2 µs, about as much as a sleep and a wake-up. Two threads that use one object for 1 µs of every 2 get it 0.76 million
// times a second, and 0.58 without; more threads than processors lose nothing (AMD EPYC, 2 processors). A thread that was preempted inside
// the fork gate, among 64 busy ones on 2 processors, needed up to 197 ms; whoever gives up too early costs only the child memory.
inline constexpr waiting k_waiting{
    .lock_attempts = 100, .waiter_spins = 64, .fork_flags = 256, .fork_patience = 200'000'000};

#if POOLED_HAS_CODE
POOLED_CODE char const* platform::trusted_variable(char const* name) noexcept {
    return system_platform::trusted_variable(name);
}
POOLED_CODE void platform::wait_while(atomic<std::uint32_t>& state, std::uint32_t value,
                                      std::int64_t ns) noexcept {
    system_platform::wait_while(state, value, ns);
}
POOLED_CODE void platform::wake_one(atomic<std::uint32_t>& state) noexcept {
    system_platform::wake_one(state);
}
POOLED_CODE bool platform::move_pages(void* from, void* to, std::size_t bytes) noexcept {
    return system_platform::move_pages(from, to, bytes);
}
POOLED_CODE std::int64_t platform::time() noexcept { return system_platform::time(); }
POOLED_CODE void platform::pause(unsigned attempt) noexcept {
    constexpr unsigned k_attempts_awake = 16;
    attempt < k_attempts_awake ? yield() : sleep(50'000);
}
#endif

POOLED_END_DETAIL
