// expect: an item must derive publicly from memorypool::boost_intrusive_pool_item
// SPDX-License-Identifier: BSL-1.0
// The base class contains the item's count and its place in the pool.
#include "pooled/compat/boost_intrusive_pool.hpp"

struct Packet
#ifdef POOLED_CONTROL
    : memorypool::boost_intrusive_pool_item
#endif
{
};

int main() { memorypool::boost_intrusive_pool<Packet> pool(1); }
