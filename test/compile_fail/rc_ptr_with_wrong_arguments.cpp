// expect: (no matching (function|constructor)|cannot convert|could not convert|invalid conversion|cannot initialize)
// SPDX-License-Identifier: BSL-1.0
// The arguments are those of a constructor.
#include "pooled/pooled.hpp"

struct takes_two {
    takes_two(int, int) {}
};

int main() {
    auto p = pooled::make_rc<takes_two>(1, 2);
#ifndef POOLED_CONTROL
    auto q = pooled::make_rc<takes_two>("text");
#endif
}
