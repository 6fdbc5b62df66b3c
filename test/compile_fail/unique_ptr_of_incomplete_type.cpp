// expect: (T must be complete where the pointer is destroyed|incomplete type)
// SPDX-License-Identifier: BSL-1.0
// A destructor that is not known cannot be called.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

struct incomplete;

int main() {
    static_cast<void>(pooled::make_unique<int>(1));
#ifndef POOLED_CONTROL
    incomplete* raw = nullptr;
    pooled::unique_ptr<incomplete> p(raw);
#endif
}
