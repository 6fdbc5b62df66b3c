// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the stand-ins (stand_ins/) call instead of atomics, locks and the system, and what runs it: Relacy, in relacy.hpp. Without
// Relacy's header, which must come after all of the library.
//
// An atomic, a lock and a datum with one writer are known by their addresses, so that they are as large as in production, and may lie
// in memory that is reused without a destructor's call.

#include <atomic>
#include <cstdint>
#include <memory>

namespace simulation {

// A new atomic lies there. Of static ones the first access says so.
void begin_atomic(void const* at, std::uint64_t value);
[[nodiscard]] std::uint64_t load(void const* at, std::uint64_t initial, std::memory_order order);
void store(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order);
std::uint64_t exchange(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order);
std::uint64_t fetch_add(void const* at, std::uint64_t initial, std::uint64_t value, std::memory_order order);
bool compare_exchange(void const* at, std::uint64_t initial, std::uint64_t& expected, std::uint64_t value,
                      std::memory_order order);

// Accesses to what one thread at a time uses, or changes. A write that is not ordered before or after another access is a race.
void note_read(void const* at);
void note_write(void const* at);

void lock(void const* at);
[[nodiscard]] bool try_lock(void const* at);
void unlock(void const* at);

void light_fence();  // of the owner of a gate: the other side's makes it a fence whenever that matters, here it always is one
void full_fence();
void heavy_fence();  // of a thread that steals, instead of membarrier
void yield();
[[nodiscard]] unsigned thread_index();
[[nodiscard]] unsigned iteration();

// Whoever is to sleep is in the kernel's list before anybody else can call wake. Without a time below k_long, nothing but a call of wake
// ends the sleep: a lost one is a livelock, which Relacy reports. With one, the sleep may end at any time.
inline constexpr std::int64_t k_long = 1'000'000;
void sleep(void const* at, std::int64_t nanoseconds);
void wake_one(void const* at);
void wake_all(void const* at);
[[nodiscard]] std::int64_t time();
void wait_for_copy();  // a fork copies the process's memory under the lock of its mappings

// What is thread_local in production: new in each iteration.
template <class T>
class of_each_thread {
public:
    [[nodiscard]] T& mine() {
        unsigned const self = thread_index();
        if (m_iterations[self] != iteration()) {
            m_iterations[self] = iteration();
            std::construct_at(&m_all[self]);
        }
        return m_all[self];
    }

private:
    T m_all[8]{};
    unsigned m_iterations[8]{};
};

}  // namespace simulation
