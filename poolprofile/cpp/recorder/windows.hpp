// SPDX-License-Identifier: BSL-1.0
// When a window is opened and closed, and when a thread takes a sample. Whoever allocates looks at the clock; one thread at
// a time opens or closes, the others go on.
// A part of recorder.cpp, which alone includes it.
#pragma once

#include "recorder/call_time.hpp"

namespace {

// --- windows

std::uint64_t g_next_window = 0;  // ticks
std::uint64_t g_window_end = 0;
std::uint64_t g_window_first_byte = 0;

void note_time() {
    g_file->last_ns = nanoseconds(CLOCK_MONOTONIC);
    g_file->last_cpu_ns = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    g_file->last_tick = tick();
    const std::uint64_t passed = g_file->last_ns - g_file->begin_ns;
    if (passed > 1'000'000)
        g_ticks_per_ns =
            static_cast<double>(g_file->last_tick - g_file->begin_tick) / static_cast<double>(passed);
}

// Pages of the file are reserved and touched g_reserved bytes at a time.
void note_faults(std::uint64_t at) {
    rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0) return;
    const std::uint64_t ours = g_reserved / k_page_bytes;
    const std::uint64_t pages = static_cast<std::uint64_t>(used.ru_maxrss) * 1024 / k_page_bytes;
    const faults now = {at, static_cast<std::uint64_t>(used.ru_minflt) - ours,
                        pages > ours ? pages - ours : 0};
    if (void* to = place(block_kind::faults, sizeof now)) {
        memcpy(to, &now, sizeof now);
        written(block_kind::faults, sizeof now);
    }
}

RECORDER_SLOW void open_window() {
    if (!g_window_lock.try_lock()) return;  // another thread is at it
    if (!g_open && tick() >= g_next_window && !(g_file->flags & flag_full)) {
        note_modules();
        note_time();
        if (g_file->windows < k_most_windows) {
            window& now = g_file->window_of[g_file->windows];
            now = {tick(), 0, g_file->last_cpu_ns, 0};
            g_window_end = now.begin + ticks(k_window_ns);
            g_window_first_byte = g_file->used;
            ++g_file->windows;
            note_faults(now.begin);
            __atomic_store_n(&g_open, 1, __ATOMIC_RELAXED);
        } else {
            g_next_window = tick() + ticks(1e9);  // only the time is noted from here on
        }
    }
    g_window_lock.unlock();
}

RECORDER_SLOW void close_window() {
    if (!g_window_lock.try_lock()) return;
    if (g_open) {
        __atomic_store_n(&g_open, 0, __ATOMIC_RELAXED);
        note_time();
        window& now = g_file->window_of[g_file->windows - 1];
        now.cpu_end_ns = g_file->last_cpu_ns;
        now.end = g_file->last_tick;
        note_faults(now.end);
        // Short programs get several windows, long ones no more than the file can hold.
        const std::uint32_t round = g_file->windows / k_windows_a_gap;
        const double gap = round == 0 ? k_first_gap_ns
                                      : static_cast<double>(k_usual_gap_ns << (round < 12 ? round - 1 : 11));
        const double chance =
            0.75 + 0.5 * static_cast<double>(tick() * 0x9E3779B97F4A7C15u >> 32) / 4294967296.0;
        g_next_window = now.end + ticks(gap * chance);
    }
    g_window_lock.unlock();
}

inline void write_event(const event& what, std::uint64_t now) {
    if (void* to = place(block_kind::events, sizeof(event))) {
        memcpy(to, &what, sizeof what);
        written(block_kind::events, sizeof(event));
    }
    if (RECORDER_UNLIKELY(now >= g_window_end ||
                          g_file->used - g_window_first_byte > k_blocks_a_window * k_block_bytes))
        close_window();
}

void note_long_call(const long_call& what) {
    if (void* to = place(block_kind::long_calls, sizeof(long_call))) {
        memcpy(to, &what, sizeof what);
        written(block_kind::long_calls, sizeof(long_call));
    }
}

// --- a thread's countdown

// Allocations until the next sample: exponentially distributed, so that no rhythm of the program is met.
std::int64_t next_countdown() {
    t.random = t.random * 6364136223846793005u + 1442695040888963407u;
    // -ln(u) by the bits before the first one, and the rest in a straight line: right within 6 %, on average exact.
    const std::uint64_t bits = (t.random >> 11) | 1;  // 53 of them
    const int zeros = __builtin_clzll(bits) - 11;
    const double mantissa =
        static_cast<double>(bits) / static_cast<double>(std::uint64_t{1} << (52 - zeros));  // in [1, 2)
    const double minus_log = (static_cast<double>(zeros + 1) - (mantissa - 1)) * 0.69314718 * 0.9427;
    return static_cast<std::int64_t>(minus_log * t.period) + 1;
}

void begin_thread() {
    const std::uint64_t now = tick();
    t.process = g_process;
    t.counted = false;
    t.id = __atomic_add_fetch(&g_threads, 1, __ATOMIC_RELAXED);
    t.random = (now ^ (static_cast<std::uint64_t>(t.id) << 40)) * 0x9E3779B97F4A7C15u;
    t.began = now;
    t.spent = 0;
    t.allocations = 0;
    t.period = k_least_period;
    t.read_tick = 0;
    memset(t.block, 0, sizeof t.block);
}

// Whether this thread may record now; begins it when it is new, or in a new process.
inline bool may_record() {
    if (t.inside || !g_file) return false;
    if (RECORDER_UNLIKELY(t.process != g_process)) begin_thread();
    return true;
}

// The weight of a sample is the period by which it was chosen.
void take_sample(const void* object, std::size_t size, std::uintptr_t caller, std::uint64_t began) {
    const std::uint64_t id = __atomic_add_fetch(&g_sample_ids, 1, __ATOMIC_RELAXED);
    if (!(g_file->flags & flag_full)) {
        write_sample({id, began, caller, size, t.period, stack_of(caller), 0, t.gap});
        follow(object, id, size);
    }
    const std::uint64_t now = tick();
    t.spent += now - began;
    const std::uint64_t lived = now - t.began;
    const std::uint64_t share = lived / k_sampling_share;
    // A file that fills up has to last: the least period doubles with each eighth of it.
    const std::uint32_t least = k_least_period << (g_file->used * 8 / g_bytes);
    // The first stacks are slow, and a short program must not be left with three samples.
    t.allocations += t.gap;
    if (t.spent > share && t.period < k_most_period && t.period < t.allocations / k_fewest_samples)
        t.period *= 2;
    else if (t.spent < share / 2 && t.period > least)
        t.period /= 2;
}

}  // namespace
