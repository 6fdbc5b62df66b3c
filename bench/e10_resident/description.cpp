// SPDX-License-Identifier: BSL-1.0
// Registers E10.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e10_resident",
    .purpose = "memory in use: per live object, after all are dropped, after a one-way hand-off",
    .operation = "one object created (live), created and handed over (one_way)",
    .variants = {"live", "one_way"},
    .default_live = {5'000'000, 100'000},
}};

}  // namespace
}  // namespace bench
