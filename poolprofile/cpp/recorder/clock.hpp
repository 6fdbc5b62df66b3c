// SPDX-License-Identifier: BSL-1.0
// What the recorder is built with: its bounds, and the clock.
// A part of recorder.cpp, which alone includes it.
#pragma once

#include "trace_format.hpp"

#include <link.h>
#include <time.h>
#include <unwind.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECORDER_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define RECORDER_SLOW [[gnu::noinline, gnu::cold]]

namespace {

using namespace poolbench_trace;

constexpr std::uint64_t k_window_ns = 3'000'000;
constexpr std::uint64_t k_first_gap_ns = 60'000'000;  // the gap doubles after every k_windows_a_gap windows
constexpr std::uint64_t k_usual_gap_ns = 120'000'000;
constexpr std::uint32_t k_windows_a_gap = 16;
constexpr double k_long_call_ns = 2'000;  // from here on it is seen whether the thread ran all the time
constexpr double k_reading_ns = 20'000;
// Calls that may merge what was freed (may_merge) are timed outside of windows, too; those that take long are noted.
constexpr double k_noted_ns = 50'000;
constexpr double k_frequent_ns = 20'000;  // a thread frees too little in this time to be worth a timed call
constexpr double k_reading_between_ns = 1'000'000;
constexpr std::size_t k_least_merging = 1 << 10;   // glibc's: from here on it merges before it searches
constexpr std::size_t k_most_merging = 128 << 10;  // and from here on it maps memory
constexpr std::uint32_t k_blocks_a_window = 256;   // 130,000 events
constexpr std::uint64_t k_page_bytes = 4096;
constexpr std::uint32_t k_blocks_reserved = 16;  // at once
constexpr std::uint64_t k_default_bytes = 192 << 20;
constexpr std::uint32_t k_least_period = 64;
constexpr std::uint32_t k_most_period = 1 << 20;
constexpr std::uint64_t k_fewest_samples = 64;
constexpr std::uint64_t k_sampling_share = 100;  // a hundredth of a thread's time
constexpr int k_most_frames = 40;
constexpr std::uint32_t k_stacks = 1 << 14;
constexpr std::uint32_t k_types = 1 << 10;
constexpr std::uint32_t k_followed = 1 << 12;
constexpr std::uint32_t k_filter_bits = 16;

// --- the clock

inline std::uint64_t tick() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t now;
    asm volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

// For the ends of a call: what stands before it has ended, and what stands behind it has not begun. A processor that
// overlaps the readings with the call hides a short one between them.
inline std::uint64_t ordered_tick() {
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    const std::uint64_t now = tick();
    __builtin_ia32_lfence();
    return now;
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
    const std::uint64_t now = tick();
    asm volatile("isb" ::: "memory");
    return now;
#else
    return tick();
#endif
}

std::uint64_t nanoseconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace
