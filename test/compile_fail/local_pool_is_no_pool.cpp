// expect: (no matching function|could not convert|cannot convert|no viable conversion|no matching constructor|no matching conversion)
// SPDX-License-Identifier: BSL-1.0
// A function that takes a shared pool must not accept a pool for a single thread.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    pooled::local_pool pool;
    static_cast<void>(pooled::pool_allocator<int, pooled::local_pool>(pool));
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::pool_allocator<int, pooled::pool>(pool));
#endif
}
