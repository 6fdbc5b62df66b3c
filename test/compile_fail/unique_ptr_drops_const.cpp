// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// A pointer to const does not become one to non-const.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    auto p = pooled::make_unique<int const>(1);
#ifndef POOLED_CONTROL
    pooled::unique_ptr<int> q = std::move(p);
#endif
}
