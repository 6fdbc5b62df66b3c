// SPDX-License-Identifier: BSL-1.0
// Registers E2.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e2_packet_burst",
    .purpose = "a million packets created into a vector, then all dropped",
    .operation = "one packet created and dropped",
    .variants = {"burst", "untouched"},
    .payloads = {1500, 48},
}};

}  // namespace
}  // namespace bench
