// expect: (no matching function|no matching constructor|call to deleted|constraints not satisfied|deleted)
// SPDX-License-Identifier: BSL-1.0
// A pool that is to make its objects itself needs a value that is default constructible.
#include "pooled/compat/recycle.hpp"

#include <memory>

struct connection {
    explicit connection(int) {}
};

int main() {
    recycle::shared_pool<connection> const right([] { return std::make_shared<connection>(80); });
#ifndef POOLED_CONTROL
    recycle::shared_pool<connection> const wrong;
#endif
}
