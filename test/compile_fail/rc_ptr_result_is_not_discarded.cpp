// expect: (nodiscard|ignoring return value|unused-result)
// SPDX-License-Identifier: BSL-1.0
// An object whose only pointer is discarded is destroyed at once. The mistake is an error only because of the pragma.
#include "pooled/pooled.hpp"

#pragma GCC diagnostic error "-Wunused-result"

int main() {
    auto p = pooled::make_rc<int>(1);
#ifndef POOLED_CONTROL
    pooled::make_rc<int>(2);
#endif
}
