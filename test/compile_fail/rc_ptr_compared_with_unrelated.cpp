// expect: (comparison (between|of)|distinct pointer types|no match for|lacks a cast)
// SPDX-License-Identifier: BSL-1.0
// Pointers to unrelated classes are not compared.
#include "pooled/pooled.hpp"

struct a {};
struct b {};

int main() {
    auto p = pooled::make_rc<a>();
    auto q = pooled::make_rc<b>();
#ifndef POOLED_CONTROL
    return p == q ? 1 : 0;
#endif
}
