// SPDX-License-Identifier: BSL-1.0
// Registers E16.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e16_first_fill",
    .purpose =
        "the first objects of a fresh process, all of which stay: page faults, and huge pages, are included",
    .operation = "one object created; with threads, one thread started and ended (wall time)",
    .variants = {"one_size", "many_sizes", "threads"},
    .default_live = {1'000'000, 1'000'000, 2'000},
}};

}  // namespace
}  // namespace bench
