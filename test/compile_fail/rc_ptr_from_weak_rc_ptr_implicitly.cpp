// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// The object may be gone: lock() says so, or rc_ptr<T>(weak), which throws.
#include "pooled/pooled.hpp"

int main() {
    auto p = pooled::make_rc<int>(1);
    pooled::weak_rc_ptr<int> w = p;
#ifndef POOLED_CONTROL
    pooled::rc_ptr<int> q = w;
#endif
}
