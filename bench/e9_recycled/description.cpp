// SPDX-License-Identifier: BSL-1.0
// Registers E9.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e9_recycled",
    .purpose =
        "a buffer that is costly to build, recycled or built anew; 48: one that costs nothing to build",
    .operation = "one buffer acquired, looked at and released",
    .variants = {"loop", "held"},
    .payloads = {65536, 48},
    .default_threads = 1,
}};

}  // namespace
}  // namespace bench
