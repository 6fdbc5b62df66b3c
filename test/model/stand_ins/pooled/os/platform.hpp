// SPDX-License-Identifier: BSL-1.0
#pragma once
#pragma GCC system_header  // for include_next

// os/platform.hpp with another barrier and another wait.

#define platform platform_of_the_system
#include_next "pooled/os/platform.hpp"
#undef platform

#include "model/simulation.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

struct platform : platform_of_the_system {
    static void heavy_barrier() noexcept { simulation::heavy_fence(); }
    static void relax() noexcept { simulation::yield(); }
    static void pause(unsigned) noexcept { simulation::yield(); }
};

}  // namespace detail
POOLED_END_NAMESPACE
