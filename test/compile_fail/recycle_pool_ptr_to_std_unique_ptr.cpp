// expect: (conversion from|could not convert|no viable conversion)
// SPDX-License-Identifier: BSL-1.0
// A pool_ptr recycles; converted to a plain std::unique_ptr it would silently delete. release() makes that explicit.
#include "pooled/compat/recycle.hpp"

#include <memory>

int main() {
    recycle::unique_pool<int> pool;
    std::unique_ptr<int> right(pool.allocate().release());
#ifndef POOLED_CONTROL
    std::unique_ptr<int> wrong = pool.allocate();
#endif
}
