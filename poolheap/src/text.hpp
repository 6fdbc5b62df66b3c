// SPDX-License-Identifier: BSL-1.0
#pragma once

// Figures and names as people read them.

#include <cstddef>
#include <string>
#include <string_view>

namespace poolheap {

[[nodiscard]] std::string with_commas(std::size_t n);                     // "20,400"
[[nodiscard]] std::string in_bytes(std::size_t n);                        // "9.8 MiB"
[[nodiscard]] std::size_t columns(std::string_view text);                 // of UTF-8, one for each character
[[nodiscard]] std::string fit(std::string_view text, std::size_t width);  // shortened in the middle
[[nodiscard]] std::string right(std::string_view text, std::size_t width);  // filled on the left
[[nodiscard]] std::string change(std::size_t before, std::size_t after,
                                 std::string (*as)(std::size_t));  // "+20,400"

}  // namespace poolheap
