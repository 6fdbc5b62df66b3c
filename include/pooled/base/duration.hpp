// SPDX-License-Identifier: BSL-1.0
#pragma once

// std::chrono's durations, time points and clocks, without the calendar, the time zones and their streams: <shared_mutex> has
// them for its own timed locks in libstdc++ and libc++, and <chrono> costs 5,000 lines more (GCC 12), 27,000 with libc++. Who
// uses more than this of std::chrono includes <chrono>.

#include "pooled/config.hpp"

#include <shared_mutex>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using std::chrono::time_point;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
