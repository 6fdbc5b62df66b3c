// SPDX-License-Identifier: BSL-1.0
#pragma once

// std::chrono's durations, time points and clocks without its calendar, time zones and streams: <shared_mutex> includes them for
// its timed locks in libstdc++ and libc++. <chrono> costs 5,000 more lines (GCC 12; libc++ 27,000); code that needs the rest of
// std::chrono includes it.

#include "pooled/config.hpp"

#include <shared_mutex>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using std::chrono::time_point;

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
