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

    void lock() noexcept { simulation::lock(this); }
    bool wait(unsigned, std::int64_t ns = -1) noexcept {
        ns < 0 ? simulation::lock(this) : simulation::yield();
        return ns < 0;
    }
    [[nodiscard]] bool spin(unsigned) noexcept { return false; }
    [[nodiscard]] bool try_lock() noexcept { return simulation::try_lock(this); }
    void unlock() noexcept { simulation::unlock(this); }

private:
    template <class>
    friend struct record_access;
    std::uint32_t m_state = 0;  // only its address matters
};

}  // namespace detail
POOLED_END_NAMESPACE
