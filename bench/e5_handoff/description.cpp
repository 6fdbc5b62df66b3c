// SPDX-License-Identifier: BSL-1.0
// Registers E5.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e5_handoff",
    .purpose = "one thread creates, another drops",
    .operation = "one object created, handed over and dropped",
    .variants = {"ring"},
    .payloads = {48, 1500},
}};

}  // namespace
}  // namespace bench
