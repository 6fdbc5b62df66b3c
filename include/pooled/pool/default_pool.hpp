// SPDX-License-Identifier: BSL-1.0
#pragma once

// The process-wide pool. Made at its first use and never destroyed, so it works before main, in static and thread-local
// destructors, and in atexit handlers.

#include "pooled/pool/pool.hpp"

#include <array>
#include <cstddef>
#include <new>

namespace pooled {

namespace detail {

struct default_pool_access {
    // Storage that no destructor runs on.
    static pool& get() {
        alignas(pool) static std::array<std::byte, sizeof(pool)> storage;
        static pool* const instance = ::new (storage.data()) pool(g_registry.default_core());
        return *instance;
    }
};

}  // namespace detail

// Thread-safe. Throws std::bad_alloc when the first call finds no memory for the pool's own books.
[[nodiscard]] inline pool& default_pool() { return detail::default_pool_access::get(); }

}  // namespace pooled
