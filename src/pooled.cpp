// SPDX-License-Identifier: BSL-1.0

// The library compiled once, for pooled::shared and pooled::static: the slow paths and the state. Sources that are compiled
// with POOLED_SHARED or POOLED_STATIC have the fast paths alone.

#define POOLED_BUILDS_LIBRARY
#include "pooled/pooled.hpp"

#include "pooled/os/platform_contract.hpp"

// libpooled-new.so has this source, too, but no program's pools.
#if !defined(POOLED_PRELOADED)
namespace {
// The kernel enables the barrier in microseconds now, and in 12 ms once other threads run.
[[gnu::constructor(101)]] void offer_default_pool() {
    static_cast<void>(pooled::detail::platform::has_heavy_barrier());
    pooled::detail::g_registry.add_program();
}
}  // namespace
#endif
