// expect: (no match for .operator\*.|invalid operands|constraints not satisfied|indirection requires pointer)
// SPDX-License-Identifier: BSL-1.0
// As with std::shared_ptr: an array's elements are reached by [], not by *.
#include "pooled/pooled.hpp"

int main() {
    auto const p = pooled::make_rc<int[]>(3);
    static_cast<void>(p[0]);
#ifndef POOLED_CONTROL
    static_cast<void>(*p);
#endif
}
