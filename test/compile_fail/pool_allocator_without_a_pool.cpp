// expect: (no matching function for call|no matching constructor)
// SPDX-License-Identifier: BSL-1.0
// It would not know where to allocate.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    pooled::pool pool;
    pooled::pool_allocator<int> good(pool);
#ifndef POOLED_CONTROL
    pooled::pool_allocator<int> bad;
#endif
}
