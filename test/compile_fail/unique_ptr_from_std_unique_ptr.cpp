// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Memory from new does not belong to a pool.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    auto p = std::make_unique<int>(1);
#ifndef POOLED_CONTROL
    pooled::unique_ptr<int> q = std::move(p);
#endif
}
