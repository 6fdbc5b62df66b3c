// SPDX-License-Identifier: BSL-1.0
// Registers E12.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e12_latency",
    .purpose = "every single create and every single drop timed: percentiles",
    .operation = "one object created and dropped (mean of both together, with two readings of the counter)",
    .variants = {"steady", "bursts", "remote", "preempted", "preempted_3000"},
    .payloads = {48, 1500, 20'000, 60'000},
    .default_live = {100'000, 10'000, 10'000, 400'000, 400'000},
}};

}  // namespace
}  // namespace bench
