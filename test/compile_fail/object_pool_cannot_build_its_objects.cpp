// expect: (deleted|no matching|constraints not satisfied)
// SPDX-License-Identifier: BSL-1.0
// Without a default constructor, a lifecycle must define how an object is built.
#include "pooled/pooled.hpp"

struct connection {
    explicit connection(int) {}
};

int main() {
    pooled::object_pool<connection> with_factory({}, [] { return connection(1); });
#ifndef POOLED_CONTROL
    pooled::object_pool<connection> without;
#endif
}
