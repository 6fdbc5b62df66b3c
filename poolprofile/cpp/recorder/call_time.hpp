// SPDX-License-Identifier: BSL-1.0
// The processor time of a call. The counter tells how long it took; while a thread waits for malloc's lock, or another
// thread has the processor, it takes long and costs the program nothing.
//
//   reading --------- began ======= ended      passed = ended - reading; ran = processor time since then
//                           the call           the call's share: (ended - began) - (passed - ran), not less than 0
//
// The thread's clock is a system call. So it is read behind calls that took long, and in front of a call when the last
// reading is older than k_reading_ns: what is missing of `passed` is then the call's, or at most that old.
// A part of recorder.cpp, which alone includes it.
#pragma once

#include "recorder/samples.hpp"

namespace {

std::uint64_t ticks(double ns) { return static_cast<std::uint64_t>(ns * g_ticks_per_ns); }

RECORDER_SLOW void read_thread_clock() {
    t.read_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    t.read_tick = tick();
}

// In front of a call that is timed. `stale`: the age of a reading that is too old, in ns.
inline std::uint64_t begin_call(double stale = k_reading_ns) {
    if (RECORDER_UNLIKELY(tick() - t.read_tick > ticks(stale))) read_thread_clock();
    return ordered_tick();
}

RECORDER_SLOW std::uint64_t without_waiting(std::uint64_t took) {
    const std::uint64_t tick_before = t.read_tick, ns_before = t.read_ns;
    read_thread_clock();
    const std::uint64_t passed = t.read_tick - tick_before;
    const std::uint64_t ran = ticks(static_cast<double>(t.read_ns - ns_before));
    const std::uint64_t waited = passed > ran ? passed - ran : 0;
    return took > waited ? took - waited : 0;
}

// Directly behind it. In ticks.
inline std::uint64_t cost_of(std::uint64_t began, std::uint64_t ended) {
    const std::uint64_t cost = ended - began;
    return RECORDER_UNLIKELY(cost > ticks(k_long_call_ns)) ? without_waiting(cost) : cost;
}

// As much of it as an event holds.
inline std::uint64_t of_event(std::uint64_t cost) { return cost < (1u << 18) ? cost : (1u << 18) - 1; }

// Sizes for which malloc may merge what was freed earlier, and for which it does not map memory of their own: such a
// call has no work of its own that takes k_noted_ns.
inline bool may_merge(std::size_t size) { return size - k_least_merging < k_most_merging - k_least_merging; }

}  // namespace
