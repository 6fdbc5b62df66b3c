// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "image.hpp"

namespace poolheap {

// Of a thread that is stopped by ptrace.
[[nodiscard]] thread stopped_thread(int pid, int id);

// Stops the process for as long as it takes to fork; the image is the copy. Throws error.
[[nodiscard]] std::unique_ptr<image> open_process(int pid);

}  // namespace poolheap
