// SPDX-License-Identifier: BSL-1.0
#pragma once
#pragma GCC system_header  // for include_next

// os/platform.hpp with other barriers and waits.

#define platform platform_of_the_system
#define k_waiting k_waiting_of_the_system
#include_next "pooled/os/platform.hpp"
#undef platform
#undef k_waiting

#include "model/simulation.hpp"

#include <cstdint>

POOLED_BEGIN_NAMESPACE
namespace detail {

inline constexpr waiting k_waiting{
    .lock_attempts = 1, .waiter_spins = 1, .fork_flags = 2, .fork_patience = simulation::k_long};

struct platform : platform_of_the_system {
    // futex(2): the kernel looks at the newest value.
    template <class Atomic>
    static void wait_while(Atomic& state, std::uint32_t value, std::int64_t timeout_ns = -1) noexcept {
        if (state.fetch_add(0, std::memory_order_relaxed) == value) simulation::sleep(&state, timeout_ns);
    }
    template <class Atomic>
    static void wake_one(Atomic& state) noexcept {
        simulation::wake_one(&state);
    }
    template <class Atomic>
    static void wake_all(Atomic& state) noexcept {
        simulation::wake_all(&state);
    }
    [[nodiscard]] static std::int64_t time() noexcept { return simulation::time(); }
    static void pause(unsigned) noexcept { simulation::yield(); }
    static void relax() noexcept { simulation::yield(); }
    [[nodiscard]] static std::uint64_t process() noexcept { return 1; }
    static void wait_for_copy() noexcept { simulation::wait_for_copy(); }
    static void heavy_barrier() noexcept { simulation::heavy_fence(); }
};

}  // namespace detail
POOLED_END_NAMESPACE
