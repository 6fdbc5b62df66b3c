// expect: (conversion from|no viable conversion|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Allocators of two tags, or of two user allocators, are on two pools.
#include "pooled/compat/boost_pool.hpp"

int main() {
    pooled::compat::pool_allocator<int> const right = pooled::compat::pool_allocator<long>();
    static_cast<void>(right);
#ifndef POOLED_CONTROL
    pooled::compat::fast_pool_allocator<int> const wrong = pooled::compat::pool_allocator<int>();
    static_cast<void>(wrong);
#endif
}
