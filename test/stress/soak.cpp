// SPDX-License-Identifier: BSL-1.0

// `make soak`'s programs of correct operations and of frees, at a scale for every run of the tests. In the checked build any report
// ends the first.

#include "../../bench/soak/correct.hpp"
#include "../../bench/soak/frees.hpp"
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

TEST(soak_stress, frees_by_other_threads_lose_nothing_while_threads_end_and_the_process_forks) {
    soak::frees_plan const plan{.frees = stress::scaled(2'000'000, 200'000),
                                .lives = stress::scaled(400, 100),
                                .forks =
                                    stress::scaled(100, 0),  // the sanitizers fork with locks of their own
                                .forks_per_trim = 10};
    soak::frees_result const result = soak::frees(plan).run();
    EXPECT_EQ(result.fault(), std::string());
    EXPECT_GE(result.freed, plan.frees);
    EXPECT_GE(result.lives, plan.lives);
    EXPECT_EQ(result.forks, plan.forks);
}

}  // namespace
