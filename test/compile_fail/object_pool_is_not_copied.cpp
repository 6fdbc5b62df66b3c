// expect: (deleted|implicitly-deleted)
// SPDX-License-Identifier: BSL-1.0
// Objects in use find their pool by its address.
#include "pooled/pooled.hpp"

int main() {
    pooled::object_pool<int> pool;
#ifndef POOLED_CONTROL
    pooled::object_pool<int> copy(pool);
#endif
}
