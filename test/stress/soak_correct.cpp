// SPDX-License-Identifier: BSL-1.0
// `make soak`'s program of correct operations, at a scale for every run of the tests. In the checked build any report ends it.

#include "../../bench/soak/correct.hpp"
#include "common.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(soak_stress, what_is_correct_is_neither_reported_nor_damaged_nor_lost) {
    soak::correct_plan const plan{.operations = stress::scaled(2'000'000, 200'000),
                                  .operations_of_life = stress::scaled(50'000, 10'000)};
    soak::correct_result const result = soak::correct(plan).run();
    EXPECT_EQ(result.fault(), std::string());
    EXPECT_GE(result.operations, plan.operations);
    EXPECT_GE(result.lives, plan.workers);
}

}  // namespace
