// SPDX-License-Identifier: BSL-1.0
#pragma once

// simulation.hpp by Relacy. Include it after all of the library, once in a program.

#include "model/relacy_atomics.hpp"  // behind all others
#include "model/simulation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simulation {

// The simulated objects at some addresses, in one iteration.
template <class T, std::size_t Capacity>
class table {
public:
    // Constructs it as T(arguments...) if there is none.
    template <class... Arguments>
    [[nodiscard]] T& at(void const* address, Arguments... arguments) {
        std::size_t const i = index_of(address);
        if (m_keys[i] != nullptr) return *object(i);
        m_keys[i] = address;
        m_used[m_count++] = i;
        RL_ASSERT(m_count < Capacity);
        return *std::construct_at(object(i), arguments...);
    }
    // After an iteration that failed: what made them is gone.
    [[nodiscard]] T* find(void const* address) {
        std::size_t const i = index_of(address);
        return m_keys[i] != nullptr ? object(i) : nullptr;
    }
    void forget() {
        while (m_count != 0)
            m_keys[m_used[--m_count]] = nullptr;
    }
    void clear() {
        while (m_count != 0) {
            std::size_t const i = m_used[--m_count];
            std::destroy_at(object(i));
            m_keys[i] = nullptr;
        }
    }

private:
    // Where it is, or goes.
    [[nodiscard]] std::size_t index_of(void const* address) const {
        std::size_t i = (reinterpret_cast<std::uintptr_t>(address) >> 2) * 0x9e37'79b9'7f4a'7c15U >> 40;
        for (i %= Capacity; m_keys[i] != nullptr && m_keys[i] != address;)
            i = (i + 1) % Capacity;
        return i;
    }
    [[nodiscard]] T* object(std::size_t i) {
        return std::launder(reinterpret_cast<T*>(m_memory.data() + i * sizeof(T)));
    }
    alignas(T) std::array<std::byte, Capacity * sizeof(T)> m_memory;
    std::array<void const*, Capacity> m_keys{};
    std::array<std::size_t, Capacity> m_used{};
    std::size_t m_count = 0;
};

inline table<rl::atomic<std::uint64_t>, 512> g_atomics;
inline table<rl::var<int>, 8192> g_written;
inline table<rl::mutex, 1024> g_locks;
inline bool g_is_in_thread = false;
inline unsigned g_acts_as = 0;  // whose state is used before and after the threads run
inline bool g_has_full_fence = true;
inline bool g_has_heavy_fence = true;

inline rl::atomic<std::uint64_t>& atomic_at(void const* at, std::uint64_t initial) {
    return g_atomics.at(at, initial);
}
void begin_atomic(void const* at, std::uint64_t value) {
    if (rl::context::is_instance()) atomic_at(at, value).store(value, rl::mo_relaxed, $);
}
std::uint64_t load(void const* at, std::uint64_t initial, std::memory_order order) {
    return atomic_at(at, initial).load(model::order_of(order), $);
}
void store(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order) {
    atomic_at(at, initial).store(value, model::order_of(order), $);
}
std::uint64_t exchange(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order) {
    return atomic_at(at, initial).exchange(value, model::order_of(order), $);
}
std::uint64_t fetch_add(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order) {
    return atomic_at(at, initial).fetch_add(value, model::order_of(order), $);
}
bool compare_exchange(void const* at, std::uint64_t initial, std::uint64_t& expected, std::uint64_t value,
                      std::memory_order order) {
    return atomic_at(at, initial).compare_exchange_strong(expected, value, model::order_of(order), $);
}

void note_read(void const* at) {
    if (rl::var<int>* const written = g_written.find(at)) static_cast<void>(int((*written)($)));
}
void note_write(void const* at) { g_written.at(at)($) = 0; }

void lock(void const* at) { g_locks.at(at).lock($); }
bool try_lock(void const* at) { return g_locks.at(at).try_lock($); }
void unlock(void const* at) { g_locks.at(at).unlock($); }

void full_fence() {
    if (g_has_full_fence) rl::atomic_thread_fence(rl::mo_seq_cst, $);
}
void heavy_fence() {
    if (g_has_heavy_fence) rl::atomic_thread_fence(rl::mo_seq_cst, $);
}
void yield() { model::yield(); }
unsigned thread_index() { return g_is_in_thread ? rl::thread_index() : g_acts_as; }

// At the beginning of an iteration; there is something when the last one failed.
inline void forget() {
    g_atomics.forget();
    g_written.forget();
    g_locks.forget();
}
// At the end of an iteration, when nothing simulated is used any more.
inline void clear() {
    g_atomics.clear();
    g_written.clear();
    g_locks.clear();
}

}  // namespace simulation
