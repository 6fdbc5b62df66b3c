// SPDX-License-Identifier: BSL-1.0
// pool_options{.teardown = teardown::incremental}: when deferred objects are destroyed, and that none is lost; and
// pool.take_pending().

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/internals.hpp"
#include "support/lives.hpp"
#include "support/pool_kinds.hpp"
#include "support/sleeper.hpp"
#include "support/small_stack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr pooled::pool_options k_incremental{.teardown = pooled::teardown::incremental};

// What docs/teardown.md says of an allocation.
constexpr std::size_t k_objects_per_allocation = 4;

struct node : test::counted<> {
    explicit node(test::life_log& log) : counted(log) {}
    std::shared_ptr<node> next;
    std::weak_ptr<node> self;
};

template <class Pool>
class any_incremental_pool : public testing::Test {
protected:
    ~any_incremental_pool() override { EXPECT_EQ(m_log.alive(), 0); }

    [[nodiscard]] std::shared_ptr<node> list(Pool& pool, std::size_t count) {
        std::shared_ptr<node> head;
        for (std::size_t i = 0; i < count; ++i) {
            auto front = pool.template make_shared<node>(m_log);
            front->next = std::move(head);
            head = std::move(front);
        }
        return head;
    }
    [[nodiscard]] std::size_t alive() const { return static_cast<std::size_t>(m_log.alive()); }

    test::life_log m_log;
};
TYPED_TEST_SUITE(any_incremental_pool, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(any_incremental_pool, each_allocation_destroys_a_few) {
    TypeParam pool(k_incremental);
    this->list(pool, 1000).reset();
    for (std::size_t before = this->alive(); before != 0;) {
        pool.deallocate(pool.allocate(24, 8), 24, 8);
        ASSERT_EQ(this->alive(), before - std::min(before, k_objects_per_allocation));
        before = this->alive();
    }
}

TYPED_TEST(any_incremental_pool, each_allocation_of_a_large_block_destroys_a_few) {
    static constexpr std::size_t k_large = std::size_t{1} << 20;
    TypeParam pool(k_incremental);
    this->list(pool, 40).reset();
    for (int i = 0; i < 10; ++i)
        pool.deallocate(pool.allocate(k_large), k_large);
    EXPECT_EQ(this->alive(), 0U);
}

TYPED_TEST(any_incremental_pool, allocations_within_a_scope_go_on_with_it) {
    TypeParam pool(k_incremental);
    pooled::reclaim_scope const scope;
    this->list(pool, 100).reset();
    for (int i = 0; i < 25; ++i)
        pool.deallocate(pool.allocate(24, 8), 24, 8);
    EXPECT_EQ(this->alive(), 0U);
}

TYPED_TEST(any_incremental_pool, a_scope_leaves_it_to_the_allocations) {
    TypeParam pool(k_incremental);
    {
        pooled::reclaim_scope const scope;
        this->list(pool, 100).reset();
    }
    EXPECT_EQ(this->alive(), 100U);
    EXPECT_EQ(pool.drain(), 100U);
}

TYPED_TEST(any_incremental_pool, churn_keeps_few_waiting) {
    TypeParam pool(k_incremental);
    for (int i = 0; i < 10'000; ++i) {
        this->list(pool, 7).reset();
        ASSERT_LE(this->alive(), 21U);
    }
    pool.drain();
}

TYPED_TEST(any_incremental_pool, drain_keeps_to_its_budget) {
    TypeParam pool(k_incremental);
    this->list(pool, 100).reset();
    EXPECT_EQ(pool.drain(0), 0U);
    EXPECT_EQ(pool.drain(1), 1U);
    EXPECT_EQ(this->alive(), 99U);
    EXPECT_EQ(pool.drain(49), 49U);
    EXPECT_EQ(this->alive(), 50U);
    EXPECT_EQ(pool.drain(51), 50U);
}

TYPED_TEST(any_incremental_pool, a_part_that_a_drain_left_is_gone_on_with) {
    TypeParam pool(k_incremental);
    this->list(pool, 100).reset();
    EXPECT_EQ(pool.drain(20), 20U);
    // The cache still holds blocks: it is only at its next exchange with the pool that the thread looks for the rest.
    for (int i = 0; i < 1000 && this->alive() != 0; ++i)
        static_cast<void>(pool.allocate(24, 8));
    EXPECT_EQ(this->alive(), 0U);
}

TYPED_TEST(any_incremental_pool, the_other_handles_wait_as_well) {
    TypeParam pool(k_incremental);
    {
        auto counted = pool.template make_rc<node>(this->m_log);
        auto const copy = counted;
        auto const unique = pool.template make_unique<node>(this->m_log);
    }
    EXPECT_EQ(this->alive(), 2U);
    EXPECT_EQ(pool.drain(), 2U);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(any_incremental_pool, what_waits_is_destroyed_before_the_pool_goes) {
    {
        TypeParam pool(k_incremental);
        this->list(pool, 100).reset();
        EXPECT_EQ(this->alive(), 100U);
    }
    EXPECT_EQ(this->alive(), 0U);
}

TYPED_TEST(any_incremental_pool, an_object_that_outlives_the_pool_goes_at_once) {
    auto pool = std::make_unique<TypeParam>(k_incremental);
    auto late = this->list(*pool, 100);
    pool.reset();
    EXPECT_EQ(this->alive(), 100U);
    late.reset();
    EXPECT_EQ(this->alive(), 0U);
}

TYPED_TEST(any_incremental_pool, memory_that_waits_is_no_reason_to_be_exhausted) {
    TypeParam pool({.max_bytes = 1U << 16, .teardown = pooled::teardown::incremental});
    for (int round = 0; round < 10; ++round) {
        std::shared_ptr<node> head;
        std::size_t count = 0;
        while (auto front = pool.template try_make_shared<node>(this->m_log)) {
            front->next = std::move(head);
            head = std::move(front);
            ++count;
        }
        EXPECT_GT(count, 500U);
        EXPECT_EQ(this->alive(), count);
        head.reset();
        EXPECT_EQ(this->alive(), count);
        // Nine more objects than are free: at first four are destroyed at a time, then as many as necessary.
        EXPECT_NO_THROW(head = this->list(pool, 9));
        head.reset();
        pool.drain();
    }
}

// Its destructor allocates, and drops what it allocated.
struct replaces_itself : test::counted<> {
    replaces_itself(test::life_log& log, pooled::pool& pool, int times)
        : counted(log), m_log(log), m_pool(pool), m_times(times) {}
    ~replaces_itself() override {
        if (m_times != 0) m_pool.make_shared<replaces_itself>(m_log, m_pool, m_times - 1).reset();
    }

private:
    test::life_log& m_log;
    pooled::pool& m_pool;
    int m_times;
};

class incremental_pool : public any_incremental_pool<pooled::pool> {};

TEST_F(incremental_pool, destructors_may_allocate_and_drop) {
    pooled::pool pool(k_incremental);
    pool.make_shared<replaces_itself>(m_log, pool, 100).reset();
    EXPECT_EQ(pool.drain(), 101U);
    EXPECT_EQ(m_log.constructed(), 101);
}

TEST_F(incremental_pool, destructors_may_drain) {
    struct drains : test::counted<> {
        drains(test::life_log& log, pooled::pool& p) : counted(log), pool(p) {}
        ~drains() override { pool.drain(); }
        pooled::pool& pool;
    };
    pooled::pool pool(k_incremental);
    for (int i = 0; i < 10; ++i)
        pool.make_shared<drains>(m_log, pool).reset();
    pool.drain();
    EXPECT_EQ(m_log.alive(), 0);
}

// While a drop destroys some of the many deferred objects, the last owner of the pool is dropped.
TYPED_TEST(any_incremental_pool, a_destructor_may_destroy_the_pool) {
    struct owner : test::counted<> {
        explicit owner(test::life_log& log) : counted(log) {}
        std::shared_ptr<TypeParam> pool;
        std::vector<std::shared_ptr<node>> others;
    };
    auto pool = std::make_shared<TypeParam>(k_incremental);
    auto wide = pool->template make_shared<owner>(this->m_log);
    for (int i = 0; i < 2000; ++i)
        wide->others.push_back(pool->template make_shared<node>(this->m_log));
    auto last = pool->template make_shared<owner>(this->m_log);
    last->pool = pool;
    auto another = pool->template make_shared<node>(this->m_log);
    wide.reset();
    pool->drain(1);
    pool->deallocate(pool->allocate(24), 24);
    ASSERT_GT(this->alive(), 1900U);
    pool.reset();
    last.reset();
    another.reset();
    EXPECT_EQ(this->alive(), 0U);
}

TEST_F(incremental_pool, an_allocation_within_a_step_is_no_other_step) {
    struct allocates : test::counted<> {
        allocates(test::life_log& log, pooled::pool& p) : counted(log), pool(p) {}
        ~allocates() override { pool.deallocate(pool.allocate(24), 24); }
        pooled::pool& pool;
    };
    pooled::pool second(k_incremental);
    pooled::pool first(k_incremental);  // destroyed while the other one waits
    std::vector<std::shared_ptr<allocates>> all;
    for (int i = 0; i < 100; ++i)
        all.push_back(first.make_shared<allocates>(m_log, second));
    list(second, 100).reset();
    all.clear();
    std::size_t const before = alive();
    first.deallocate(first.allocate(24), 24);
    EXPECT_EQ(alive(), before - k_objects_per_allocation);
}

TEST_F(incremental_pool, two_drains_at_once_lose_nothing) {
    struct runs : test::counted<> {
        runs(test::life_log& log, std::function<void()> f) : counted(log), function(std::move(f)) {}
        ~runs() override { std::thread(function).join(); }
        std::function<void()> function;
    };
    pooled::pool pool(k_incremental);
    auto rest = list(pool, 50);
    auto first = pool.make_shared<runs>(m_log, [&] {
        list(pool, 100).reset();
        EXPECT_EQ(pool.drain(1), 1U);
        EXPECT_EQ(alive(), 150U);  // with the one that runs this
    });
    first.reset();
    rest.reset();
    EXPECT_EQ(pool.drain(1), 1U);  // and the thread that it ran and that ended destroyed its own 99
    EXPECT_EQ(pool.drain(), 50U);
}

TEST_F(incremental_pool, a_thread_that_only_drops_keeps_few_waiting) {
    static constexpr std::size_t k_length = 20;
    static constexpr std::size_t k_lists = 20'000;
    pooled::pool pool(k_incremental);
    std::vector<std::shared_ptr<node>> lists;
    std::thread([&] {
        for (std::size_t i = 0; i < k_lists; ++i)
            lists.push_back(list(pool, k_length));
    }).join();
    for (std::size_t i = 0; i < k_lists; ++i) {
        lists[i].reset();
        ASSERT_LE(alive() - (k_lists - i - 1) * k_length, (64 * k_length + 64) * k_length);
    }
    EXPECT_NE(pool.drain(), 0U);
}

TEST_F(incremental_pool, a_thread_that_ends_leaves_nothing_waiting) {
    pooled::pool pool(k_incremental);
    pooled::pool other(k_incremental);
    std::thread([&] {
        list(pool, 1000).reset();
        pool.make_shared<replaces_itself>(m_log, other, 10).reset();
        other.make_shared<replaces_itself>(m_log, pool, 10).reset();
    }).join();
    EXPECT_EQ(m_log.alive(), 0);
}

TEST_F(incremental_pool, many_threads_drop_allocate_and_drain) {
    pooled::pool pool(k_incremental);
    std::atomic<bool> stop{false};
    std::thread drains([&] {
        while (!stop) {
            pool.drain(100);
            static_cast<void>(pool.take_pending());
            std::this_thread::yield();
        }
    });
    std::array<std::thread, 3> threads;
    for (auto& thread : threads) {
        thread = std::thread([&] {
            for (int i = 0; i < 3000; ++i)
                list(pool, 5).reset();
        });
    }
    for (auto& thread : threads)
        thread.join();
    stop = true;
    drains.join();
    EXPECT_EQ(m_log.alive(), 0);
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

// The same for what a scope has gathered, in any pool.
TYPED_TEST(any_incremental_pool, what_a_scope_gathered_is_no_reason_to_be_exhausted) {
    TypeParam pool({.max_bytes = 1U << 16});
    std::shared_ptr<node> head;
    std::size_t count = 0;
    while (auto front = pool.template try_make_shared<node>(this->m_log)) {
        front->next = std::move(head);
        head = std::move(front);
        ++count;
    }
    {
        pooled::reclaim_scope const scope;
        head.reset();
        EXPECT_EQ(this->alive(), count);
        EXPECT_NO_THROW(head = this->list(pool, count));
    }
    EXPECT_EQ(this->alive(), count);
}

// However many are deferred, and however exhausted the pool: destructors that allocate do not nest without limit.
TEST_F(incremental_pool, making_room_does_not_nest) {
    struct allocates : test::counted<> {
        allocates(test::life_log& log, pooled::pool& p) : counted(log), pool(p) {}
        ~allocates() override {
            if (void* const p = pool.try_allocate(4096)) pool.deallocate(p, 4096);
        }
        pooled::pool& pool;
    };
    test::on_small_stack([this] {
        pooled::pool pool({.max_bytes = 1U << 20});
        std::vector<std::shared_ptr<allocates>> all;
        while (auto object = pool.try_make_shared<allocates>(m_log, pool))
            all.push_back(std::move(object));
        pooled::reclaim_scope const scope;
        all.clear();
        EXPECT_NO_THROW(static_cast<void>(pool.make_shared<allocates>(m_log, pool)));
    });
}

// A thread whose thread_local objects are gone has no place for deferred objects, and destroys those of other threads.
TEST_F(incremental_pool, a_destructor_finds_the_pool_exhausted_in_a_thread_that_ends) {
    struct allocates : test::counted<> {
        allocates(test::life_log& log, pooled::pool& p) : counted(log), pool(p) {}
        ~allocates() override { test::held_blocks(pool, 4096).take_all(); }
        pooled::pool& pool;
    };
    struct drains_late {
        ~drains_late() {
            other->run([this] { static_cast<void>(pool->make_shared<allocates>(*log, *pool)); });
            EXPECT_EQ(pool->drain(), 1U);
        }
        test::sleeper* other;
        pooled::pool* pool;
        test::life_log* log;
    };
    pooled::pool pool({.max_bytes = 1U << 20, .teardown = pooled::teardown::incremental});
    test::sleeper other;
    other.run([] {});  // on Windows, no thread begins while another one runs its last destructors
    std::thread([&] {
        static thread_local drains_late const last{&other, &pool, &m_log};
        static_cast<void>(&last);
        static_cast<void>(pool.make_shared<test::counted<>>(m_log));
    }).join();
    EXPECT_EQ(alive(), 0U);
}

// take_pending(): what is deferred, as an object.

template <class Pool>
class taken_pending : public any_incremental_pool<Pool> {};
TYPED_TEST_SUITE(taken_pending, test::pool_kinds, test::pool_kind_names);

static_assert(std::is_nothrow_move_constructible_v<pooled::pending> &&
              std::is_nothrow_move_assignable_v<pooled::pending> &&
              !std::is_copy_constructible_v<pooled::pending> && !std::is_copy_assignable_v<pooled::pending>);

TYPED_TEST(taken_pending, is_empty_when_nothing_waits) {
    TypeParam incremental(k_incremental);
    TypeParam immediate;
    EXPECT_TRUE(pooled::pending().empty());
    EXPECT_TRUE(incremental.take_pending().empty());
    EXPECT_TRUE(immediate.take_pending().empty());
    EXPECT_EQ(pooled::pending().drain(), 0U);
}

TYPED_TEST(taken_pending, is_no_more_the_pools) {
    TypeParam pool(k_incremental);
    this->list(pool, 100).reset();
    pooled::pending work = pool.take_pending();
    EXPECT_FALSE(work.empty());
    EXPECT_EQ(pool.drain(), 0U);
    EXPECT_TRUE(pool.take_pending().empty());
    for (int i = 0; i < 100; ++i)
        pool.deallocate(pool.allocate(24), 24);
    EXPECT_EQ(this->alive(), 100U);
    EXPECT_EQ(work.drain(30), 30U);
    EXPECT_EQ(this->alive(), 70U);
    EXPECT_FALSE(work.empty());
    EXPECT_EQ(work.drain(), 70U);
    EXPECT_TRUE(work.empty());
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TYPED_TEST(taken_pending, destroys_the_rest_when_it_goes) {
    TypeParam pool(k_incremental);
    this->list(pool, 100).reset();
    {
        pooled::pending const work = pool.take_pending();
        EXPECT_EQ(this->alive(), 100U);
    }
    EXPECT_EQ(this->alive(), 0U);
}

TYPED_TEST(taken_pending, moves) {
    TypeParam pool(k_incremental);
    this->list(pool, 10).reset();
    pooled::pending first = pool.take_pending();
    pooled::pending second = std::move(first);
    EXPECT_TRUE(first.empty());  // NOLINT: what a moved-from one is, is promised
    this->list(pool, 5).reset();
    first = pool.take_pending();
    EXPECT_EQ(this->alive(), 15U);
    first = std::move(second);
    EXPECT_EQ(this->alive(), 10U);  // what it held is destroyed
    std::ranges::swap(first, second);
    EXPECT_TRUE(first.empty());
    EXPECT_EQ(second.drain(), 10U);
}

TYPED_TEST(taken_pending, outlives_its_pool) {
    auto pool = std::make_unique<TypeParam>(k_incremental);
    this->list(*pool, 100).reset();
    pooled::pending work = pool->take_pending();
    pool.reset();
    EXPECT_EQ(this->alive(), 100U);
    EXPECT_EQ(work.drain(), 100U);
}

using pending_of_a_pool = taken_pending<pooled::pool>;

TEST_F(pending_of_a_pool, holds_what_every_thread_dropped_and_is_drained_on_another) {
    pooled::pool pool(k_incremental);
    test::sleeper other;
    other.run([&] { list(pool, 100).reset(); });
    list(pool, 50).reset();
    pooled::pending work = pool.take_pending();
    other.end();
    EXPECT_EQ(alive(), 150U);
    std::thread([&] { EXPECT_EQ(work.drain(), 150U); }).join();
    EXPECT_EQ(alive(), 0U);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

}  // namespace
