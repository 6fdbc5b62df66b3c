// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the stand-ins (stand_ins/) call in place of atomics, locks and the system, and what runs it: Relacy, in whole_pool.hpp. Without
// Relacy's header, which must come after all of the library.
//
// An atomic, a lock and a datum with one writer are known by their addresses, so that they are as large as in production, and may lie
// in memory that is reused without a destructor's call.

#include <atomic>
#include <cstdint>

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

void full_fence();   // of the owner of a gate
void heavy_fence();  // of a thread that steals, in place of membarrier
void yield();
[[nodiscard]] unsigned thread_index();

}  // namespace simulation
