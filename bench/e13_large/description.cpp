// SPDX-License-Identifier: BSL-1.0
// Registers E13.
#include "support/registry.hpp"

namespace bench {
namespace {

const register_workload k_workload{{
    .name = "e13_large",
    .purpose = "large objects (jumbo buffers, audio blocks, video frames), whose constructor writes one byte",
    .operation = "one large object created and dropped",
    .variants = {"create_drop", "queue", "hand_over", "three_sizes", "three_sizes_queue"},
    .payloads = {65536, 262144, 1048576, 8388608},
}};

}  // namespace
}  // namespace bench
