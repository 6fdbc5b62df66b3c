// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// Elements of another size cannot be walked.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

struct base {
    virtual ~base() = default;
};
struct derived : base {
    int more = 1;
};

int main() {
    auto p = pooled::make_unique<derived[]>(2);
#ifndef POOLED_CONTROL
    pooled::unique_ptr<base[]> q = std::move(p);
#endif
}
