// SPDX-License-Identifier: BSL-1.0
// Registers E17.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e17_at_bound",
    .purpose = "a pool that is full, and one beside idle threads; steps: threads, in replace those that work",
    .operation =
        "one block obtained (wall time over those of all threads), or one request that fails (failing)",
    .variants = {"replace", "failing", "fresh_large"},
    .steps = {{8, 1, 2, 32}, {1000}, {3000}},
}};

}  // namespace
}  // namespace bench
