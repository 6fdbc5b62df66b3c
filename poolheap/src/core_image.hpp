// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "image.hpp"

namespace poolheap {

// Throws error.
[[nodiscard]] std::unique_ptr<image> open_core(std::string const& path);

}  // namespace poolheap
