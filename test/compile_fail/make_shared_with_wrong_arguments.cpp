// expect: (no matching function|no matching constructor|no type named 'type'|no match)
// SPDX-License-Identifier: BSL-1.0
// The constructor must exist.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

struct needs_int {
    explicit needs_int(int) {}
};

int main() {
    static_cast<void>(pooled::make_shared<needs_int>(1));
#ifndef POOLED_CONTROL
    static_cast<void>(pooled::make_shared<needs_int>());
#endif
}
