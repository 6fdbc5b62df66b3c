// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a pool without a free block does before it reports exhaustion, on the slow path only: deferred objects are destroyed, then the
// program's function runs (pool_options::on_exhausted). A pool without one pays for a null check there.
//
// Any thread may call; under no lock.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/options.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Whether a hook is running on this thread. It may allocate, and is not called again for these allocations.
POOLED_STATE(thread_local bool, t_in_exhaustion_hook, {false});

// False when no function was called, so there is no reason to try again.
[[nodiscard]] inline bool call_exhaustion_hook(pool_core const& core, std::size_t bytes) noexcept {
    exhaustion_hook const& hook = core.on_exhausted();
    if (hook.call == nullptr || t_in_exhaustion_hook) return false;
    t_in_exhaustion_hook = true;
    hook.call(bytes, hook.context);
    t_in_exhaustion_hook = false;
    return true;
}

// The result of `allocate`; if that is null, its result after the hook has run.
template <class Allocate>
[[nodiscard]] void* with_exhaustion_hook(pool_core const& core, std::size_t bytes, Allocate&& allocate) {
    POOLED_TRY {
        void* const block = allocate();
        if (block != nullptr || !detail::call_exhaustion_hook(core, bytes)) return block;
    }
    POOLED_CATCH(std::bad_alloc const&) {
        if (!detail::call_exhaustion_hook(core, bytes)) POOLED_RETHROW;
    }
    return allocate();
}

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

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
