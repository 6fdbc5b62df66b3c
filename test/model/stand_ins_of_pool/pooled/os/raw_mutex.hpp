// SPDX-License-Identifier: BSL-1.0
#pragma once

// Stands for os/raw_mutex.hpp, which model/fork_gate.cpp verifies.

#include "pooled/config.hpp"
#include "pooled/os/platform.hpp"

#include "model/simulation.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

class raw_mutex {
public:
    constexpr raw_mutex() noexcept = default;
    raw_mutex(raw_mutex const&) = delete;
    raw_mutex& operator=(raw_mutex const&) = delete;

    static constexpr unsigned k_attempts = 0;
    static constexpr unsigned k_patient_attempts = 0;

    void lock() noexcept {
        simulation::lock(this);
        m_state = k_held;
    }
    bool wait(unsigned, std::int64_t ns = -1) noexcept {
        ns < 0 ? lock() : simulation::yield();
        return ns < 0;
    }
    [[nodiscard]] bool spin(unsigned) noexcept { return false; }
    [[nodiscard]] bool try_lock() noexcept {
        bool const is_mine = simulation::try_lock(this);
        if (is_mine) m_state = k_held;
        return is_mine;
    }
    void unlock() noexcept {
        m_state = k_free;
        simulation::unlock(this);
    }
    // No other thread runs within one of these but where it calls the simulation.
    [[nodiscard]] bool tell_holder() noexcept {
        if (m_state != k_free) m_state = k_left;
        return m_state != k_free;
    }
    [[nodiscard]] bool try_unlock() noexcept {
        bool const may_free = m_state == k_held;
        may_free ? unlock() : static_cast<void>(m_state = k_held);
        return may_free;
    }

private:
    friend record_access;
    static constexpr std::uint32_t k_free = 0;
    static constexpr std::uint32_t k_held = 1;
    static constexpr std::uint32_t k_left = 2;
    std::uint32_t m_state = k_free;
};

}  // namespace detail
POOLED_END_NAMESPACE
