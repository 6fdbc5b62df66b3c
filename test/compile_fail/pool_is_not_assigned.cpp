// expect: (use of deleted function|overload resolution selected deleted operator|implicitly deleted)
// SPDX-License-Identifier: BSL-1.0
// Blocks of the pool on the left would have no pool.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

int main() {
    pooled::pool pool;
    pooled::pool other;
#ifndef POOLED_CONTROL
    pool = std::move(other);
#endif
}
