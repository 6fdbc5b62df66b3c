// expect: T must be an object type, not an array, and without const
// SPDX-License-Identifier: BSL-1.0
// A recycled object is changed by its users; they may hold it by std::shared_ptr<T const>.
#include "pooled/pooled.hpp"

#include <memory>

int main() {
    pooled::object_pool<int> pool;
    std::shared_ptr<int const> const a = pool.acquire();
#ifndef POOLED_CONTROL
    pooled::object_pool<int const> constant;
#endif
}
