// expect: (no match for|indirection|constraints not satisfied|invalid operands)
// SPDX-License-Identifier: BSL-1.0
// rc_ptr<void> keeps an object alive and has its address, but not its type.
#include "pooled/pooled.hpp"

int main() {
    pooled::rc_ptr<void> p = pooled::make_rc<int>(3);
#ifndef POOLED_CONTROL
    static_cast<void>(*p);
#endif
}
