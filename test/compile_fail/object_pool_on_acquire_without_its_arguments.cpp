// expect: (acquire_arguments|acquires_with|no matching)
// SPDX-License-Identifier: BSL-1.0
// An on_acquire that needs arguments is not silently omitted.
#include "pooled/pooled.hpp"

struct sized {
    void on_acquire(int& n, int size) const { n = size; }
};

int main() {
    pooled::object_pool<int, sized> pool;
    auto const a = pool.acquire(1);
#ifndef POOLED_CONTROL
    auto const b = pool.acquire();
#endif
}
