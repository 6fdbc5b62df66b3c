// SPDX-License-Identifier: BSL-1.0
#pragma once

// The function that runs on a fibre, in a shared library or in the executable.

#include <array>
#include <cstddef>

namespace fibres {

// Each has a size class of its own.
template <std::size_t Bytes>
struct object {
    ~object() { value = 0; }
    int value = 1;
    std::array<std::byte, Bytes - sizeof(int)> rest{};
};

// Makes an object of each kind, calls switch_thread(), and drops it. The block must then be in the cache of the thread that dropped it, which
// gets it for its next object. Returns how often it was not.
[[gnu::visibility("default")]] std::size_t count_lost_blocks(void (*switch_thread)(), std::size_t rounds);

// Where such an object lies. In another source, so that compilers do not know what they do.
[[gnu::visibility("default")]] void const* next_unique();
[[gnu::visibility("default")]] void const* next_rc();
[[gnu::visibility("default")]] void const* next_shared();
[[gnu::visibility("default")]] void const* next_of_pool();
[[gnu::visibility("default")]] void const* next_memory();

}  // namespace fibres
