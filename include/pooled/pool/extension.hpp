// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a layer above the pool adds to one pool: an object_pool its idle objects, the teardown layer the deferred objects
// of an incremental pool. The pool calls it at the turns of its own life, so that no header here includes one above.
//
// A pool has at most one extension, set before other threads know the pool. The pool does not own it.

#include "pooled/config.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::detail {

class pool_core;
struct thread_cache;

class pool_extension {
public:
    // At each allocation from an incremental pool, and at each slow allocation from others. No lock is held.
    virtual void on_allocate() noexcept {}

    // Destroys up to `budget` deferred objects of the pool, of whichever thread. Returns how many. No lock is held.
    virtual std::size_t drain(std::size_t /*budget*/) noexcept { return 0; }

    // For an allocation that found no free block: destroys some deferred objects, or waits for those that other threads are
    // destroying. False when since the last call with the same `seen` no object was destroyed, and none is left to be. No
    // lock is held.
    virtual bool relieve(std::uint64_t& /*seen*/) noexcept { return false; }

    // The pool's handle is about to go: after this, no thread allocates from it. No lock is held.
    virtual void on_close() noexcept {}

    // No block is out and nobody can reach the pool any more: the last call. No lock is held.
    virtual void on_destroy() noexcept {}

    // The cache's owner ended, or does not exist in this process: takes what the extension keeps there. Under the pool's
    // lock.
    virtual void on_retire(thread_cache& /*cache*/) noexcept {}

    // The extension's own lock, around a fork. Taken after the pool's; who holds it waits for no other.
    virtual void lock() noexcept {}
    virtual void unlock() noexcept {}

    // In the child, where only the thread that forked exists. Under the pool's lock.
    virtual void after_fork_in_child() noexcept {}

protected:
    pool_extension() = default;
    ~pool_extension() = default;
    pool_extension(pool_extension const&) = delete;
    pool_extension& operator=(pool_extension const&) = delete;
};

// How many calls to upstream this thread is in, each under the lock of a pool: no user code may run then but upstream's.
POOLED_EXPORT inline constinit thread_local unsigned t_upstream_calls = 0;

struct upstream_call {
    upstream_call() noexcept { ++t_upstream_calls; }
    ~upstream_call() { --t_upstream_calls; }
    upstream_call(upstream_call const&) = delete;
    upstream_call& operator=(upstream_call const&) = delete;
};

// The pools that found no memory within such a call. They report failure at once; the pool on top relieves them when its own
// lock is released, and tries again.
struct refused_pools {
    static constexpr std::size_t k_most = 7;  // pools on pools; further ones are not relieved
    std::array<pool_core*, k_most> pools{};
    std::size_t count = 0;

    void note(pool_core& core) noexcept {
        for (std::size_t i = 0; i != count; ++i)
            if (pools[i] == &core) return;
        if (count != k_most) pools[count++] = &core;
    }
};
POOLED_EXPORT inline constinit thread_local refused_pools t_refused{};

// What an allocation that found no memory remembers from one attempt to the next: `seen` of relieve(), for each pool.
struct pressure {
    static constexpr std::uint64_t k_nothing_seen = ~std::uint64_t{0};
    std::array<std::uint64_t, refused_pools::k_most + 1> seen;
    pressure() noexcept { seen.fill(k_nothing_seen); }
};

// Called when a pool has no free block left, before it reports that it is exhausted: destroys some objects whose
// destruction was deferred. False when there are none. No lock is held. Null until the teardown layer defers an object
// for the first time.
using pressure_hook = bool (*)(pool_core& core, pressure& state) noexcept;
POOLED_EXPORT inline constinit std::atomic<pressure_hook> g_pressure_hook{nullptr};

// Called at exit(), after the static objects that are younger than the first pool were destroyed. Null until then, too.
POOLED_EXPORT inline constinit std::atomic<void (*)() noexcept> g_exit_hook{nullptr};

}  // namespace pooled::detail
