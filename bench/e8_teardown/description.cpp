// SPDX-License-Identifier: BSL-1.0
// Registers E8.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e8_teardown",
    .purpose = "one pointer keeps a structure of --live nodes alive, and is dropped",
    .operation = "one node destroyed and its memory given back",
    .variants = {"list", "list_scattered", "tree", "wide"},
    .default_live = {100'000, 100'000, 2'000'000, 100'000},
}};

}  // namespace
}  // namespace bench
