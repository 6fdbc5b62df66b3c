// SPDX-License-Identifier: BSL-1.0
// Registers the workload.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "boost_pool",
    .purpose =
        "Boost.Pool's classes and ours of the same names: 48 bytes in pairs and in bursts, and containers",
    .operation = "one chunk allocated and freed, or one element added",
    .variants = {"pool", "object_pool", "singleton_pool", "null_mutex", "pool_allocator",
                 "fast_pool_allocator", "vector", "string", "list", "objects"},
    .steps = {{1, 1'000'000},
              {1, 1'000},
              {1, 1'000, 1'000'000},
              {1, 1'000'000},
              {1, 1'000},
              {1, 1'000'000},
              {10'000, 100'000},
              {100},
              {1'000'000},
              {1'000'000}},
}};

}  // namespace
}  // namespace bench
