// SPDX-License-Identifier: BSL-1.0
// Registers E7.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e7_random_replacement",
    .purpose = "each thread replaces random objects of its own; in rounds, objects of a thread that ended; "
               "in a crowd, bursts",
    .operation = "one object replaced, or created and dropped (wall time over those of all threads)",
    .variants = {"replace", "rounds", "crowd"},
    .payloads = {48, 1500},
    .default_threads = 2,
    .default_live = {10'000, 10'000, 3'000},
}};

}  // namespace
}  // namespace bench
