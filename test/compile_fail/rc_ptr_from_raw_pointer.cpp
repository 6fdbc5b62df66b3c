// expect: (no viable conversion|conversion from .* to non-scalar type|no matching (function|constructor))
// SPDX-License-Identifier: BSL-1.0
// Only objects that a pool made have counts in front of them.
#include "pooled/pooled.hpp"

int main() {
    int object = 1;
    static_cast<void>(object);
#ifndef POOLED_CONTROL
    pooled::rc_ptr<int> p(&object);
#endif
}
