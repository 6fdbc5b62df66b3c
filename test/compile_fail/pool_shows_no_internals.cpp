// expect: (private|no member named 'core'|has no member named ‘core’|has no member named 'core')
// SPDX-License-Identifier: BSL-1.0
// A pool's internals are private.
#include "pooled/pooled.hpp"

int main() {
    pooled::pool pool;
    static_cast<void>(pool.stats());
#ifndef POOLED_CONTROL
    static_cast<void>(pool.core());
    static_cast<void>(pooled::pool::k_sharing);
#endif
}
