// expect: (use of deleted function|call to deleted constructor)
// SPDX-License-Identifier: BSL-1.0
// All of singleton_pool is static.
#include "pooled/compat/boost_pool.hpp"

struct tag {};

int main() {
    using buffers = pooled::compat::singleton_pool<tag, 64>;
    buffers::free(buffers::malloc());
#ifndef POOLED_CONTROL
    buffers one;
#endif
}
