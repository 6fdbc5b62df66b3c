// SPDX-License-Identifier: BSL-1.0
#pragma once

// Which sanitizer the build asked for. A sanitizer brings a malloc and system calls of its own, so tests that count
// either are skipped under it; and it is slow, so that a test may scale down.

namespace test {

#if defined(POOLED_TEST_SANITIZER_ADDRESS) || defined(POOLED_TEST_SANITIZER_THREAD)
inline constexpr bool k_sanitized = true;
#else
inline constexpr bool k_sanitized = false;
#endif

#if defined(POOLED_TEST_SANITIZER_ADDRESS)
inline constexpr bool k_address_sanitized = true;
#else
inline constexpr bool k_address_sanitized = false;
#endif

}  // namespace test
