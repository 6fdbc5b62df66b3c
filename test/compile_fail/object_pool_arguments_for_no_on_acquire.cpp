// expect: (acquire_arguments|acquires_with|no matching)
// SPDX-License-Identifier: BSL-1.0
// The arguments of acquire are on_acquire's; an object is not built from them.
#include "pooled/pooled.hpp"

int main() {
    pooled::object_pool<int> pool;
    auto const a = pool.acquire();
#ifndef POOLED_CONTROL
    auto const b = pool.acquire(42);
#endif
}
