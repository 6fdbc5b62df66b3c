// SPDX-License-Identifier: BSL-1.0
// Registers E4.
#include "e4_pool_patterns/points.hpp"
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e4_pool_patterns",
    .purpose = "a pool is made, grows by steps and is destroyed: items of 1 KiB freed in bulk, and mixed",
    .operation = "one item created, used and dropped, its share of the pool's making and end included",
    .variants = {"bulk", "mixed", "mixed_resident"},
    .steps = {e4_pool_patterns::steps(e4_pool_patterns::k_bulk),
              e4_pool_patterns::steps(e4_pool_patterns::k_mixed),
              e4_pool_patterns::steps(e4_pool_patterns::k_mixed)},
}};

}  // namespace
}  // namespace bench
