// expect: (use of deleted function|call to deleted constructor|call to implicitly-deleted copy constructor)
// SPDX-License-Identifier: BSL-1.0
// A pool owns its blocks; a copy would own them, too.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    pooled::pool pool;
#ifndef POOLED_CONTROL
    pooled::pool copy(pool);
#endif
}
