// SPDX-License-Identifier: BSL-1.0
#pragma once
#pragma GCC system_header  // for include_next

// impl/os/platform.hpp with another barrier and another wait.

#define heavy_barrier heavy_barrier_of_the_system
#define pause pause_on_the_system
#include_next "pooled/impl/os/platform.hpp"
#undef heavy_barrier
#undef pause

#include "model/simulation.hpp"

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform {

inline void heavy_barrier() noexcept { simulation::heavy_fence(); }
inline void pause(unsigned) noexcept { simulation::yield(); }

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::platform
