// SPDX-License-Identifier: BSL-1.0
// Registers E5.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e5_handoff",
    .purpose = "one thread creates, another drops; handed over in bursts of 32, or one at a time",
    .operation = "one object created, handed over and dropped",
    .variants = {"bursts", "single"},
    .payloads = {48, 1500},
}};

}  // namespace
}  // namespace bench
