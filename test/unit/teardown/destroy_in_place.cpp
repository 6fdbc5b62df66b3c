// SPDX-License-Identifier: BSL-1.0
// destroy_in_place<T>: objects of such a type are destroyed where their last owner drops them, in every mode.

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace {

int g_alive = 0;

struct guard {
    guard() noexcept { ++g_alive; }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() { --g_alive; }
};
struct deferrable : guard {};

}  // namespace

template <>
inline constexpr bool pooled::destroy_in_place<guard> = true;

namespace {

template <class T, class Pool>
int alive_after_drops(Pool& pool) {
    auto shared = pool.template make_shared<T>();
    auto observed = pool.template make_shared<T const>();
    std::weak_ptr<T const> const observer = observed;
    auto counted = pool.template make_rc<T>();
    pooled::rc_ptr<T> const copy = counted;
    auto unique = pool.template make_unique<T>();
    shared.reset();
    observed.reset();
    unique.reset();
    counted.reset();
    const_cast<pooled::rc_ptr<T>&>(copy).reset();
    return g_alive;
}

TEST(a_type_that_is_destroyed_in_place, is_never_deferred_by_a_pool) {
    pooled::pool incremental{{.teardown = pooled::teardown::incremental}};
    EXPECT_EQ(alive_after_drops<guard>(incremental), 0);
    EXPECT_EQ(alive_after_drops<deferrable>(incremental), 4);
    incremental.drain();
    pooled::pool unordered{{.teardown = pooled::teardown::unordered}};
    EXPECT_EQ(alive_after_drops<guard>(unordered), 0);
    EXPECT_EQ(incremental.stats().in_use, 0U);
    EXPECT_EQ(unordered.stats().in_use, 0U);
}

TEST(a_type_that_is_destroyed_in_place, is_never_gathered_by_a_scope) {
    pooled::pool pool;
    pooled::reclaim_scope const scope;
    EXPECT_EQ(alive_after_drops<guard>(pool), 0);
    EXPECT_EQ(alive_after_drops<deferrable>(pool), 4);
}

// What an unordered pool's object drops is deferred to the outermost drop; an immediate pool's object is not.
TEST(an_unordered_pool, defers_its_own_objects_to_the_outermost_drop) {
    pooled::pool unordered{{.teardown = pooled::teardown::unordered}};
    pooled::pool immediate;
    struct owner {
        ~owner() {
            own.reset();
            alive_after_own = g_alive;
            other.reset();
            alive_after_other = g_alive;
        }
        int& alive_after_own;
        int& alive_after_other;
        std::shared_ptr<deferrable> own;
        std::shared_ptr<deferrable> other;
    };
    int after_own = -1;
    int after_other = -1;
    auto root = unordered.make_shared<owner>(after_own, after_other, unordered.make_shared<deferrable>(),
                                             immediate.make_shared<deferrable>());
    root.reset();
    EXPECT_EQ(after_own, 2);
    EXPECT_EQ(after_other, 1);
    EXPECT_EQ(g_alive, 0);
}

}  // namespace
