// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "image.hpp"

namespace poolheap {

// Stops the process, copies its writable memory, and lets it go on. Throws error.
[[nodiscard]] std::unique_ptr<image> open_process(int pid);

}  // namespace poolheap
