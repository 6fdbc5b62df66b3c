// expect: (no matching function|no matching constructor|call to deleted|constraints not satisfied|deleted)
// SPDX-License-Identifier: BSL-1.0
// A pool without an allocate function needs a default-constructible value.
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
