// expect: (use of deleted function|call to deleted constructor|call to implicitly-deleted copy constructor)
// SPDX-License-Identifier: BSL-1.0
// A copy would destroy the objects of the original once more.
#include "pooled/compat/boost_pool.hpp"

int main() {
    pooled::compat::object_pool<int> pool;
    pool.construct(1);
#ifndef POOLED_CONTROL
    pooled::compat::object_pool<int> copy(pool);
#endif
}
