// expect: (deleted|implicitly-deleted)
// SPDX-License-Identifier: BSL-1.0
// A pool is moved, not copied.
#include "pooled/compat/boost_intrusive_pool.hpp"

#include <utility>

struct Packet : memorypool::boost_intrusive_pool_item {};

int main() {
    memorypool::boost_intrusive_pool<Packet> a(1);
    memorypool::boost_intrusive_pool<Packet> b(std::move(a));
#ifndef POOLED_CONTROL
    memorypool::boost_intrusive_pool<Packet> c(b);
#endif
}
