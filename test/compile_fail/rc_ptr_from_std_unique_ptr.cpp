// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// A block of operator new has no space for the counts.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    auto p = std::make_unique<int>(1);
    static_cast<void>(p);
#ifndef POOLED_CONTROL
    pooled::rc_ptr<int> q = std::move(p);
#endif
}
