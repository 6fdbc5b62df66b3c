// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace test {

// The alignment asked for, or the largest that a type may have: 8 KiB with Clang for Windows.
constexpr std::size_t possible_alignment(std::size_t align) {
#if defined(_WIN32) && defined(__clang__)
    return std::min<std::size_t>(align, 8192);
#else
    return align;
#endif
}

}  // namespace test
