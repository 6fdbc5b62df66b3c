// SPDX-License-Identifier: BSL-1.0
// pooled-soak-correct: a thousand million correct operations in the checked build, which must report none of them; see correct.hpp.
//
//   pooled-soak-correct [--operations 1000000000] [--workers 4] [--seed 1]
//
// Result: one JSON object on standard output. A report ends the program with its message, as in any checked build. Exit status 1
// when something was lost or damaged.

#include "soak/correct.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
    soak::correct_plan plan;
    CLI::App app("Correct operations in the checked build");
    app.add_option("--operations", plan.operations, "Allocations and deallocations");
    app.add_option("--workers", plan.workers)->check(CLI::Range(1, 64));
    app.add_option("--seed", plan.seed);
    CLI11_PARSE(app, argc, argv);
    soak::correct_result const result = soak::correct(plan).run();
    std::string const fault = result.fault();
    nlohmann::json const record{{"program", "correct"},
                                {"checked", POOLED_CHECKED != 0},
                                {"guard_bytes", POOLED_GUARD_BYTES},
                                {"operations", result.operations},
                                {"reports", 0},
                                {"lives", result.lives},
                                {"damaged", result.damaged},
                                {"left_in_use", result.left_in_use},
                                {"seconds", result.seconds},
                                {"fault", fault}};
    std::cout << record.dump() << '\n';
    return fault.empty() ? 0 : 1;
}
