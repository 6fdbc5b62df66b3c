// SPDX-License-Identifier: BSL-1.0
#pragma once

// The function that runs on a fibre, in a shared library or in the executable.

#include <cstddef>

namespace fibres {

// Makes an object of each kind, calls switch_thread(), and drops it. The block must then be in the cache of the thread that dropped it, which
// gets it for its next object. Returns how often it was not.
[[gnu::visibility("default")]] std::size_t count_lost_blocks(void (*switch_thread)(), std::size_t rounds);

}  // namespace fibres
