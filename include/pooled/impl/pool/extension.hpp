// SPDX-License-Identifier: BSL-1.0
#pragma once

// An addition of a higher layer to one pool: the idle objects of an object_pool, or the deferred objects of an incremental
// pool. The pool calls it when it closes and is destroyed, so no header here includes one from a layer above.
//
// A pool has at most one extension. The pool does not own it.

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class pool_core;
struct thread_cache;

class pool_extension {
public:
    // Called at each allocation from an incremental pool, and at each slow allocation from other pools. No lock is held.
    virtual void on_allocate() noexcept {}

    // Destroys up to `budget` deferred objects, whichever thread dropped them. Returns their number. No lock is held.
    virtual std::size_t drain(std::size_t /*budget*/) noexcept { return 0; }

    // Called when an allocation found no free block: destroys some deferred objects, or waits for those that other threads are
    // destroying. False when none was destroyed since the last call with the same `seen`, and none is left. No lock is held.
    virtual bool relieve(std::uint64_t& /*seen*/) noexcept { return false; }

    // Called before the pool's handle is destroyed: afterwards, no thread allocates from the pool. No lock is held.
    virtual void on_close() noexcept {}

    // The last call: no block is in use, and no thread can reach the pool any more. No lock is held.
    virtual void on_destroy() noexcept {}

    // Called when the cache's owner has ended, or does not exist in this process: takes what the extension keeps in the cache.
    // The pool's lock is held.
    virtual void on_retire(thread_cache& /*cache*/) noexcept {}

    // Called in a forked child, where only the thread that forked exists; no other was in a critical section or inside its cache.
    virtual void after_fork_in_child() noexcept {}

protected:
    pool_extension() = default;
    ~pool_extension() = default;
    pool_extension(pool_extension const&) = delete;
    pool_extension& operator=(pool_extension const&) = delete;
};

// Called when a pool has no free block, before it reports exhaustion: destroys some deferred objects. False when there are
// none; `seen` is as in relieve(). No lock is held. Null until the teardown layer defers an object for the first time.
using pressure_hook = bool (*)(pool_core& core, std::uint64_t& seen) noexcept;
POOLED_STATE(atomic<pressure_hook>, g_pressure_hook, {nullptr});

// The result of `allocate`; while that is null, deferred objects are destroyed, if there are any, and it is called again.
template <class Allocate>
[[nodiscard]] POOLED_ALWAYS_INLINE void* with_pressure(pool_core& core, Allocate&& allocate) {
    std::uint64_t seen = ~std::uint64_t{0};
    auto const destroyed_some = [&core, &seen] {
        // acquire: pairs with the release of the teardown layer, which sets it.
        pressure_hook const hook = g_pressure_hook.load(std::memory_order_acquire);
        return hook != nullptr && hook(core, seen);
    };
    for (;;) {
        POOLED_TRY {
            void* const block = allocate();
            if (block != nullptr || !destroyed_some()) return block;
        }
        POOLED_CATCH(std::bad_alloc const&) {
            if (!destroyed_some()) POOLED_RETHROW;
        }
    }
}

// Called at exit(), after the static objects that are younger than the first pool were destroyed. Null until then as well.
POOLED_STATE(atomic<void (*)() noexcept>, g_exit_hook, {nullptr});

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
