// expect: (no matching function for call|no matching constructor)
// SPDX-License-Identifier: BSL-1.0
// An allocator of a local_pool is not one of a pool.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    pooled::local_pool pool;
    pooled::pool_allocator<int, pooled::local_pool> local(pool);
#ifndef POOLED_CONTROL
    pooled::pool_allocator<int, pooled::pool> shared(local);
#endif
}
