// SPDX-License-Identifier: BSL-1.0
// A plugin that uses parts of the library which the executable whose state it shares does not use: see owner.cpp.

#include "plugins/sharer.hpp"

#include "pooled/pooled.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <vector>

extern "C" __attribute__((visibility("default"))) void use_other_parts(pooled::pool& pool) {
    pooled::reclaim_scope const scope;
    static_cast<void>(pool.make_shared<long>(1));
}

// Blocks that are in use when the plugin is closed, neither of which needs its code: a report may not follow what they refer to there.
extern "C" __attribute__((visibility("default"))) void leave_blocks(pooled::pool& pool) {
    static_cast<void>(pool.allocate(64));
    static_cast<void>(pooled::pool_allocator<long>(pool).allocate(8));
}

// The plugin is compiled with exceptions; the executable may not be.
extern "C" __attribute__((visibility("default"))) void catch_exhausted(pooled::pool&) {
    pooled::pool small{{.name = "small", .max_bytes = 64 << 10}};
    std::vector<std::shared_ptr<long>> all;
    try {
        for (;;)
            all.push_back(small.make_shared<long>(1));
    } catch (pooled::exhausted const&) {
        return;
    }
    std::puts("nothing was thrown"), std::abort();
}

extern "C" __attribute__((visibility("default"))) void use_own_pool(pooled::pool&) {
    pooled::pool own;
    std::pmr::vector<long> const numbers(10, own.resource());
}

extern "C" __attribute__((visibility("default"))) std::uint64_t number_of_common(pooled::pool&) {
    return plugins::number_of_common();
}
