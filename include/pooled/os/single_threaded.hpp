// SPDX-License-Identifier: BSL-1.0
#pragma once

// Whether the process has one thread, asked for the price of a load: what counts or locks needs no locked instruction then.

#include "pooled/config.hpp"

#if defined(__GLIBC__) && __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define POOLED_HAS_SINGLE_THREADED 1
#endif

POOLED_BEGIN_DETAIL

// True only while the process has one thread: glibc says so in a byte, which becomes 0 before pthread_create() makes a second one. A count
// changes by plain loads and stores then, as those of libstdc++'s std::shared_ptr do.
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_single_threaded() noexcept {
#if POOLED_HAS_SINGLE_THREADED
    return __libc_single_threaded != 0;
#else
    return false;
#endif
}

POOLED_END_DETAIL
