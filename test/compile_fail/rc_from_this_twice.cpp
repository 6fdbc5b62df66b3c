// expect: just one of them among its bases
// SPDX-License-Identifier: BSL-1.0
// rc_from_this() could not choose between the two.
#include "pooled/pooled.hpp"

struct base : pooled::enable_rc_from_this<base> {};
struct derived : base {};
struct twice : base, pooled::enable_rc_from_this<twice> {};

int main() {
    static_cast<void>(pooled::make_rc<derived>());
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::make_rc<twice>());
#endif
}
