// expect: (use of deleted function|call to deleted constructor|call to implicitly-deleted copy constructor)
// SPDX-License-Identifier: BSL-1.0
// As for pool.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    pooled::local_pool pool;
#ifndef POOLED_CONTROL
    pooled::local_pool copy(pool);
#endif
}
