// SPDX-License-Identifier: BSL-1.0
#pragma once

// Stands for base/atomics.hpp: the same names, simulated. Loads of an observed value give the newest one: what it must not be is
// written by two threads that are not ordered.

#include "pooled/config.hpp"

#include "model/simulation.hpp"

#include <atomic>
#include <cstdint>
#include <type_traits>

POOLED_BEGIN_NAMESPACE
namespace detail {

template <class T>
class simulated_atomic {
public:
    constexpr simulated_atomic() noexcept : simulated_atomic(T{}) {}
    constexpr simulated_atomic(T value) noexcept : m_newest(value) {
        if (!std::is_constant_evaluated()) simulation::begin_atomic(this, word(value));
    }
    simulated_atomic(simulated_atomic const&) = delete;
    simulated_atomic& operator=(simulated_atomic const&) = delete;

    [[nodiscard]] T load(std::memory_order order) const noexcept {
        return value(simulation::load(this, word(m_newest), order));
    }
    void store(T to, std::memory_order order) noexcept {
        simulation::store(this, word(m_newest), word(to), order);
        m_newest = to;
    }
    T exchange(T to, std::memory_order order) noexcept {
        T const before = value(simulation::exchange(this, word(m_newest), word(to), order));
        m_newest = to;
        return before;
    }
    T fetch_add(T amount, std::memory_order order) noexcept
        requires std::is_integral_v<T>
    {
        T const before = value(simulation::fetch_add(this, word(m_newest), word(amount), order));
        m_newest = before + amount;
        return before;
    }
    T fetch_sub(T amount, std::memory_order order) noexcept
        requires std::is_integral_v<T>
    {
        T const before = value(simulation::fetch_add(this, word(m_newest), ~word(amount) + 1, order));
        m_newest = before - amount;
        return before;
    }
    T fetch_or(T bits, std::memory_order order) noexcept {
        T before = m_newest;
        while (!compare_exchange_strong(before, static_cast<T>(before | bits), order)) {}
        return before;
    }
    bool compare_exchange_strong(T& expected, T to, std::memory_order order,
                                 std::memory_order = std::memory_order_relaxed) noexcept {
        std::uint64_t known = word(expected);
        bool const is_equal = simulation::compare_exchange(this, word(m_newest), known, word(to), order);
        if (is_equal) m_newest = to;
        expected = value(known);
        return is_equal;
    }

private:
    [[nodiscard]] static std::uint64_t word(T one) noexcept {
        if constexpr (std::is_pointer_v<T>)
            return reinterpret_cast<std::uintptr_t>(one);
        else
            return static_cast<std::uint64_t>(one);
    }
    [[nodiscard]] static T value(std::uint64_t one) noexcept {
        if constexpr (std::is_pointer_v<T>)
            return reinterpret_cast<T>(static_cast<std::uintptr_t>(one));
        else
            return static_cast<T>(one);
    }

    T m_newest;  // also what a static one begins with in the next iteration
};

// What one thread at a time uses.
template <class T>
class simulated_plain {
public:
    constexpr simulated_plain(T value) noexcept : m_value(value) {}
    simulated_plain(simulated_plain const& other) noexcept : simulated_plain(T(other)) {}
    simulated_plain& operator=(simulated_plain const& other) noexcept { return *this = T(other); }
    simulated_plain& operator=(T value) noexcept {
        simulation::note_write(this);
        m_value = value;
        return *this;
    }
    operator T() const noexcept {
        simulation::note_read(this);
        return m_value;
    }
    T operator->() const noexcept { return *this; }

private:
    T m_value;
};

// What the policy does not name is not simulated.
template <class T>
struct atomic : std::atomic<T> {
    using std::atomic<T>::atomic;
    T add_fetch(T value, std::memory_order order) noexcept { return this->fetch_add(value, order) + value; }
};

POOLED_STATE(atomic<int>, g_has_heavy_barrier, {0});

struct std_atomics {
    template <class T>
    using atomic = simulated_atomic<T>;
    template <class T>
    using plain = simulated_plain<T>;

    static void full_barrier() noexcept { simulation::full_fence(); }
    static void light_barrier() noexcept { simulation::light_fence(); }
    static bool exceeds(atomic<std::uint64_t> const& limit, std::uint64_t n) noexcept {
        return limit.load(std::memory_order_acquire) > n;
    }
};

template <class T>
class observed {
public:
    constexpr observed() noexcept = default;
    constexpr explicit observed(T value) noexcept : m_value(value) {}
    constexpr observed(observed const& other) noexcept : m_value(other.m_value) {}
    observed& operator=(observed const& other) noexcept { return *this = T(other); }
    observed& operator=(T value) noexcept {
        simulation::note_write(this);
        m_value = value;
        return *this;
    }
    operator T() const noexcept { return m_value; }
    void publish(T value) noexcept { *this = value; }
    [[nodiscard]] T acquire() const noexcept { return m_value; }
    [[nodiscard]] T own() const noexcept { return m_value; }
    void add(T amount) noexcept { *this = static_cast<T>(m_value + amount); }
    void subtract(T amount) noexcept { *this = static_cast<T>(m_value - amount); }

private:
    T m_value{};
};

}  // namespace detail
POOLED_END_NAMESPACE
