// SPDX-License-Identifier: BSL-1.0
// One result, printed as a table row or as a JSON object on a line.
#pragma once

#include "support/registry.hpp"

#include <optional>
#include <string>
#include <vector>

namespace bench {

struct result {
    const workload* what = nullptr;
    std::string contender;
    parameters asked;
    unsigned repeat = 0;
    measurement found;
    std::optional<double> core_shared;  // the share of the moments before and after it
    std::size_t peak_rss_bytes = 0;     // of the process until then
};

double ns_per_op(const measurement& m);

void print_json_line(const result& r);
void print_table(const std::vector<result>& results);
// The first request of a runner: everything as one JSON object.
void print_list_as_json();
void print_list(const std::vector<std::string_view>& only_workloads);

}  // namespace bench
