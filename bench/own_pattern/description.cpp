// SPDX-License-Identifier: BSL-1.0
// Registers the user's own pattern.
#include "contender/make_shared.hpp"
#include "own_settings.hpp"
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "own_pattern",
    .purpose = "a pattern of the user's own, which `poolbench try --pattern` was given",
    .operation = ::pattern<make_shared_contender>::k_operation,
    .variants = {"own"},
}};

}  // namespace
}  // namespace bench
