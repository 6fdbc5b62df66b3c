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
    void order() const noexcept {}
    void recover() const noexcept {}
    template <class Condition>
    bool await(Condition&& is_met) const noexcept {
        return is_met();
    }
    [[nodiscard]] bool has_given_up() const noexcept { return false; }
    [[nodiscard]] static std::uint32_t begun() noexcept { return 0; }
    [[nodiscard]] static bool is_passed() noexcept { return false; }
};
inline constinit fork_gate g_fork_gate;

struct fork_pass {
    fork_pass() noexcept {}
    ~fork_pass() {}
};

struct fork_hooks {
    void (*before)() noexcept;
    void (*in_child)() noexcept;
    void (*begin_anew)() noexcept;
};
inline constinit atomic<fork_hooks const*> g_fork_hooks{nullptr};
inline constinit observed<std::uint32_t> g_forks_lost;
inline bool register_fork_handlers(bool) noexcept { return true; }

}  // namespace detail
POOLED_END_NAMESPACE
