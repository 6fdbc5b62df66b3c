// expect: no matching function for call to .make_shared
// SPDX-License-Identifier: BSL-1.0
// The arguments of an array are its length and one value to copy.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    static_cast<void>(pooled::make_shared<int[]>(4, 1));
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::make_shared<int[]>(4, 1, 2));
#endif
}
