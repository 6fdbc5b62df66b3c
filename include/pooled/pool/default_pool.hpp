// SPDX-License-Identifier: BSL-1.0
#pragma once

// The process-wide pool. Created at its first use and never destroyed, so it works before main, in static and thread-local
// destructors, and in atexit handlers.

#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/pool/pool.hpp"
#include "pooled/pool/registry.hpp"

#include <atomic>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE {

namespace detail {

struct default_pool_access {
    // No destructor runs on it. A race between first calls is settled without a lock, so that a fork meets none held.
    static pool& get() {
        static constinit std::atomic<pool*> instance{nullptr};
        // acquire: pairs with the release below; the handle is seen constructed.
        if (pool* const made = instance.load(std::memory_order_acquire)) [[likely]]
            return *made;
        pool_core& core = g_registry.default_core();
        void* const memory = g_metadata.allocate(sizeof(pool));
        auto* const made = ::new (memory) pool(core);
        pool* winner = nullptr;
        if (instance.compare_exchange_strong(winner, made, std::memory_order_acq_rel,
                                             std::memory_order_acquire))
            return *made;
        g_metadata.deallocate(memory, sizeof(pool));
        return *winner;
    }
};

}  // namespace detail

// Thread-safe. Throws std::bad_alloc when the first call finds no memory for the pool's own structures.
[[nodiscard]] inline pool& default_pool() { return detail::default_pool_access::get(); }

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
