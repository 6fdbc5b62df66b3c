// expect: (no matching function|no matching constructor)
// SPDX-License-Identifier: BSL-1.0
// A recycle function of unique_pool that takes the pointer by value would leave no object to recycle.
#include "pooled/compat/recycle.hpp"

#include <memory>

int main() {
    auto const make = [] { return std::make_unique<int>(1); };
    recycle::unique_pool<int> const right(make, [](std::unique_ptr<int>&) {});
#ifndef POOLED_CONTROL
    recycle::unique_pool<int> const wrong(make, [](std::unique_ptr<int>) {});
#endif
}
