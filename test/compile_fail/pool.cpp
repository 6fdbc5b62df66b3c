// SPDX-License-Identifier: BSL-1.0
// Refused: mistakes with pool, local_pool and pool_allocator.
#include "pooled/pooled.hpp"

#include <memory>
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

// As for pool.
// expect local_pool_is_not_copied: (use of deleted function|call to deleted constructor|call to implicitly-deleted copy constructor)
void local_pool_is_not_copied() {
    pooled::local_pool pool;
#ifdef MISTAKE_local_pool_is_not_copied
    pooled::local_pool copy(pool);
#endif
}

// An allocator of a local_pool is not one of a pool.
// expect pool_allocator_of_another_kind_of_pool: (no matching function for call|no matching constructor)
void pool_allocator_of_another_kind_of_pool() {
    pooled::local_pool pool;
    pooled::pool_allocator<int, pooled::local_pool> local(pool);
#ifdef MISTAKE_pool_allocator_of_another_kind_of_pool
    pooled::pool_allocator<int, pooled::pool> shared(local);
#endif
}

// It would not know where to allocate.
// expect pool_allocator_without_a_pool: (no matching function for call|no matching constructor)
void pool_allocator_without_a_pool() {
    pooled::pool pool;
    pooled::pool_allocator<int> good(pool);
#ifdef MISTAKE_pool_allocator_without_a_pool
    pooled::pool_allocator<int> bad;
#endif
}

// Blocks of the pool on the left would have no pool.
// expect pool_is_not_assigned: (use of deleted function|overload resolution selected deleted operator|implicitly deleted)
void pool_is_not_assigned() {
    pooled::pool pool;
    pooled::pool other;
#ifdef MISTAKE_pool_is_not_assigned
    pool = std::move(other);
#endif
}

// A pool owns its blocks; a copy would own them, too.
// expect pool_is_not_copied: (use of deleted function|call to deleted constructor|call to implicitly-deleted copy constructor)
void pool_is_not_copied() {
    pooled::pool pool;
#ifdef MISTAKE_pool_is_not_copied
    pooled::pool copy(pool);
#endif
}

// Its allocators hold its address.
// expect pool_is_not_moved: (use of deleted function|call to deleted constructor|call to implicitly-deleted copy constructor)
void pool_is_not_moved() {
    pooled::pool pool;
#ifdef MISTAKE_pool_is_not_moved
    pooled::pool moved(std::move(pool));
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
