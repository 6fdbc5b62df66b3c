// SPDX-License-Identifier: BSL-1.0
#pragma once

// Incremental teardown: a drop puts the object into its thread's batch, and the allocations that follow on that thread
// destroy a few objects each. A thread that only drops, of which another one allocates, helps itself: with many waiting,
// each drop destroys some, too, the more of them wait.
//
//   drop ──▶ thread_cache.waiting ──▶ step, at an allocation ──▶ drain, at the end of the thread, the pool, or its memory
//
// The batch is changed inside the cache's gate, or by a raider with the gates stopped. While its objects are destroyed it
// is in nobody's reach: destructors allocate and drop as they like.
//
// Invariant: a batch is held by exactly one of a thread_cache, a pool_core, a pending, a function here.

#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/teardown/teardown.hpp"
#include "pooled/teardown/waiting.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace pooled::detail {

// Objects destroyed at an allocation. More than one, so that what waits gets less; few, so that the allocation stays quick.
inline constexpr std::size_t k_objects_per_allocation = 4;

// At a time, when memory runs out.
inline constexpr std::size_t k_objects_per_retry = 256;

// How many objects a drop destroys when `waiting` are noted already: none up to 1024, then so many that a thread which only
// drops structures of n objects keeps no more than 64 n of them waiting; 128 at most, so n up to that.
[[nodiscard]] constexpr std::size_t objects_per_drop(std::size_t waiting) noexcept {
    return waiting <= 1024 ? 0 : std::min<std::size_t>(waiting / 64, 128);
}

// Runs `use` in the cache, for its owner. False when the cache is closed; waits while a raider is at work.
template <class Use>
[[nodiscard]] bool inside(thread_cache& cache, Use&& use) noexcept {
    for (unsigned attempt = 0; !cache.door.enter(); platform::pause(attempt++))
        if (cache.door.is_closed()) return false;
    use();
    cache.door.leave();
    return true;
}

// Owner only. The batch, or null.
[[nodiscard]] inline waiting_batch* take_own_waiting(thread_cache& cache) noexcept {
    if (cache.waiting == nullptr) return nullptr;
    waiting_batch* batch = nullptr;
    static_cast<void>(inside(cache, [&] {
        batch = cache.waiting;
        cache.waiting = nullptr;
    }));
    if (batch != nullptr) batch->next = nullptr;
    return batch;
}

// Owner only. False: the cache is closed, or has a batch of its own.
[[nodiscard]] inline bool give_back_waiting(thread_cache& cache, waiting_batch& batch) noexcept {
    bool is_kept = false;
    static_cast<void>(inside(cache, [&] {
        if (cache.waiting != nullptr) return;
        cache.waiting = &batch;
        is_kept = true;
    }));
    return is_kept;
}

// Whether a destructor has not destroyed the pool meanwhile, and the cache with it.
[[nodiscard]] inline bool is_still_there(thread_cache const& cache, std::uint32_t pool_id,
                                         bool is_local) noexcept {
    if (!is_local) return t_state.find(pool_id) == &cache;
    pool_core* const core = g_registry.find(pool_id);
    return core != nullptr && core->is_local() && &core->local_cache() == &cache;
}

// Owner only. Not within another step: that one goes on.
POOLED_NOINLINE inline void tear_down_step(thread_cache& cache, std::size_t budget) noexcept {
    if (t_teardown.elsewhere() != nullptr) return;
    waiting_batch* const batch = take_own_waiting(cache);
    if (batch == nullptr) return;
    std::uint32_t const pool_id = cache.pool_id;
    bool const is_local = cache.owner == nullptr;
    t_teardown.take_some(batch->queue, budget);
    if (batch->queue.empty()) return g_metadata.deallocate(batch, sizeof(waiting_batch));
    if (!is_still_there(cache, pool_id, is_local) || !give_back_waiting(cache, *batch))
        tear_down(batch);  // with the pool, all that waits is finished
}

// Owner only, or null: at every allocation from an incremental pool.
POOLED_ALWAYS_INLINE void step_at_allocation(thread_cache* cache) noexcept {
    if (cache != nullptr && cache->waiting != nullptr) tear_down_step(*cache, k_objects_per_allocation);
}

// The calling thread's cache, or null if it can have none.
[[nodiscard]] inline thread_cache* own_cache(pool_core& core) noexcept {
    return core.is_local() ? &core.local_cache() : g_registry.attach(core);
}

// Puts off an object of an incremental pool. False when it must be destroyed now: the thread or the pool is ending, or there
// is no memory for the books.
[[nodiscard]] POOLED_NOINLINE inline bool put_off(waiting w, void const* object,
                                                  std::size_t object_bytes) noexcept {
    if (waiting_queue* const elsewhere = t_teardown.elsewhere())
        return elsewhere->push(w, object, object_bytes);
    map_entry const entry = g_page_map.find_owned(w.header());
    thread_cache* const cache = own_cache(*g_registry.find(entry.pool_id()));
    if (cache == nullptr) return false;
    bool is_put = false;
    std::size_t size = 0;
    static_cast<void>(inside(*cache, [&] {
        if (cache->waiting == nullptr) {
            void* const memory = g_metadata.try_allocate(sizeof(waiting_batch));
            if (memory == nullptr) return;
            cache->waiting = ::new (memory) waiting_batch;
        }
        waiting_batch* const batch = cache->waiting;
        is_put = batch->queue.push(w, object, object_bytes);
        size = batch->queue.size();
    }));
    if (std::size_t const budget = objects_per_drop(size); budget != 0) [[unlikely]]
        tear_down_step(*cache, budget);
    return is_put;
}

// Destroys what waits in the pool, of whichever thread. Returns how many objects, at most `budget`.
inline std::size_t drain(pool_core& core, std::size_t budget) noexcept {
    std::size_t done = 0;
    waiting_batch* list = budget == 0 ? nullptr : core.take_waiting();
    while (list != nullptr && done != budget) {
        done += t_teardown.take_some(list->queue, budget - done);
        if (!list->queue.empty()) break;
        waiting_batch* const empty = std::exchange(list, list->next);
        g_metadata.deallocate(empty, sizeof(waiting_batch));
    }
    if (list != nullptr) core.keep_waiting(*list);
    return done;
}

// Some of what waits in the pool and nobody works on becomes the calling thread's: its next allocations go on with it.
POOLED_NOINLINE inline void adopt_waiting(pool_core& core) noexcept {
    thread_cache* const cache = own_cache(core);
    if (cache == nullptr || cache->waiting != nullptr) return;
    waiting_batch* const batch = core.take_kept_waiting();
    if (batch != nullptr && !give_back_waiting(*cache, *batch)) core.keep_waiting(*batch);
}

// What `allocate` gives; where it finds nothing, what waits is destroyed, some at a time, until it does: what this thread
// has gathered, then what waits in an incremental pool.
template <class Allocate>
[[nodiscard]] void* after_teardown(pool_core& core, Allocate&& allocate) {
    auto const is_more = [&core]() noexcept {
        return t_teardown.make_room(k_objects_per_retry) != 0 ||
               (core.is_incremental() && drain(core, k_objects_per_retry) != 0);
    };
    if (core.has_kept_waiting()) [[unlikely]]
        adopt_waiting(core);
    for (;;) {
        try {
            void* const block = allocate();
            if (block != nullptr || !is_more()) return block;
        } catch (std::bad_alloc const&) {
            if (!is_more()) throw;
        }
    }
}

}  // namespace pooled::detail
