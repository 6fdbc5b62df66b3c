// expect: (no matching function for call to .make_unique|no matching function)
// SPDX-License-Identifier: BSL-1.0
// Elements are value-initialised.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    static_cast<void>(pooled::make_unique<int[]>(4));
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::make_unique<int[]>(4, 1, 2));
#endif
}
