// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// A conversion to a derived class needs an explicit cast.
#include "pooled/pooled.hpp"

struct base {};
struct derived : base {};

int main() {
    pooled::rc_ptr<base> p = pooled::make_rc<derived>();
#ifndef POOLED_CONTROL
    pooled::rc_ptr<derived> q = p;
#endif
}
