// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests that hold for both kinds of object pool:
//
//   template <class Kind>
//   class recycled : public testing::Test {};
//   TYPED_TEST_SUITE(recycled, test::object_pool_kinds, test::object_pool_kind_names);
//   TYPED_TEST(recycled, object_does_what_it_says) { typename TypeParam::template pool<int> pool; ... }

#include "pooled/pool/registry.hpp"
#include "pooled/pooled.hpp"

#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

// Every kind of pool with every handle that counts its owners: TypeParam has pool, acquire(pool) and try_acquire(pool).
struct by_shared_ptr {
    [[nodiscard]] static auto acquire(auto& pool) { return pool.acquire(); }
    [[nodiscard]] static auto try_acquire(auto& pool) { return pool.try_acquire(); }
};
struct by_rc_ptr {
    [[nodiscard]] static auto acquire(auto& pool) { return pool.acquire_rc(); }
    [[nodiscard]] static auto try_acquire(auto& pool) { return pool.try_acquire_rc(); }
};
template <class Pool, class Handle>
struct counted_kind : Pool, Handle {
    using pool_kind = Pool;
};
using counted_kinds =
    testing::Types<counted_kind<shared_kind, by_shared_ptr>, counted_kind<local_kind, by_shared_ptr>,
                   counted_kind<shared_kind, by_rc_ptr>, counted_kind<local_kind, by_rc_ptr>>;
struct counted_kind_names {
    template <class Kind>
    static std::string GetName(int i) {
        char const* const handle = std::is_base_of_v<by_shared_ptr, Kind> ? "shared_ptr_of_" : "rc_ptr_of_";
        return handle + object_pool_kind_names::GetName<typename Kind::pool_kind>(i);
    }
};

// Pools of the process that are not destroyed, or still have a block in use.
[[nodiscard]] inline std::size_t pools_alive() {
    std::size_t count = 0;
    for (std::uint32_t id = 0; id < pooled::detail::k_max_pools; ++id)
        count += pooled::detail::g_registry.find(id) != nullptr ? 1 : 0;
    return count;
}

// Objects that a log counts, and no pool that is left behind.
template <class Kind>
class object_pool_test : public testing::Test {
protected:
    using object = counted<>;
    using pool_type = typename Kind::template pool<object>;

    ~object_pool_test() override { EXPECT_EQ(pools_alive(), pools_before) << "a block was not given back"; }

    // All that a pool gives.
    template <class Pool>
    [[nodiscard]] static std::vector<std::shared_ptr<typename Pool::value_type>> take_all(Pool& pool) {
        std::vector<std::shared_ptr<typename Pool::value_type>> all;
        while (auto p = pool.try_acquire())
            all.push_back(std::move(p));
        return all;
    }

    // The default pool is made before: it stays.
    std::size_t pools_before = (static_cast<void>(pooled::default_pool().stats()), pools_alive());
    life_log log;
    life_log::scope scope{log};
};

// Acquisitions after which a pool in central mode is in cached mode again, with some to spare.
inline constexpr int k_settling = 3000;

// Until the calling thread's releases go to its own cache, without a lock. Requires an idle object, or that one may be built.
template <class Pool>
void settle(Pool& pool) {
    for (int i = 0; i < k_settling; ++i)
        static_cast<void>(pool.acquire());
}

}  // namespace test
