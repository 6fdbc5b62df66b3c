// expect: no matching function for call to .make_unique
// SPDX-License-Identifier: BSL-1.0
// As with std: for an array of known size there is std::array.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    static_cast<void>(pooled::make_unique<int[]>(4));
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::make_unique<int[4]>());
#endif
}
