// SPDX-License-Identifier: BSL-1.0
#pragma once

// synchronized_pool_resource and unsynchronized_pool_resource, replacements for those of std::pmr: the same constructors,
// members and effects, in namespace pooled::compat.
//
//   #include <pooled/compat/pmr.hpp>                              // beside <memory_resource>
//   pooled::compat::synchronized_pool_resource pool;              // was std::pmr::synchronized_pool_resource
//   std::pmr::vector<int> v(&pool);
//
// Blocks come from a pooled::pool, or a local_pool, on memory of the upstream resource. docs/migration/pmr.md lists the
// differences.

#include "pooled/compat/pmr/pool_resource.hpp"
#include "pooled/config.hpp"
#if POOLED_HAS_CODE
#include "pooled/compat/pmr/resource_pool.hpp"
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

// Any thread may call.
class synchronized_pool_resource : public detail::pool_resource<pooled::detail::sharing{true}> {
public:
    using pool_resource::pool_resource;
};

// For one thread at a time.
class unsynchronized_pool_resource : public detail::pool_resource<pooled::detail::sharing{false}> {
public:
    using pool_resource::pool_resource;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
