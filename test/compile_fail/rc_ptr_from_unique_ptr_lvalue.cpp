// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Ownership is taken over by a move only.
#include "pooled/pooled.hpp"

int main() {
    auto p = pooled::make_unique<int>(1);
#ifndef POOLED_CONTROL
    pooled::rc_ptr<int> q = p;
#endif
}
