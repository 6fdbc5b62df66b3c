// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// As with plain pointers, a base must be accessible.
#include "pooled/pooled.hpp"

struct base {};
class derived : base {};

int main() {
    auto p = pooled::make_rc<derived>();
#ifndef POOLED_CONTROL
    pooled::rc_ptr<base> q = p;
#endif
}
