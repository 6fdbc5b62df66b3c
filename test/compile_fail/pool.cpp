// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with pool, local_pool and pool_allocator.
#include "pooled/pooled.hpp"

#include <functional>
#include <map>
#include <utility>

// A function that takes a shared pool must not accept a pool for a single thread.
// expect local_pool_is_no_pool: (no matching function|could not convert|cannot convert|no viable conversion|no matching constructor|no matching conversion)
void local_pool_is_no_pool() {
    pooled::local_pool pool;
    static_cast<void>(pooled::pool_allocator<int, pooled::local_pool>(pool));
#ifdef MISTAKE_local_pool_is_no_pool
    static_cast<void>(pooled::pool_allocator<int, pooled::pool>(pool));
#endif
}

// A pool's internals are private.
// expect pool_shows_no_internals: (private|no member named 'core'|has no member named ‘core’|has no member named 'core')
void pool_shows_no_internals() {
    pooled::pool pool;
    static_cast<void>(pool.stats());
#ifdef MISTAKE_pool_shows_no_internals
    static_cast<void>(pool.core());
    static_cast<void>(pooled::pool::k_sharing);
#endif
}

// There is no default pool for it: pooled::allocator is that. libc++'s message ends before it comes to the allocator.
// expect pool_allocator_without_pool: (pass the container its pool|constructor for 'std::__tree)
void pool_allocator_without_pool() {
    using entries =
        std::map<int, int, std::less<>, pooled::pool_allocator<std::pair<int const, int>, pooled::pool>>;
    pooled::pool pool;
    entries with(pool);
#ifdef MISTAKE_pool_allocator_without_pool
    entries without;
#endif
}
