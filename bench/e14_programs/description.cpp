// SPDX-License-Identifier: BSL-1.0
// Registers E14.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e14_programs",
    .purpose = "whole programs: a capture pipeline, an Asio server under load, JSON documents",
    .operation = "one packet, one message, or one MiB of JSON built and dropped",
    .variants = {"capture", "echo", "chat", "json"},
}};

}  // namespace
}  // namespace bench
