// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace test {

// Death tests start their program anew: for those with threads. An emulator runs no program that another one starts, so the
// presets that use one fork, as GoogleTest does by default.
inline void start_death_tests_anew() {
#if !defined(POOLED_TEST_EMULATED)
    GTEST_FLAG_SET(death_test_style, "threadsafe");
#endif
}

// `program` runs in a process of its own, which then exits: what runs at its end must find nothing wrong.
template <class Program>
void expect_good_end(Program program) {
    start_death_tests_anew();
    EXPECT_EXIT((program(), std::exit(0)), testing::ExitedWithCode(0), "");
}

}  // namespace test
