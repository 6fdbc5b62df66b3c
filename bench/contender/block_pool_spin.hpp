// SPDX-License-Identifier: BSL-1.0
// Contender `block_pool_spin`: allocate_shared on E2's block pool, guarded by a spin lock.
#pragma once

#include "contender/block_pool.hpp"

namespace bench {

struct block_pool_spin_contender : block_pool_contender<spin_lock> {};

}  // namespace bench
