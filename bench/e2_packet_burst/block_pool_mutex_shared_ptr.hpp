// SPDX-License-Identifier: BSL-1.0
// Contender `block_pool_mutex_shared_ptr`: shared_ptr(pool.pop(), deleter that pushes) on E2's block pool.
#pragma once

#include "e2_packet_burst/block_pool_handles.hpp"

namespace bench {

struct block_pool_mutex_shared_ptr_contender : block_pool_shared_contender<std::mutex> {};

}  // namespace bench
