// expect: (‘rc_ptr<|'rc_ptr<|pooled::rc_ptr<|::rc_ptr<)(double>|double)
// SPDX-License-Identifier: BSL-1.0
// A message shows the name that a user wrote.
#include "pooled/pooled.hpp"

int main() {
    pooled::rc_ptr<int> p = pooled::make_rc<int>(1);
#ifndef POOLED_CONTROL
    pooled::rc_ptr<double> q = p;
#endif
}
