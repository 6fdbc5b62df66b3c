// expect: (could not convert|no viable conversion|conversion from|no matching)
// SPDX-License-Identifier: BSL-1.0
// A recycled object must not end up with a deleter that frees it.
#include "pooled/pooled.hpp"

#include <memory>

int main() {
    pooled::object_pool<int> pool;
    auto a = pool.acquire_unique();
#ifndef POOLED_CONTROL
    std::unique_ptr<int> b = pool.acquire_unique();
#endif
}
