// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// A pointer to const does not become one to non-const.
#include "pooled/pooled.hpp"

int main() {
    auto p = pooled::make_rc<int const>(1);
#ifndef POOLED_CONTROL
    pooled::rc_ptr<int> q = p;
#endif
}
