// expect: (no viable conversion|conversion from .* to non-scalar type|could not convert)
// SPDX-License-Identifier: BSL-1.0
// std::default_delete would give a pool's block to operator delete.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    auto p = pooled::make_unique<int>(1);
#ifndef POOLED_CONTROL
    std::unique_ptr<int> q = std::move(p);
#endif
}
