// SPDX-License-Identifier: BSL-1.0
#pragma once
#pragma GCC system_header  // for include_next

// base/thread_local.hpp with an object for each simulated thread, all of which run on one thread of the system.

#include_next "pooled/base/thread_local.hpp"

#include "model/simulation.hpp"

#undef POOLED_THREAD_STATE
#define POOLED_THREAD_STATE(type, name, ...)         \
    [[nodiscard]] inline type& name() noexcept {     \
        static simulation::of_each_thread<type> all; \
        return all.mine();                           \
    }                                                \
    static_assert(true)
