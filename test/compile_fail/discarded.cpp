// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with a call whose result is dropped. The mistakes are errors only because of the pragma.
#include "pooled/pooled.hpp"

#pragma GCC diagnostic error "-Wunused-result"

// A block whose address is dropped is lost.
// expect allocated_block_is_not_discarded: (nodiscard|warn_unused_result|unused-result)
void allocated_block_is_not_discarded() {
    pooled::pool pool;
#ifdef MISTAKE_allocated_block_is_not_discarded
    pool.allocate(10);
#endif
}

// An object whose only pointer is discarded is destroyed at once.
// expect rc_ptr_result_is_not_discarded: (nodiscard|ignoring return value|unused-result)
void rc_ptr_result_is_not_discarded() {
    auto p = pooled::make_rc<int>(1);
#ifdef MISTAKE_rc_ptr_result_is_not_discarded
    pooled::make_rc<int>(2);
#endif
}
