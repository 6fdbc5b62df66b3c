// SPDX-License-Identifier: BSL-1.0
// Contender `block_pool_mutex`: allocate_shared on E2's block pool, guarded by a mutex.
#pragma once

#include "contender/block_pool.hpp"

namespace bench {

struct block_pool_mutex_contender : block_pool_contender<std::mutex> {};

}  // namespace bench
