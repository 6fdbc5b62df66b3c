// SPDX-License-Identifier: BSL-1.0
#pragma once

// Memory for objects that are made later. Any thread may call.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/size_class.hpp"
#if POOLED_HAS_CODE
#include "pooled/detail/bits.hpp"
#include "pooled/impl/instrument/checks.hpp"
#endif

#include <cstddef>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// As pool_core::reserve(), of which `request` is what is asked for; throws exhausted when the bound does not allow it.
POOLED_API void reserve_classes(pool_core& core, class_index a, class_index b, std::size_t count,
                                large_shape request);

#if POOLED_HAS_CODE

POOLED_CODE void reserve_classes(pool_core& core, class_index a, class_index b, std::size_t count,
                                 large_shape request) {
    checks::on_request(core, request.bytes, request.align);
    if (core.reserve(a, b, count, request)) return;
    std::size_t const bytes = a < k_first_large ? k_geometry[a].block_bytes : request.bytes;
    core.throw_exhausted(saturating_multiply(count, bytes));
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
