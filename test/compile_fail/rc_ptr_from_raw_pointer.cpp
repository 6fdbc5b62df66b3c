// expect: (no viable conversion|conversion from .* to non-scalar type|no matching (function|constructor))
// SPDX-License-Identifier: BSL-1.0
// The counts stand in front of an object that a pool made; in front of others there is something else.
#include "pooled/pooled.hpp"

int main() {
    int object = 1;
    static_cast<void>(object);
#ifndef POOLED_CONTROL
    pooled::rc_ptr<int> p(&object);
#endif
}
