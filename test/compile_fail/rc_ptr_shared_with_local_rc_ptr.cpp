// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// All pointers to an object count in the same way: only a sole owner can change it, by a move.
#include "pooled/pooled.hpp"

int main() {
    auto p = pooled::make_rc<int>(1);
#ifndef POOLED_CONTROL
    pooled::local_rc_ptr<int> q = p;
#endif
}
