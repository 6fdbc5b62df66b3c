// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests that hold for both kinds of object pool:
//
//   template <class Kind>
//   class recycled : public testing::Test {};
//   TYPED_TEST_SUITE(recycled, test::object_pool_kinds, test::object_pool_kind_names);
//   TYPED_TEST(recycled, object_does_what_it_says) { typename TypeParam::template pool<int> pool; ... }

#include "pooled/impl/pool/registry.hpp"
#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace test {

struct shared_kind {
    template <class T, class Lifecycle = pooled::default_lifecycle<T>>
    using pool = pooled::object_pool<T, Lifecycle>;
};
struct local_kind {
    template <class T, class Lifecycle = pooled::default_lifecycle<T>>
    using pool = pooled::local_object_pool<T, Lifecycle>;
};

using object_pool_kinds = testing::Types<shared_kind, local_kind>;

struct object_pool_kind_names {
    template <class Kind>
    static std::string GetName(int) {
        return std::is_same_v<Kind, shared_kind> ? "object_pool" : "local_object_pool";
    }
};

// Pools of the process that are not destroyed, or still have a block in use.
[[nodiscard]] inline std::size_t pools_alive() {
    std::size_t count = 0;
    for (std::uint32_t id = 0; id < pooled::detail::k_max_pools; ++id)
        count += pooled::detail::g_registry.find(id) != nullptr ? 1 : 0;
    return count;
}

// Acquisitions after which a pool in central mode is in cached mode again, with some to spare.
inline constexpr int k_settling = 3000;

// Until the calling thread's releases go to its own cache, without a lock. Requires an idle object, or that one may be built.
template <class Pool>
void settle(Pool& pool) {
    for (int i = 0; i < k_settling; ++i)
        static_cast<void>(pool.acquire());
}

}  // namespace test
