// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Two pointers to an object count alike: only a sole owner changes the way of counting, and it moves.
#include "pooled/pooled.hpp"

int main() {
    auto p = pooled::make_rc<int>(1);
#ifndef POOLED_CONTROL
    pooled::local_rc_ptr<int> q = p;
#endif
}
