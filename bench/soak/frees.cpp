// SPDX-License-Identifier: BSL-1.0
// pooled-soak-frees: a thousand million frees by other threads, with threads that end, forks and trims; see frees.hpp.
//
//   pooled-soak-frees [--frees 1000000000] [--lives 20000] [--forks 10000]
//
// Result: one JSON object on standard output. Exit status 1 when something was lost, damaged or not bounded.

#include "soak/frees.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
    soak::frees_plan plan;
    CLI::App app("Frees by other threads");
    app.add_option("--frees", plan.frees);
    app.add_option("--lives", plan.lives, "Threads that are born and end");
    app.add_option("--forks", plan.forks);
    CLI11_PARSE(app, argc, argv);
    soak::frees_result const result = soak::frees(plan).run();
    std::string const fault = result.fault();
    nlohmann::json const record{{"program", "frees"},
                                {"frees", result.freed},
                                {"damaged", result.damaged},
                                {"lives", result.lives},
                                {"forks", result.forks},
                                {"failed_children", result.failed_children},
                                {"trims", result.trims},
                                {"most_upstream_bytes", result.most_upstream_bytes},
                                {"left_in_use", result.left_in_use},
                                {"seconds", result.seconds},
                                {"fault", fault}};
    std::cout << record.dump() << '\n';
    return fault.empty() ? 0 : 1;
}
