// SPDX-License-Identifier: BSL-1.0
// Registers E3.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e3_pointer_overhead",
    .purpose = "what a smart pointer to an int costs",
    .operation = "one int created and dropped (pass: one call; vector: one element; memory: one int created)",
    .variants = {"create", "pass", "vector", "memory"},
}};

}  // namespace
}  // namespace bench
