// SPDX-License-Identifier: BSL-1.0
#pragma once

// The process-wide pool. Created at its first use, or before that by configure_default_pool(), and never destroyed, so it works
// before main, in static and thread-local destructors, and in atexit handlers.

#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/pool/options.hpp"
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

// Makes the process-wide pool, with these options; its name remains "default" if they give none. False when it exists already, with
// other options: an object that was made before, by a static initialiser for example, is enough. False as well in a shared library or
// executable with its own copy of the library's state when another copy was first to make a pool, since the default pool is
// then that one's. Thread-safe. Throws std::invalid_argument for options that make no sense, and for a teardown other than
// immediate; std::bad_alloc.
[[nodiscard]] inline bool configure_default_pool(pool_options const& options) {
    return detail::g_registry.configure_default_core(options);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
