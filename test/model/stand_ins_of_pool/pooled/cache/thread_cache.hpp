// SPDX-License-Identifier: BSL-1.0
#pragma once
#pragma GCC system_header  // for include_next

// cache/thread_cache.hpp with a state for each simulated thread, all of which run on one thread of the system.

#include_next "pooled/cache/thread_cache.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

inline constinit std::array<thread_state, 4> g_simulated_states{};

[[nodiscard]] inline thread_state& simulated_state() noexcept {
    return g_simulated_states[simulation::thread_index()];
}

}  // namespace detail
POOLED_END_NAMESPACE

#define t_state simulated_state
#undef POOLED_THREAD_GET
#undef POOLED_THREAD_GET_AT
#undef POOLED_THREAD_SET
#undef POOLED_THREAD_EQUALS
#define POOLED_THREAD_GET(name, member) (name().member)
#define POOLED_THREAD_GET_AT(name, member, index) (name().member[index])
#define POOLED_THREAD_SET(name, member, value) static_cast<void>(name().member = (value))
#define POOLED_THREAD_EQUALS(name, member, value) (name().member == (value))
