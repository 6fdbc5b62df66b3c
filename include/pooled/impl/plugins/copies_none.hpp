// SPDX-License-Identifier: BSL-1.0
#pragma once

// The copies of impl/plugins/copies.hpp where they cannot find each other: each works alone.

#include "pooled/config.hpp"

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct copy_directory;

inline void pin_this_library() noexcept {}
[[nodiscard]] inline copy_directory* find_directory(copy_directory& own, bool) noexcept { return &own; }

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
