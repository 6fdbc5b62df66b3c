// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Unrelated types do not convert.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    auto p = pooled::make_unique<int>(1);
#ifndef POOLED_CONTROL
    pooled::unique_ptr<double> q = std::move(p);
#endif
}
