// SPDX-License-Identifier: BSL-1.0
// Registers E6.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e6_fan_out",
    .purpose = "one thread creates packets, --threads readers share each of them",
    .operation = "one packet created, read by every reader and dropped by the last",
    .variants = {"copy"},
    .payloads = {48, 1500},
    .default_threads = 2,
}};

}  // namespace
}  // namespace bench
