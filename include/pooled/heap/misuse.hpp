// SPDX-License-Identifier: BSL-1.0
#pragma once

// The message for a deallocation that the heap finds to be wrong, in every build. The checked build finds more, earlier.

#include "pooled/config.hpp"

#include <array>
#include <cstdio>

namespace pooled::detail {

POOLED_NOINLINE inline void fail_deallocation(char const* pool_name, void const* p,
                                              char const* what) noexcept {
    std::array<char, 256> message{};
    std::snprintf(message.data(), message.size(),
                  "pooled: bad deallocation of %p into pool '%s': %s; build with -DPOOLED_CHECKED=1 to have "
                  "it reported "
                  "at the offending call",
                  p, pool_name, what);
    POOLED_FAIL(message.data());
}

}  // namespace pooled::detail
