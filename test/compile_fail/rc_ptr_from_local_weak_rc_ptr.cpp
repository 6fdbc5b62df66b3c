// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Observers count in the same way as owners.
#include "pooled/pooled.hpp"

int main() {
    pooled::local_rc_ptr<int> p = pooled::make_local_rc<int>(1);
#ifndef POOLED_CONTROL
    pooled::weak_rc_ptr<int> q = p;
#endif
}
