// expect: (deleted|implicitly-deleted)
// SPDX-License-Identifier: BSL-1.0
// Another thread may be acquiring or waiting.
#include "pooled/pooled.hpp"

#include <utility>

int main() {
    pooled::object_pool<int> pool;
#ifndef POOLED_CONTROL
    pooled::object_pool<int> moved(std::move(pool));
#endif
}
