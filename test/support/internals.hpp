// SPDX-License-Identifier: BSL-1.0
#pragma once

// Access to internals for tests: see pool_access, too.

#include "pooled/object_pool.hpp"
#include "pooled/pool.hpp"

POOLED_BEGIN_NAMESPACE
namespace detail {

// A friend of the pool.
struct object_pool_access {
    // Walks every structure, with other threads kept out.
    template <class T, class Lifecycle, sharing Sharing>
    [[nodiscard]] static bool is_valid(basic_object_pool<T, Lifecycle, Sharing> const& one) {
        return one.m_recycler->is_valid();
    }
    template <class T, class Lifecycle, sharing Sharing>
    [[nodiscard]] static pool_core& core(basic_object_pool<T, Lifecycle, Sharing> const& one) {
        return one.m_recycler->core();
    }
};

}  // namespace detail
POOLED_END_NAMESPACE

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
