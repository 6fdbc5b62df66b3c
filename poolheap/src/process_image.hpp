// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "image.hpp"

namespace poolheap {

// Stops the process, copies its writable memory, and lets it go on. Throws error.
[[nodiscard]] std::unique_ptr<image> open_process(int pid);

// Of a child of this process: makes it fork, and leaves the copy frozen for as long as the image lives. The child stands still for the time
// that a fork takes. Where that is not possible, the same as open_process. Throws error.
[[nodiscard]] std::unique_ptr<image> open_forked(int child);

}  // namespace poolheap
