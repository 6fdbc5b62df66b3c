// SPDX-License-Identifier: BSL-1.0
#pragma once

// Stands for os/fork_gate.hpp, which model/fork_gate.cpp verifies: no thread forks here.

#include "pooled/config.hpp"
#include "pooled/os/raw_mutex.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

struct fork_gate {
    void enter() const noexcept {}
    void leave() const noexcept {}
    void own_flag() const noexcept {}
    static void release_flag() noexcept {}
    void begin() const noexcept {}
    void end() const noexcept {}
    void forget_others() const noexcept {}
    [[nodiscard]] static std::uint32_t begun() noexcept { return 0; }
    [[nodiscard]] static bool is_passed() noexcept { return false; }
};
inline constinit fork_gate g_fork_gate;

}  // namespace detail
POOLED_END_NAMESPACE
