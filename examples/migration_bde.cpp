// SPDX-License-Identifier: BSL-1.0
// A pool of message buffers as written for BDE's bdlcc::SharedObjectPool, on pooled::object_pool. docs/migration/bde.md has the
// program as it was before.
#include <pooled/pooled.hpp>

#include <cstddef>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

int main() {
    pooled::pool memory({.name = "messages"});

    // RESETTER ObjectPoolFunctors::Clear, growth by a factor, memory from an allocator of the program.
    pooled::object_pool<std::string, pooled::clear_on_release> buffers(
        {.growth_factor = 2, .upstream = memory.resource()},
        [](void* where) { (new (where) std::string)->reserve(1000); });
    buffers.reserve(100);                      // reserveCapacity(100), of a pool that is not in use
    buffers.reserve(buffers.capacity() + 28);  // increaseCapacity(28)

    std::vector<std::shared_ptr<std::string>> held;
    for (int i = 0; i < 200; ++i) {
        held.push_back(buffers.acquire());  // getObject()
        held.back()->append("message");
    }
    std::size_t const objects = buffers.capacity();  // numObjects()
    std::size_t const available = buffers.idle();    // numAvailableObjects()
    held.clear();
    bool const is_clear = buffers.acquire()->empty() && buffers.acquire()->capacity() >= 1000;

    std::cout << buffers.stats() << '\n';
    return objects == 256 && available == 56 && is_clear && memory.stats().in_use != 0 ? 0 : 1;
}
