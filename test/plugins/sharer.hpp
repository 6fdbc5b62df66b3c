// SPDX-License-Identifier: BSL-1.0
#pragma once

// A type that an executable and a plugin both know, as the library has one for each class of objects.

#include "pooled/pooled.hpp"

#include <cstdint>

namespace plugins {

inline constexpr pooled::detail::block_type k_common_type{.retire = nullptr,
                                                          .retire_observed = nullptr,
                                                          .free = nullptr,
                                                          .finish = nullptr,
                                                          .object_offset = 8,
                                                          .object_bytes = 8};

// Its number as the file that asks has it: static, since the plugin would call the executable's function otherwise.
[[nodiscard]] static std::uint64_t number_of_common() {
    return pooled::detail::tag_of(k_common_type, pooled::detail::g_tag_of<k_common_type>);
}

}  // namespace plugins
