// SPDX-License-Identifier: BSL-1.0
// Registers the user's own type.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "own_type",
    .purpose = "a type of the user's own, which `poolbench try` was given",
    .operation = "one object created and dropped",
    .variants = {"create_drop", "burst", "handoff", "replace", "list"},
    .default_threads = 2,
    .default_live = {10'000, 10'000, 10'000, 10'000, 10'000},
}};

}  // namespace
}  // namespace bench
