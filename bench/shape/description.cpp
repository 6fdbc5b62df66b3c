// SPDX-License-Identifier: BSL-1.0
// Registers the user's own shape.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "shape",
    .purpose = "objects of the size, number and threads that `poolbench advise` was asked about",
    .operation = "one object created and dropped",
    .variants = {"burst", "churn", "mixed", "handoff", "list", "fill"},
    .payloads = {POOLED_BENCH_SHAPE_BYTES},
    .default_threads = 2,
    .default_live = {10'000, 10'000, 10'000, 10'000, 10'000, 10'000},
}};

}  // namespace
}  // namespace bench
