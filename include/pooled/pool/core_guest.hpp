// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a core tells somebody who stands on it and keeps things of its own in the threads' caches: an object_pool its idle
// objects (thread_cache::recycled). Threads end, processes fork and pools close for both at once.

namespace pooled::detail {

struct thread_cache;

class core_guest {
public:
    // The cache's owner ended, or is not in this process: takes what the cache holds. Requires the core's lock.
    virtual void on_retire(thread_cache& cache) noexcept = 0;

    // The guest's own lock, around a fork. Taken after the core's; who holds it waits for no other.
    virtual void lock() noexcept = 0;
    virtual void unlock() noexcept = 0;

    // In the child, where only the thread that forked lives on.
    virtual void after_fork_in_child() noexcept = 0;

protected:
    core_guest() = default;
    ~core_guest() = default;
    core_guest(core_guest const&) = delete;
    core_guest& operator=(core_guest const&) = delete;
};

}  // namespace pooled::detail
