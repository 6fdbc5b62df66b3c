// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Ownership is taken explicitly only.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    int* raw = nullptr;
#ifndef POOLED_CONTROL
    pooled::unique_ptr<int> p = raw;
#endif
}
