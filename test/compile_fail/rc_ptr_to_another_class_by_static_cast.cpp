// expect: (static_cast|not related|invalid)
// SPDX-License-Identifier: BSL-1.0
// The casts are those of the language.
#include "pooled/pooled.hpp"

struct a {};
struct b {};

int main() {
    auto p = pooled::make_rc<a>();
#ifndef POOLED_CONTROL
    auto q = pooled::static_pointer_cast<b>(p);
#endif
}
