// SPDX-License-Identifier: BSL-1.0
// In the tracked build: behaviour/live_report.cpp.
#include "pooled/pool/tracking.hpp"

#include <gtest/gtest.h>

namespace {

namespace tracking = pooled::detail::tracking;

TEST(tracking, does_nothing_in_other_builds) {
    if (POOLED_TRACKED != 0) GTEST_SKIP() << "this is the tracked build";
    tracking::on_allocate(1, nullptr, 0);
    tracking::on_deallocate(nullptr);
}

}  // namespace
