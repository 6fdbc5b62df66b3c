// SPDX-License-Identifier: BSL-1.0
// The stock of an object pool without objects: slots that are granted, put back, counted under the bound, and given to
// those who wait.

#include "pooled/object/object_stock.hpp"

#include "pooled/pool/pool.hpp"

#include "support/internals.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <thread>

namespace {

using namespace pooled::detail;
using pooled::object_pool_options;

static_assert(bound_of({}) == std::numeric_limits<std::size_t>::max());
static_assert(bound_of({.max_objects = 7}) == 7);
static_assert(bound_of({.initial_objects = 3, .growth = 0, .max_objects = 7}) == 3);
static_assert(cache_capacity_of(1) == 2 && cache_capacity_of(64) == 4);
static_assert(cache_capacity_of(1'000'000'000) == idle_list::k_max_cached);

struct stock final : object_stock {
    using object_stock::object_stock;
};
struct at_once {
    struct nothing {};
    static nothing watch(waiter&) noexcept { return {}; }
    static std::chrono::nanoseconds remaining() noexcept { return std::chrono::nanoseconds(0); }
};
struct ten_minutes : at_once {
    static std::chrono::nanoseconds remaining() noexcept { return std::chrono::minutes(10); }
};

template <class Pool>
class stock_of : public testing::Test {
protected:
    void make(object_pool_options const& options) {
        all.emplace(test::core_of(pool), options);
        test::core_of(pool).set_extension(&*all);
    }
    ~stock_of() override {
        other.reset();
        EXPECT_TRUE(all->is_valid());
        slot_chain idle = all->close();
        while (idle.pop() != nullptr)
            EXPECT_FALSE(all->remove(object_stock::counted::as_built));
        EXPECT_TRUE(all->abandon());
        test::core_of(pool).set_extension(nullptr);
    }
    // An object: one that is idle, or else one that is built, with those that are built in advance. Null at the bound.
    [[nodiscard]] slot* acquire() {
        grant const g = all->take();
        if (g.object != nullptr || g.to_build == 0) return g.object;
        for (std::size_t i = 1; i < g.to_build; ++i)
            all->add_fresh(slots.emplace_back(nullptr));
        all->add_used(slots.emplace_back(nullptr));
        return &slots.back();
    }
    void destroy(slot*) { EXPECT_FALSE(all->remove(object_stock::counted::as_used)); }

    Pool pool;
    std::deque<slot> slots;
    std::optional<stock> all;
    std::optional<test::sleeper> other{std::in_place};
};
class shared_stock : public stock_of<pooled::pool> {};
class local_stock : public stock_of<pooled::local_pool> {};

TEST_F(shared_stock, lets_as_many_be_built_as_growth_and_bound_allow) {
    make({.growth = 3, .max_objects = 5});
    EXPECT_EQ(all->take().to_build, 3U);
    EXPECT_EQ(all->take().to_build, 2U);
    EXPECT_FALSE(all->take());
    for (int i = 0; i < 5; ++i)
        EXPECT_FALSE(all->remove(object_stock::counted::as_built));
    EXPECT_EQ(all->take().to_build, 3U);
    for (int i = 0; i < 3; ++i)
        EXPECT_FALSE(all->remove(object_stock::counted::as_built));
}

TEST_F(shared_stock, grants_what_was_in_use_before_what_never_was) {
    make({.growth = 2});
    slot* const used = acquire();
    EXPECT_EQ(all->count().capacity, 2U);
    EXPECT_EQ(all->count().idle, 1U);
    EXPECT_EQ(all->count().high_water, 1U);
    EXPECT_TRUE(all->put(*used));
    EXPECT_EQ(all->count().idle, 2U);
    EXPECT_EQ(acquire(), used);
    slot* const fresh = acquire();
    EXPECT_NE(fresh, used);
    EXPECT_EQ(slots.size(), 2U);
    EXPECT_EQ(all->count().high_water, 2U);
    EXPECT_TRUE(all->put(*used));
    EXPECT_TRUE(all->put(*fresh));
}

TEST_F(shared_stock, finds_what_a_sleeping_thread_has_cached_before_one_is_built) {
    make({});
    slot* one = nullptr;
    other->run([&] {
        one = acquire();
        EXPECT_TRUE(all->put(*one));
        for (int i = 0; i < 3000; ++i)  // until threads use their caches again
            EXPECT_TRUE(all->put(*acquire()));
        slot* const cached = all->caches().pop<sharing::shared>();
        EXPECT_EQ(cached, one);
        EXPECT_TRUE(all->caches().push<sharing::shared>(*cached));
    });
    EXPECT_EQ(all->count().idle, 1U);
    EXPECT_EQ(acquire(), one);
    EXPECT_EQ(slots.size(), 1U);
    EXPECT_TRUE(all->put(*one));
}

TEST_F(shared_stock, counts_what_is_set_aside_under_the_bound) {
    make({.max_objects = 4});
    EXPECT_EQ(all->set_aside(3), 3U);
    EXPECT_EQ(all->set_aside(3), 0U);
    EXPECT_EQ(all->take().to_build, 1U);
    EXPECT_FALSE(all->take());
    for (int i = 0; i < 4; ++i)
        EXPECT_FALSE(all->remove(object_stock::counted::as_built));
}

TEST_F(shared_stock, gives_up_its_idle_objects_and_takes_none_of_an_earlier_generation) {
    make({.growth = 2});
    slot* const used = acquire();
    for (auto const what : {object_stock::in_use::keep, object_stock::in_use::outdate}) {
        slot_chain idle = all->take_idle(what);
        EXPECT_EQ(idle.size(), what == object_stock::in_use::keep ? 1U : 0U);
        while (idle.pop() != nullptr)
            EXPECT_FALSE(all->remove(object_stock::counted::as_built));
    }
    EXPECT_EQ(all->count().capacity, 1U);
    EXPECT_FALSE(all->put(*used));
    destroy(used);
    EXPECT_EQ(all->count().capacity, 0U);
}

TEST_F(shared_stock, grants_a_released_object_to_the_thread_that_waits) {
    make({.max_objects = 1});
    slot* const one = acquire();
    EXPECT_FALSE(all->wait(at_once()));
    EXPECT_EQ(all->count().waiting, 0U) << "it waits no more";
    std::thread waiting([&] { EXPECT_EQ(all->wait(ten_minutes()).object, one); });
    while (all->count().waiting == 0)
        std::this_thread::yield();
    EXPECT_TRUE(all->is_valid());
    EXPECT_TRUE(all->put(*one));
    waiting.join();
    EXPECT_EQ(all->count().idle, 0U);
    EXPECT_TRUE(all->put(*one));
}

TEST_F(shared_stock, lets_the_thread_that_waits_build_in_place_of_what_is_destroyed) {
    make({.max_objects = 1});
    slot* const one = acquire();
    std::atomic<std::size_t> to_build{0};
    std::thread waiting([&] { to_build = all->wait(ten_minutes()).to_build; });
    while (all->count().waiting == 0)
        std::this_thread::yield();
    destroy(one);
    waiting.join();
    EXPECT_EQ(to_build, 1U);
    EXPECT_FALSE(all->take()) << "it counts under the bound";
    all->add_fresh(slots.emplace_back(nullptr));
    EXPECT_EQ(all->count().idle, 1U);
}

TEST_F(local_stock, does_not_wait_and_uses_its_one_cache) {
    make({.max_objects = 1});
    slot* const one = acquire();
    EXPECT_FALSE(all->wait(ten_minutes())) << "nobody else can release one";
    EXPECT_TRUE(all->put(*one));
    EXPECT_EQ(all->caches().pop<sharing::local>(), one);
    EXPECT_TRUE(all->put(*one));
    EXPECT_EQ(acquire(), one);
    EXPECT_TRUE(all->put(*one));
}

TEST(object_stock, goes_with_the_last_object_once_it_is_abandoned) {
    pooled::pool pool;
    stock all(test::core_of(pool), {.initial_objects = 1});
    slot one(nullptr);
    all.add_used(one);
    EXPECT_TRUE(all.close().empty());
    EXPECT_FALSE(all.abandon());
    EXPECT_FALSE(all.put(one)) << "all are of an earlier generation";
    EXPECT_TRUE(all.remove(object_stock::counted::as_used));
}

}  // namespace
