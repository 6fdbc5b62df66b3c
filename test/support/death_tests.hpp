// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <gtest/gtest.h>

namespace test {

// Death tests start their program anew: for those with threads. An emulator runs no program that another one starts, so the
// presets that use one fork, as GoogleTest does by default.
inline void start_death_tests_anew() {
#if !defined(POOLED_TEST_EMULATED)
    GTEST_FLAG_SET(death_test_style, "threadsafe");
#endif
}

}  // namespace test
