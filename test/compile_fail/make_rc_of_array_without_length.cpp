// expect: (no matching function|constraints not satisfied)
// SPDX-License-Identifier: BSL-1.0
// An array needs its length, unless its type contains it.
#include "pooled/pooled.hpp"

int main() {
    static_cast<void>(pooled::make_rc<int[3]>());
    static_cast<void>(pooled::make_rc<int[]>(3));
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::make_rc<int[]>());
#endif
}
