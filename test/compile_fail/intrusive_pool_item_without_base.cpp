// expect: an item must derive publicly from memorypool::boost_intrusive_pool_item
// SPDX-License-Identifier: BSL-1.0
// An item has its count and its place in the pool from its base class.
#include "pooled/compat/boost_intrusive_pool.hpp"

struct Packet
#ifdef POOLED_CONTROL
    : memorypool::boost_intrusive_pool_item
#endif
{
};

int main() { memorypool::boost_intrusive_pool<Packet> pool(1); }
