// SPDX-License-Identifier: BSL-1.0
#pragma once

// Incremental teardown: a drop puts the object into its thread's batch, and the allocations that follow on that thread
// destroy a few objects each.
//
//   drop ──▶ thread_cache.waiting ──▶ step, at an allocation ──▶ drain, at the end of the thread, the pool, or its memory
//
// The batch is changed inside the cache's gate, or by a raider with the gates stopped. While its objects are destroyed it
// is in nobody's reach: destructors allocate and drop as they like.
//
// Invariant: a batch is held by exactly one of a thread_cache, a pool_core, a pending, a function here.

#include "pooled/config.hpp"
#include "pooled/pool/address_map.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/pool/teardown.hpp"
#include "pooled/pool/thread_cache.hpp"
#include "pooled/pool/waiting.hpp"
#include "pooled/source/metadata.hpp"
#include "pooled/source/platform.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace pooled::detail {

// Objects destroyed at an allocation. More than one, so that what waits gets less; few, so that the allocation stays quick.
inline constexpr std::size_t k_objects_per_allocation = 4;

// At a time, when memory runs out.
inline constexpr std::size_t k_objects_per_retry = 256;

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

// Owner only, at an allocation.
POOLED_NOINLINE inline void tear_down_step(thread_cache& cache) noexcept {
    if (t_teardown.base != teardown_state::k_idle) return;  // a destructor allocates: it is a step itself
    waiting_batch* const batch = take_own_waiting(cache);
    if (batch == nullptr) return;
    tear_down_some(batch->queue, k_objects_per_allocation);
    if (batch->queue.empty()) return g_metadata.deallocate(batch, sizeof(waiting_batch));
    if (!give_back_waiting(cache, *batch))
        tear_down(batch);  // the pool is being destroyed, which finishes all that waits
}

// Puts off an object of an incremental pool. False when it must be destroyed now: the thread or the pool is ending, or there
// is no memory for the books.
[[nodiscard]] POOLED_NOINLINE inline bool put_off(waiting w, void const* object,
                                                  std::size_t object_bytes) noexcept {
    if (waiting_queue* const elsewhere = t_teardown.elsewhere) {
        elsewhere->push(w, object, object_bytes);
        return true;
    }
    map_entry const entry = g_address_map.find_owned(w.header());
    pool_core& core = *g_registry.find(entry.pool_id());
    thread_cache* const cache = entry.is_local() ? &core.local_cache() : g_registry.attach(core);
    if (cache == nullptr) return false;
    bool is_put = false;
    return inside(*cache,
                  [&] {
                      if (cache->waiting == nullptr) {
                          void* const memory = g_metadata.try_allocate(sizeof(waiting_batch));
                          if (memory == nullptr) return;
                          cache->waiting = ::new (memory) waiting_batch;
                      }
                      waiting_batch* const batch = cache->waiting;
                      batch->queue.push(w, object, object_bytes);
                      is_put = true;
                  }) &&
           is_put;
}

// Destroys what waits in the pool, of whichever thread. Returns how many objects, at most `budget`.
inline std::size_t drain(pool_core& core, std::size_t budget) noexcept {
    std::size_t done = 0;
    while (done != budget) {
        waiting_batch* const batch = core.take_waiting();
        if (batch == nullptr) break;
        batch->next = nullptr;
        done += tear_down_some(batch->queue, budget - done);
        if (batch->queue.empty()) {
            g_metadata.deallocate(batch, sizeof(waiting_batch));
            continue;
        }
        // The caller's next allocations go on with it, if they can.
        thread_cache* const cache = core.is_local() ? &core.local_cache() : g_registry.attach(core);
        if (cache == nullptr || !give_back_waiting(*cache, *batch)) core.keep_waiting(*batch);
    }
    return done;
}

// What `allocate` gives; where it finds nothing, what waits is destroyed, some at a time, until it does.
template <class Allocate>
[[nodiscard]] void* after_teardown(pool_core& core, Allocate&& allocate) {
    for (;;) {
        try {
            if (void* const block = allocate()) return block;
            if (drain(core, k_objects_per_retry) == 0) return nullptr;
        } catch (std::bad_alloc const&) {
            if (drain(core, k_objects_per_retry) == 0) throw;
        }
    }
}

}  // namespace pooled::detail
