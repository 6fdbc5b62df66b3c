// expect: no matching function for call to .make_shared
// SPDX-License-Identifier: BSL-1.0
// An array needs its length.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    static_cast<void>(pooled::make_shared<int[]>(4));
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::make_shared<int[]>());
#endif
}
