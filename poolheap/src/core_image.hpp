// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "image.hpp"

namespace poolheap {

// Throws error.
[[nodiscard]] std::unique_ptr<image> open_core(std::string const& path);

// The build-id of the program or library whose file begins at an address of the image, as the image has it; empty: not known.
[[nodiscard]] std::string build_id_at(image const& from, address base);

}  // namespace poolheap
