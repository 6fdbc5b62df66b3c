// SPDX-License-Identifier: BSL-1.0
// Registers E1.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e1_list_churn",
    .purpose = "lists of nodes of five sizes, dropped whole and refilled",
    .operation = "one node pushed (and, in time, dropped)",
    .variants = {"text", "text_moved", "code"},
}};

}  // namespace
}  // namespace bench
