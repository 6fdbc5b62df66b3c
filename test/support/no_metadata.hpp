// SPDX-License-Identifier: BSL-1.0
#pragma once

// Makes allocations of the library's own structures fail, for what must work without. This cannot be undone, and malloc may
// fail from then on: use it only in a death test's child. A sanitizer needs memory of its own: skip the test then.

#include "pooled/os/metadata.hpp"

#include <cstddef>
#include <cstdlib>

#include <sys/resource.h>

namespace test {

// The library gets no more memory for its own structures from here on.
inline void end_metadata() {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 0;
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(14);
    for (std::size_t bytes = 8192; bytes >= 64; bytes /= 2)
        while (pooled::detail::g_metadata.try_allocate(bytes) != nullptr) {}
}

}  // namespace test
