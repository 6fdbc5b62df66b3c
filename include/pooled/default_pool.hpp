// SPDX-License-Identifier: BSL-1.0
#pragma once

// The process-wide pool. Created at its first use, or before that by configure_default_pool(), and never destroyed, so it works
// before main, in static and thread-local destructors, and in atexit handlers.

#include "pooled/options.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/pool.hpp"
#include "pooled/pool/registry.hpp"

POOLED_BEGIN_NAMESPACE

namespace detail {

POOLED_STATE(atomic<pool*>, g_default_pool, {nullptr});

// Its destructor never runs.
struct default_pool_access {
    [[nodiscard]] POOLED_API static pool& make();
};

#if POOLED_HAS_CODE

POOLED_CODE pool& default_pool_access::make() {
    pool_core& core = g_registry.default_core();
    scoped_lock const lock(g_registry);
    pool* made = g_default_pool.load(std::memory_order_relaxed);
    if (made == nullptr) made = ::new (g_metadata.allocate(sizeof(pool))) pool(core);
    g_fork_gate.order();                                    // as in registry::add()
    g_default_pool.store(made, std::memory_order_release);  // pairs with the acquire in default_pool()
    return *made;
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
[[nodiscard]] POOLED_API bool configure_default_pool(pool_options const& options);

#if POOLED_HAS_CODE

POOLED_CODE bool configure_default_pool(pool_options const& options) {
    if (options.teardown != teardown::immediate)
        POOLED_THROW(std::invalid_argument("pooled: configure_default_pool: teardown must be immediate, "
                                           "because that is compiled into each drop; use a "
                                           "reclaim_scope, or a pool of your own"));
    pool_options named = options;
    if (named.name == pool_options().name) named.name = detail::k_default_pool_name;
    bool is_new = false;
    static_cast<void>(detail::g_registry.find_default_core(named, is_new));
    return is_new;
}

#endif

POOLED_END_NAMESPACE
