// expect: (nodiscard|warn_unused_result|unused-result)
// SPDX-License-Identifier: BSL-1.0
// A block whose address is dropped is lost. The mistake is an error only because of the pragma.
#include "pooled/pooled.hpp"

#include <memory>
#include <utility>

#pragma GCC diagnostic error "-Wunused-result"

int main() {
    pooled::pool pool;
#ifndef POOLED_CONTROL
    pool.allocate(10);
#endif
}
