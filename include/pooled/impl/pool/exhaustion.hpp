// SPDX-License-Identifier: BSL-1.0
#pragma once

// pool_options::on_exhausted: the program's function that runs before a pool reports exhaustion. It runs on the slow path only,
// once everything else has failed; a pool without one pays for a null check there.
//
// Any thread may call; under no lock.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/options.hpp"

#include <cstddef>
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

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
