// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a pool is made with. An aggregate, to be written with designated initialisers: {.name = "packets"}.

#include "pooled/base/geometry.hpp"

#include <cstddef>
#include <memory_resource>
#include <string_view>

namespace pooled {

// When objects that lost their last owner are destroyed, if their destructor is not trivial: docs/teardown.md.
enum class teardown : unsigned char {
    // At once, in the order of the standard's pointers. Only when the stack is nearly used up is the rest deferred, to the
    // outermost drop; all of it is destroyed before that returns.
    immediate,
    // Before the outermost drop returns; the order among the objects that it alone kept alive is unspecified.
    unordered,
    // The drop only defers. Each later allocation of that thread from the pool destroys up to four deferred objects; a thread
    // that only drops destroys some at each drop, once more than 1,024 are deferred. The rest is destroyed by drain(), when
    // the thread ends, when the pool is exhausted, and before the pool goes: on whichever thread does that. So a destructor
    // must not take a lock that is held around an allocation.
    incremental,
};

struct pool_options {
    // Shown in statistics and errors; the first 47 characters are kept.
    std::string_view name = "pool";

    // A hard bound on the bytes taken from upstream; 0: none. Memory comes in slabs of one size class (64 KiB, or 16 KiB
    // when the bound is under 4 MiB), so leave room for one slab for each size in use. The library's own books (some
    // 5 KiB for each thread, 0.1 % of the memory) are not counted.
    std::size_t max_bytes = 0;

    // What upstream is asked for at a time: rounded up to whole slabs, cut down to what max_bytes leaves. 0: 2 MiB,
    // or a sixteenth of max_bytes if that is less.
    std::size_t chunk_bytes = 0;

    // Ask the operating system for huge pages, for all but the pool's first chunk. Without effect with an upstream, or
    // with chunks under 2 MiB.
    bool huge_pages = true;

    // Where chunks come from; null: pages of the operating system. Called under a lock of the pool, from whichever
    // thread needs memory; asked for an alignment of 16 KiB. Must outlive the pool and every block of it.
    std::pmr::memory_resource* upstream = nullptr;

    pooled::teardown teardown = pooled::teardown::immediate;
};

}  // namespace pooled
