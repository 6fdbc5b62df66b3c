// expect: allocate_through_init needs a member init\(\) of the item that takes these arguments
// SPDX-License-Identifier: BSL-1.0
// The message says what is missing, not where in the library.
#include "pooled/compat/boost_intrusive_pool.hpp"

struct Packet : memorypool::boost_intrusive_pool_item {
    void init(int) {}
};

int main() {
    memorypool::boost_intrusive_pool<Packet> pool(1);
    auto a = pool.allocate_through_init(7);
#ifndef POOLED_CONTROL
    auto b = pool.allocate_through_init("seven");
#endif
}
