// SPDX-License-Identifier: BSL-1.0
// In the tracked build: behaviour/live_report.cpp.
#include "pooled/impl/instrument/tracked.hpp"
#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace {

TEST(live_report, counts_the_blocks_in_use_and_says_how_to_get_more) {
    if (POOLED_TRACKED != 0 || POOLED_CHECKED != 0) GTEST_SKIP() << "other texts, or other sizes";
    pooled::pool pool{{.name = "packets"}};
    void* const small = pool.allocate(48);
    void* const large = pool.allocate(100'000);
    std::ostringstream out;
    pool.live_report(out);
    pool.deallocate(small, 48);
    pool.deallocate(large, 100'000);
    EXPECT_NE(out.str().find("pool 'packets': 2 blocks in use"), std::string::npos) << out.str();
    EXPECT_NE(out.str().find("-DPOOLED_TRACKED=1"), std::string::npos);
    EXPECT_NE(out.str().find("1 of 48 bytes"), std::string::npos);
    EXPECT_NE(out.str().find("1 large"), std::string::npos);
}

}  // namespace
