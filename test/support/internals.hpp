// SPDX-License-Identifier: BSL-1.0
#pragma once

// Access to internals for tests: see pool_access and object_pool_access.

#include "pooled/object_pool.hpp"
#include "pooled/pool.hpp"

namespace test {

template <class Pool>
[[nodiscard]] bool is_valid(Pool const& pool) {
    if constexpr (requires { pooled::detail::pool_access::core(pool); })
        return pooled::detail::pool_access::core(pool).is_valid();
    else
        return pooled::detail::object_pool_access::is_valid(pool);
}

template <class Pool>
[[nodiscard]] pooled::detail::pool_core& core_of(Pool const& pool) {
    return pooled::detail::pool_access::core(pool);
}

}  // namespace test
