// expect: Lifecycle::create must be callable with a void\*
// SPDX-License-Identifier: BSL-1.0
// A member with the right name and a wrong signature is a mistake, not an absent member.
#include "pooled/pooled.hpp"

#include <new>

struct wrong {
#ifndef POOLED_CONTROL
    int* create() const { return new int(1); }
#else
    int* create(void* where) const { return ::new (where) int(1); }
#endif
};

int main() {
    pooled::object_pool<int, wrong> pool;
    auto const a = pool.acquire();
}
