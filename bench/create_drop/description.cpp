// SPDX-License-Identifier: BSL-1.0
// Registers create_drop.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "create_drop",
    .purpose = "create and drop one object at a time, one thread",
    .operation = "one object created and dropped",
    .variants = {"loop"},
    .payloads = {48, 1500},
}};

}  // namespace
}  // namespace bench
