// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a layer above adds to one pool: an object_pool its idle objects, the teardown layer the deferred objects of an incremental
// pool. The pool calls it when it closes and is destroyed, so no header here includes one from a layer above.
//
// A pool has at most one extension. The pool does not own it.

#include "pooled/config.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

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

    // Around a fork: no other thread is in a critical section, nor may one use what it keeps outside of them.
    virtual void before_fork() noexcept {}
    virtual void after_fork() noexcept {}

    // In the child, where only the thread that forked exists. Before after_fork().
    virtual void after_fork_in_child() noexcept {}

protected:
    pool_extension() = default;
    ~pool_extension() = default;
    pool_extension(pool_extension const&) = delete;
    pool_extension& operator=(pool_extension const&) = delete;
};

// Called when a pool has no free block left, before it reports that it is exhausted: destroys some objects whose
// destruction was deferred. False when there are none; `seen` is as in relieve(). No lock is held. Null until the teardown layer defers an object
// for the first time.
using pressure_hook = bool (*)(pool_core& core, std::uint64_t& seen) noexcept;
POOLED_STATE(std::atomic<pressure_hook>, g_pressure_hook, {nullptr});

// Called at exit(), after the static objects that are younger than the first pool were destroyed. Null until then, too.
POOLED_STATE(std::atomic<void (*)() noexcept>, g_exit_hook, {nullptr});

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
