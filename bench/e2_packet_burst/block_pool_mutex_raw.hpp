// SPDX-License-Identifier: BSL-1.0
// Contender `block_pool_mutex_raw`: pop and push of E2's block pool, no smart pointer.
#pragma once

#include "e2_packet_burst/block_pool_handles.hpp"

namespace bench {

struct block_pool_mutex_raw_contender : block_pool_raw_contender<std::mutex> {};

}  // namespace bench
