// expect: an item must be default-constructible
// SPDX-License-Identifier: BSL-1.0
// A pool constructs its items before they are used; arguments go through init().
#include "pooled/compat/boost_intrusive_pool.hpp"

struct Packet : memorypool::boost_intrusive_pool_item {
#ifndef POOLED_CONTROL
    explicit Packet(int) {}
#endif
};

int main() { memorypool::boost_intrusive_pool<Packet> pool(1); }
