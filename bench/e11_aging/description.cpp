// SPDX-License-Identifier: BSL-1.0
// Registers E11.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e11_aging",
    .purpose = "a list of --live nodes built, walked and dropped: in a fresh process, and after much use",
    .operation = "one node of the list built, walked over and dropped after the use",
    .variants = {"list", "survivors"},
    .default_live = {1'000'000, 1'000'000},
}};

}  // namespace
}  // namespace bench
