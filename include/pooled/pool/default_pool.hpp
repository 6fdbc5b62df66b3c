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

POOLED_STATE(std::atomic<pool*>, g_default_pool, {nullptr});

// Its destructor never runs.
struct default_pool_access {
    [[nodiscard]] POOLED_API static pool& make();
};

#if POOLED_HAS_CODE

// First calls on several threads need no lock, which a fork could find held.
POOLED_CODE pool& default_pool_access::make() {
    pool_core& core = g_registry.default_core();
    void* const memory = g_metadata.allocate(sizeof(pool));
    auto* const made = ::new (memory) pool(core);
    pool* winner = nullptr;
    // acq_rel: pairs with the acquire in default_pool().
    if (g_default_pool.compare_exchange_strong(winner, made, std::memory_order_acq_rel,
                                               std::memory_order_acquire))
        return *made;
    g_metadata.deallocate(memory, sizeof(pool));
    return *winner;
}

#endif

}  // namespace detail

// Thread-safe. Throws std::bad_alloc when the first call finds no memory for the pool's own structures.
[[nodiscard]] inline pool& default_pool() {
    // acquire: pairs with the release in make(); the constructed handle is seen.
    pool* const made = detail::g_default_pool.load(std::memory_order_acquire);
    return made != nullptr ? *made : detail::default_pool_access::make();
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
