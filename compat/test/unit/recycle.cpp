// SPDX-License-Identifier: BSL-1.0

// The recycle pools: what both promise (interface, recycling, copy and move, the pool's destruction, failure, bad input, use from
// within, threads), and then what each promises besides.

#include "pooled/compat/recycle.hpp"

#include "support/lives.hpp"
#include "support/sanitizer.hpp"
#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using object = test::counted<>;

struct needs_argument {
    explicit needs_argument(int) {}
};

struct shared_kind {
    template <class Value, class LockingPolicy = recycle::no_locking_policy>
    using pool = recycle::shared_pool<Value, LockingPolicy>;
    template <class Value>
    static auto make(test::life_log& log) {
        return std::make_shared<Value>(log);
    }
};
struct unique_kind {
    template <class Value, class LockingPolicy = recycle::no_locking_policy>
    using pool = recycle::unique_pool<Value, LockingPolicy>;
    template <class Value>
    static auto make(test::life_log& log) {
        return std::make_unique<Value>(log);
    }
};

struct kind_names {
    template <class Kind>
    static std::string GetName(int) {
        return std::is_same_v<Kind, shared_kind> ? "shared_pool" : "unique_pool";
    }
};

template <class Kind>
class recycle_pool : public testing::Test {
protected:
    using pool_type = typename Kind::template pool<object>;
    using value = typename pool_type::value_ptr&;  // as a recycle function takes it

    test::life_log log;
    test::life_log::scope default_constructed{log};

    auto maker() {
        return [this] { return Kind::template make<object>(log); };
    }
    ~recycle_pool() override { EXPECT_EQ(log.alive(), 0) << "an object was lost"; }
};
using kinds = testing::Types<shared_kind, unique_kind>;
TYPED_TEST_SUITE(recycle_pool, kinds, kind_names);

// Interface.

TYPED_TEST(recycle_pool, is_default_constructible_only_where_its_value_is) {
    static_assert(std::is_default_constructible_v<typename TypeParam::template pool<int>>);
    static_assert(!std::is_default_constructible_v<typename TypeParam::template pool<needs_argument>>);
    using pool = typename TypeParam::template pool<needs_argument>;
    static_assert(std::is_constructible_v<pool, typename pool::allocate_function>);
    static_assert(
        std::is_constructible_v<pool, typename pool::allocate_function, typename pool::recycle_function>);
    static_assert(std::is_copy_constructible_v<pool> && std::is_copy_assignable_v<pool>);
    static_assert(std::is_nothrow_move_constructible_v<pool> && std::is_nothrow_move_assignable_v<pool>);
}

TYPED_TEST(recycle_pool, names_the_types_of_the_original) {
    using pool = typename TestFixture::pool_type;
    static_assert(std::is_same_v<typename pool::value_type, object>);
    static_assert(
        std::is_same_v<typename pool::allocate_function, std::function<typename pool::value_ptr()>>);
    static_assert(std::is_same_v<typename pool::mutex_type, recycle::no_locking_policy::mutex_type>);
    static_assert(std::is_same_v<typename pool::lock_type, recycle::no_locking_policy::lock_type>);
    static_assert(std::is_same_v<typename TypeParam::template pool<int>,
                                 typename TypeParam::template pool<int, recycle::no_locking_policy>>);
}

TYPED_TEST(recycle_pool, of_an_incomplete_value_can_be_named_as_a_member) {
    struct later;
    struct holder {
        std::unique_ptr<typename TypeParam::template pool<later>> pool;
    };
    struct later {};
    holder h;
    h.pool = std::make_unique<typename TypeParam::template pool<later>>();
    EXPECT_NE(h.pool->allocate(), nullptr);
}

// Recycling.

TYPED_TEST(recycle_pool, makes_an_object_only_when_none_is_idle) {
    typename TestFixture::pool_type pool;
    EXPECT_EQ(pool.unused_resources(), 0U);
    {
        auto const first = pool.allocate();
        EXPECT_EQ(pool.unused_resources(), 0U);
    }
    EXPECT_EQ(pool.unused_resources(), 1U);
    auto const second = pool.allocate();
    EXPECT_EQ(pool.unused_resources(), 0U);
    EXPECT_EQ(this->log.constructed(), 1);
    auto const third = pool.allocate();
    EXPECT_EQ(this->log.constructed(), 2);
    EXPECT_NE(second.get(), third.get());
}

TYPED_TEST(recycle_pool, allocates_the_object_released_last) {
    typename TestFixture::pool_type pool;
    auto first = pool.allocate();
    auto second = pool.allocate();
    object const* const last = first.get();
    second.reset();
    first.reset();
    EXPECT_EQ(pool.allocate().get(), last);
}

TYPED_TEST(recycle_pool, keeps_what_was_written_into_an_object) {
    typename TypeParam::template pool<std::string> pool;
    pool.allocate()->assign("kept");
    EXPECT_EQ(*pool.allocate(), "kept");
}

TYPED_TEST(recycle_pool, free_unused_destroys_the_idle_objects_alone) {
    typename TestFixture::pool_type pool;
    auto const out = pool.allocate();
    static_cast<void>(pool.allocate());
    EXPECT_EQ(this->log.alive(), 2);
    pool.free_unused();
    EXPECT_EQ(pool.unused_resources(), 0U);
    EXPECT_EQ(this->log.alive(), 1);
    pool.free_unused();
    EXPECT_EQ(this->log.alive(), 1);
}

TYPED_TEST(recycle_pool, calls_the_recycle_function_with_each_object_that_is_released) {
    std::vector<object const*> seen;
    typename TestFixture::pool_type pool(
        this->maker(), [&](typename TestFixture::value returned) { seen.push_back(returned.get()); });
    auto first = pool.allocate();
    auto second = pool.allocate();
    EXPECT_TRUE(seen.empty());
    std::vector const expected{static_cast<object const*>(first.get()),
                               static_cast<object const*>(second.get())};
    first.reset();
    second.reset();
    EXPECT_EQ(seen, expected);
    static_cast<void>(pool.allocate());
    EXPECT_EQ(seen.size(), 3U);
}

TYPED_TEST(recycle_pool, takes_recycle_functions_of_every_signature) {
    typename TestFixture::pool_type by_reference(this->maker(), [](auto&) {});
    typename TestFixture::pool_type by_const_reference(this->maker(), [](auto const&) {});
    typename TestFixture::pool_type of_that_type(this->maker(),
                                                 typename TestFixture::pool_type::recycle_function());
    recycle::shared_pool<object> by_value(
        [this] { return std::make_shared<object>(this->log); },
        [](std::shared_ptr<object> returned) { EXPECT_NE(returned, nullptr); });
    std::function<void(std::shared_ptr<object>)> const kept = [](std::shared_ptr<object> const&) {};
    recycle::shared_pool<object> by_function([this] { return std::make_shared<object>(this->log); }, kept);
    static_cast<void>(by_value.allocate());
    EXPECT_EQ(by_value.unused_resources(), 1U);
}

TYPED_TEST(recycle_pool, lets_a_recycle_function_keep_the_object) {
    typename TestFixture::pool_type::value_ptr kept;
    typename TestFixture::pool_type pool(
        this->maker(), [&](typename TestFixture::value returned) { kept = std::move(returned); });
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 0U) << "what is gone is not idle";
    EXPECT_NE(kept, nullptr);
}

TYPED_TEST(recycle_pool, lets_a_recycle_function_replace_the_object) {
    typename TestFixture::pool_type pool(this->maker(), [this](typename TestFixture::value returned) {
        returned = TypeParam::template make<object>(this->log);
    });
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 1U);
    EXPECT_EQ(this->log.constructed(), 2);
    EXPECT_EQ(this->log.alive(), 1);
}

// Copy and move.

TYPED_TEST(recycle_pool, copy_has_as_many_idle_objects_of_its_own) {
    typename TestFixture::pool_type pool;
    {
        auto const first = pool.allocate();
        auto const second = pool.allocate();
        typename TestFixture::pool_type const while_out(pool);
        EXPECT_EQ(while_out.unused_resources(), 0U);
    }
    typename TestFixture::pool_type copy(pool);
    EXPECT_EQ(pool.unused_resources(), 2U);
    EXPECT_EQ(copy.unused_resources(), 2U);
    EXPECT_EQ(this->log.constructed(), 4);
}

TYPED_TEST(recycle_pool, objects_return_to_their_own_pool_and_not_to_its_copy) {
    typename TestFixture::pool_type pool;
    auto out = pool.allocate();
    typename TestFixture::pool_type const copy(pool);
    out.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
    EXPECT_EQ(copy.unused_resources(), 0U);
}

TYPED_TEST(recycle_pool, copy_makes_and_recycles_with_the_same_functions) {
    int recycled = 0;
    std::unique_ptr<typename TestFixture::pool_type> pool;
    pool = std::make_unique<typename TestFixture::pool_type>(
        this->maker(), [&](typename TestFixture::value) { ++recycled; });
    auto copy = *pool;
    pool.reset();
    static_cast<void>(copy.allocate());
    EXPECT_EQ(recycled, 1);
    EXPECT_EQ(copy.unused_resources(), 1U);
}

TYPED_TEST(recycle_pool, copy_assignment_replaces_idle_objects_and_not_those_in_use) {
    typename TestFixture::pool_type source;
    static_cast<void>(source.allocate());
    typename TestFixture::pool_type target;
    auto out = target.allocate();
    static_cast<void>(target.allocate());
    target = source;
    EXPECT_EQ(target.unused_resources(), 1U);
    EXPECT_EQ(this->log.alive(), 3);
    out.reset();
    EXPECT_EQ(this->log.alive(), 2) << "what is of the replaced pool is destroyed, not recycled";
    EXPECT_EQ(target.unused_resources(), 1U);
}

TYPED_TEST(recycle_pool, survives_assignment_to_itself) {
    typename TestFixture::pool_type pool;
    static_cast<void>(pool.allocate());
    auto& same = pool;
    pool = same;
    EXPECT_EQ(pool.unused_resources(), 1U);
    pool = std::move(same);
    EXPECT_EQ(pool.unused_resources(), 1U);
    EXPECT_NE(pool.allocate(), nullptr);
}

TYPED_TEST(recycle_pool, move_transfers_idle_objects_and_those_in_use) {
    typename TestFixture::pool_type pool;
    auto out = pool.allocate();
    static_cast<void>(pool.allocate());
    auto moved = std::move(pool);
    EXPECT_EQ(moved.unused_resources(), 1U);
    out.reset();
    EXPECT_EQ(moved.unused_resources(), 2U);
    typename TestFixture::pool_type assigned;
    assigned = std::move(moved);
    EXPECT_EQ(assigned.unused_resources(), 2U);
    EXPECT_EQ(this->log.constructed(), 2);
    using std::swap;
    swap(assigned, pool);  // which was moved from
    EXPECT_EQ(pool.unused_resources(), 2U);
}

TYPED_TEST(recycle_pool, that_was_moved_from_says_so_when_it_is_used) {
    typename TestFixture::pool_type pool;
    auto const moved = std::move(pool);
    EXPECT_DEATH(static_cast<void>(pool.allocate()), "moved from");  // NOLINT
    EXPECT_DEATH(pool.free_unused(), "moved from");
    EXPECT_DEATH(typename TestFixture::pool_type copy(pool), "moved from");
}

// The pool's destruction.

TYPED_TEST(recycle_pool, may_be_destroyed_before_its_objects) {
    int recycled = 0;
    std::unique_ptr<typename TestFixture::pool_type> pool;
    pool = std::make_unique<typename TestFixture::pool_type>(
        this->maker(), [&](typename TestFixture::value) { ++recycled; });
    auto first = pool->allocate();
    auto second = pool->allocate();
    static_cast<void>(pool->allocate());
    pool.reset();
    EXPECT_EQ(this->log.alive(), 2) << "idle objects die with the pool, those out do not";
    first.reset();
    EXPECT_EQ(this->log.alive(), 1);
    second.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(recycled, 1) << "no object is recycled into a pool that is gone";
}

TYPED_TEST(recycle_pool, is_destroyed_with_its_functions_though_objects_are_in_use) {
    auto const captured = std::make_shared<int>(0);
    std::unique_ptr<typename TestFixture::pool_type> pool;
    pool = std::make_unique<typename TestFixture::pool_type>(
        [this, captured] { return TypeParam::template make<object>(this->log); },
        [captured](typename TestFixture::value) {});
    auto const out = pool->allocate();
    pool.reset();
    EXPECT_EQ(captured.use_count(), 1);
}

// Failure.

TYPED_TEST(recycle_pool, passes_on_what_the_allocate_function_throws_and_is_as_before) {
    typename TestFixture::pool_type pool(this->maker());
    auto out = pool.allocate();
    this->log.throw_at(1);
    EXPECT_THROW(static_cast<void>(pool.allocate()), test::constructor_failed);
    EXPECT_EQ(pool.unused_resources(), 0U);
    EXPECT_EQ(this->log.alive(), 1);
    this->log.throw_at(0);
    out.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TYPED_TEST(recycle_pool, copy_that_fails_midway_leaves_both_pools_as_they_were) {
    typename TestFixture::pool_type pool;
    {
        auto const first = pool.allocate();
        auto const second = pool.allocate();
        auto const third = pool.allocate();
    }
    typename TestFixture::pool_type target;
    static_cast<void>(target.allocate());
    this->log.throw_at(2);
    EXPECT_THROW(target = pool, test::constructor_failed);
    EXPECT_EQ(pool.unused_resources(), 3U);
    EXPECT_EQ(target.unused_resources(), 1U);
    EXPECT_EQ(this->log.alive(), 4);
}

TYPED_TEST(recycle_pool, destroys_an_object_whose_recycle_function_throws) {
    bool fails = true;
    typename TestFixture::pool_type pool(this->maker(), [&](typename TestFixture::value) {
        if (fails) throw std::runtime_error("not recycled");
    });
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 0U);
    EXPECT_EQ(this->log.alive(), 0);
    fails = false;
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TYPED_TEST(recycle_pool, destroys_an_object_when_the_lock_throws) {
    struct failing_lock {
        static bool& fails() {
            static bool value = false;
            return value;
        }
        struct mutex_type {};
        struct lock_type {
            explicit lock_type(mutex_type&) {
                if (fails())
                    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur));
            }
        };
    };
    typename TypeParam::template pool<object, failing_lock> pool;
    auto out = pool.allocate();
    failing_lock::fails() = true;
    out.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_THROW(static_cast<void>(pool.allocate()), std::system_error);
    failing_lock::fails() = false;
    EXPECT_EQ(pool.unused_resources(), 0U);
}

// Bad input.

TYPED_TEST(recycle_pool, gives_an_empty_pointer_when_the_allocate_function_returns_null) {
    bool gives = false;
    int recycled = 0;
    typename TestFixture::pool_type pool(
        [&] { return gives ? TypeParam::template make<object>(this->log) : nullptr; },
        [&](typename TestFixture::value returned) {
            EXPECT_NE(returned, nullptr);
            ++recycled;
        });
    {
        auto const nothing = pool.allocate();
        EXPECT_EQ(nothing, nullptr);
        auto const copy = nothing.get();
        EXPECT_EQ(copy, nullptr);
    }
    EXPECT_EQ(recycled, 0);
    EXPECT_EQ(pool.unused_resources(), 0U) << "nothing is not an idle object";
    gives = true;
    EXPECT_NE(pool.allocate(), nullptr);
    gives = false;
    auto const copy = pool;
    EXPECT_EQ(copy.unused_resources(), 0U);
}

TYPED_TEST(recycle_pool, without_an_allocate_function_throws_bad_function_call) {
    typename TestFixture::pool_type pool(nullptr);
    EXPECT_THROW(static_cast<void>(pool.allocate()), std::bad_function_call);
    EXPECT_EQ(pool.unused_resources(), 0U);
    auto const copy = pool;
    EXPECT_EQ(copy.unused_resources(), 0U);
}

TYPED_TEST(recycle_pool, takes_an_empty_recycle_function_for_none) {
    typename TestFixture::pool_type pool(this->maker(), nullptr);
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 1U);
}

// Use from within.

TYPED_TEST(recycle_pool, can_be_used_by_its_own_functions) {
    typename TestFixture::pool_type* the_pool = nullptr;
    int depth = 0;
    typename TestFixture::pool_type pool(
        [&] {
            if (++depth == 1) static_cast<void>(the_pool->allocate());
            return TypeParam::template make<object>(this->log);
        },
        [&](typename TestFixture::value) { the_pool->free_unused(); });
    the_pool = &pool;
    static_cast<void>(pool.allocate());
    EXPECT_EQ(this->log.constructed(), 2);
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TYPED_TEST(recycle_pool, can_be_used_by_a_destructor_of_its_objects) {
    struct nosy {
        std::function<void()> on_destroy;
        ~nosy() {
            if (on_destroy) on_destroy();
        }
    };
    typename TypeParam::template pool<nosy> pool;
    std::size_t idle = 99;
    pool.allocate()->on_destroy = [&] { idle = pool.unused_resources(); };
    pool.free_unused();
    EXPECT_EQ(idle, 0U);
}

TYPED_TEST(recycle_pool, may_be_destroyed_by_its_recycle_function) {
    std::unique_ptr<typename TestFixture::pool_type> pool;
    pool = std::make_unique<typename TestFixture::pool_type>(
        this->maker(), [&](typename TestFixture::value) { pool.reset(); });
    static_cast<void>(pool->allocate());
    EXPECT_EQ(pool, nullptr);
}

TYPED_TEST(recycle_pool, objects_may_hold_objects_of_the_same_pool) {
    struct node;
    using pool_of_nodes = typename TypeParam::template pool<node>;
    struct node {
        explicit node(test::life_log& log) : life(log) {}
        std::shared_ptr<void> next;
        object life;
    };
    {
        pool_of_nodes pool([this] { return TypeParam::template make<node>(this->log); });
        auto first = pool.allocate();
        first->next = std::shared_ptr<node>(pool.allocate());
        first.reset();
        EXPECT_EQ(pool.unused_resources(), 1U) << "an idle object keeps what it holds";
        pool.free_unused();
        EXPECT_EQ(pool.unused_resources(), 1U) << "which is released when the other is destroyed";
        auto second = pool.allocate();
        second->next = std::shared_ptr<node>(pool.allocate());
    }
    EXPECT_EQ(this->log.alive(), 0);
}

// The recycle pools on several threads: without a locking policy they lock for themselves, with one they use its lock.

constexpr int k_threads = 4;
constexpr int k_rounds = test::k_sanitized ? 2'000 : 20'000;

// Detects that two threads hold it at once. Counted by the log through its base.
struct exclusive : test::counted<>, std::enable_shared_from_this<exclusive> {
    std::atomic<int> holders{0};
    int uses = 0;  // plain, so that ThreadSanitizer sees whether one use happens before the next
};

struct std_policy {
    using mutex_type = std::mutex;
    using lock_type = std::lock_guard<std::mutex>;
};

// Counts, as a user's policy may do.
struct counting_policy {
    static std::atomic<long>& locked() {
        static std::atomic<long> value{0};
        return value;
    }
    struct mutex_type {
        std::mutex mutex;
    };
    struct lock_type {
        explicit lock_type(mutex_type& of) : guard(of.mutex) { ++locked(); }
        std::lock_guard<std::mutex> guard;
    };
};

template <class Pool>
class recycle_threads : public testing::Test {
protected:
    test::life_log log;
    ~recycle_threads() override { EXPECT_EQ(log.alive(), 0) << "an object was lost"; }

    // Each thread with the log as its current one.
    template <class Task>
    void on_threads(Task task) {
        std::vector<std::thread> threads;
        for (int t = 0; t < k_threads; ++t)
            threads.emplace_back([&, t] {
                test::life_log::scope const scope(log);
                task(t);
            });
        for (std::thread& thread : threads)
            thread.join();
    }
};

using pools =
    testing::Types<recycle::shared_pool<exclusive>, recycle::unique_pool<exclusive>,
                   recycle::shared_pool<exclusive, std_policy>, recycle::unique_pool<exclusive, std_policy>,
                   recycle::shared_pool<exclusive, counting_policy>>;
struct pool_names {
    template <class Pool>
    static std::string GetName(int i) {
        static constexpr char const* k_names[] = {"shared_pool", "unique_pool", "shared_pool_std",
                                                  "unique_pool_std", "shared_pool_counting"};
        return k_names[i];
    }
};
TYPED_TEST_SUITE(recycle_threads, pools, pool_names);

TYPED_TEST(recycle_threads, no_object_is_allocated_to_two_threads_at_once) {
    TypeParam pool;
    std::atomic<bool> shared_at_once{false};
    this->on_threads([&](int t) {
        for (int i = 0; i < k_rounds; ++i) {
            auto first = pool.allocate();
            auto second = pool.allocate();
            for (auto* p : {first.get(), second.get()}) {
                if (p->holders.fetch_add(1) != 0) shared_at_once = true;
                ++p->uses;
            }
            for (auto* p : {first.get(), second.get()})
                p->holders.fetch_sub(1);
            if (i % 64 == t) pool.free_unused();
            static_cast<void>(pool.unused_resources());
        }
    });
    EXPECT_FALSE(shared_at_once);
    EXPECT_EQ(static_cast<std::int64_t>(pool.unused_resources()), this->log.alive());
    EXPECT_LE(pool.unused_resources(), static_cast<std::size_t>(2 * k_threads));
}

TYPED_TEST(recycle_threads, objects_are_dropped_on_other_threads_than_took_them) {
    TypeParam pool;
    std::mutex mutex;
    std::vector<std::shared_ptr<exclusive>> in_transit;
    this->on_threads([&](int) {
        for (int i = 0; i < k_rounds / 4; ++i) {
            std::shared_ptr<exclusive> mine = pool.allocate();
            ++mine->uses;
            auto self = mine->shared_from_this();
            mine.reset();
            std::scoped_lock const lock(mutex);
            in_transit.push_back(std::move(self));
            if (in_transit.size() < 8) continue;
            std::swap(in_transit.front(), in_transit.back());
            in_transit.pop_back();
        }
    });
    in_transit.clear();
    EXPECT_EQ(static_cast<std::int64_t>(pool.unused_resources()), this->log.alive());
}

TYPED_TEST(recycle_threads, a_pool_may_be_destroyed_while_other_threads_drop_its_objects) {
    for (int round = 0; round < (test::k_sanitized ? 50 : 300); ++round) {
        std::unique_ptr<TypeParam> pool;
        {
            test::life_log::scope const scope(this->log);
            pool = std::make_unique<TypeParam>();
        }
        std::vector<std::vector<decltype(pool->allocate())>> out(k_threads);
        {
            test::life_log::scope const scope(this->log);
            for (auto& of_thread : out)
                for (int i = 0; i < 4; ++i)
                    of_thread.push_back(pool->allocate());
        }
        test::starting_line start(k_threads + 1);
        std::thread killer([&] {
            start.arrive_and_wait();
            pool.reset();
        });
        this->on_threads([&](int t) {
            start.arrive_and_wait();
            out[static_cast<std::size_t>(t)].clear();
        });
        killer.join();
        ASSERT_EQ(this->log.alive(), 0);
    }
}

TEST(recycle_locking, a_policy_of_the_users_own_is_what_locks) {
    long const before = counting_policy::locked();
    recycle::shared_pool<int, counting_policy> pool;
    static_cast<void>(pool.allocate());
    static_cast<void>(pool.unused_resources());
    pool.free_unused();
    EXPECT_GE(counting_policy::locked() - before, 4);
    static_assert(std::is_same_v<decltype(pool)::mutex_type, counting_policy::mutex_type>);
    static_assert(std::is_same_v<decltype(pool)::lock_type, counting_policy::lock_type>);
}

TEST(recycle_locking, the_users_lock_is_not_held_while_the_users_code_runs) {
    static int held = 0;
    static int held_in_user_code = 0;
    struct policy {
        struct mutex_type {};
        struct lock_type {
            explicit lock_type(mutex_type&) { ++held; }
            ~lock_type() { --held; }
        };
    };
    struct watcher {
        watcher() { held_in_user_code += held; }
        ~watcher() { held_in_user_code += held; }
    };
    {
        recycle::shared_pool<watcher, policy> pool(
            [] { return std::make_shared<watcher>(); },
            [](std::shared_ptr<watcher>) { held_in_user_code += held; });
        static_cast<void>(pool.allocate());
        auto copy = pool;
        copy.free_unused();
    }
    EXPECT_EQ(held_in_user_code, 0);
    EXPECT_EQ(held, 0);
}

// What shared_pool promises besides: weak pointers, and values that derive from enable_shared_from_this.

class recycle_pools : public testing::Test {
protected:
    test::life_log log;
    test::life_log::scope default_constructed{log};
    ~recycle_pools() override { EXPECT_EQ(log.alive(), 0) << "an object was lost"; }
};
using recycle_shared_pool = recycle_pools;

struct shares_itself : std::enable_shared_from_this<shares_itself> {
    test::counted<> life;
};

TEST_F(recycle_shared_pool, allocates_a_plain_shared_ptr) {
    recycle::shared_pool<int> pool;
    static_assert(std::is_same_v<decltype(pool.allocate()), std::shared_ptr<int>>);
    EXPECT_EQ(pool.allocate().use_count(), 1);
}

TEST_F(recycle_shared_pool, recycle_function_converts_from_and_to_one_that_takes_the_pointer_by_value) {
    using by_value = std::function<void(std::shared_ptr<int>)>;
    using pool_type = recycle::shared_pool<int>;
    by_value const counts = [](std::shared_ptr<int> value) { ++*value; };
    pool_type::recycle_function const function = counts;
    pool_type pool([] { return std::make_shared<int>(1); }, function);
    pool.allocate().reset();
    EXPECT_EQ(*pool.allocate(), 2);

    by_value const back = function;
    back(std::make_shared<int>(1));
    pool_type other([] { return std::make_shared<int>(1); }, back);
    other.allocate().reset();
    EXPECT_EQ(*other.allocate(), 2);

    EXPECT_FALSE(pool_type::recycle_function(by_value()));
    EXPECT_FALSE(by_value(pool_type::recycle_function()));
    EXPECT_FALSE(pool_type::recycle_function(nullptr));
    pool_type::recycle_function empty;
    pool_type::recycle_function const copy(empty);
    EXPECT_FALSE(copy);
}

TEST_F(recycle_shared_pool, a_weak_pointer_keeps_neither_object_nor_pool_alive) {
    auto const captured = std::make_shared<int>(0);
    std::unique_ptr<recycle::shared_pool<test::counted<>>> pool;
    pool = std::make_unique<recycle::shared_pool<test::counted<>>>(
        [this, captured] { return std::make_shared<test::counted<>>(log); });
    auto late = pool->allocate();
    auto early = pool->allocate();
    std::weak_ptr<void> const weak_early = early;
    std::weak_ptr<void> const weak_late = late;
    early.reset();
    pool->free_unused();
    EXPECT_EQ(log.alive(), 1);
    pool.reset();
    EXPECT_EQ(captured.use_count(), 1);
    late.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(recycle_shared_pool, an_object_is_destroyed_as_its_allocate_function_says) {
    int destroyed = 0;
    std::array<int, 2> place{};
    std::size_t next = 0;
    {
        recycle::shared_pool<int> pool(
            [&] { return std::shared_ptr<int>(&place[next++], [&](int*) { ++destroyed; }); });
        auto const first = pool.allocate();
        EXPECT_EQ(first.get(), &place[0]);
        static_cast<void>(pool.allocate());
        EXPECT_EQ(destroyed, 0);
    }
    EXPECT_EQ(destroyed, 2);
}

TEST_F(recycle_shared_pool, recycles_objects_that_somebody_else_owns_too) {
    auto const everywhere = std::make_shared<test::counted<>>();
    recycle::shared_pool<test::counted<>> pool([&] { return everywhere; });
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 1U);
    EXPECT_EQ(pool.allocate().get(), everywhere.get());
}

TEST_F(recycle_shared_pool, makes_objects_of_derived_and_of_const_types) {
    struct base {
        virtual ~base() = default;
        virtual int number() const { return 1; }
    };
    struct derived : base {
        int number() const override { return 2; }
    };
    recycle::shared_pool<base> polymorphic([] { return std::make_shared<derived>(); });
    EXPECT_EQ(polymorphic.allocate()->number(), 2);
    recycle::shared_pool<int const> constant([] { return std::make_shared<int const>(3); });
    EXPECT_EQ(*constant.allocate(), 3);
    EXPECT_EQ(constant.unused_resources(), 1U);
}

// enable_shared_from_this.

TEST_F(recycle_shared_pool, shared_from_this_joins_the_handle_in_every_use_of_an_object) {
    recycle::shared_pool<shares_itself> pool;
    std::weak_ptr<shares_itself> of_earlier_use;
    for (int use = 0; use < 3; ++use) {
        auto handle = pool.allocate();
        EXPECT_EQ(of_earlier_use.lock(), nullptr);
        auto self = handle->shared_from_this();
        of_earlier_use = handle->weak_from_this();
        EXPECT_EQ(handle.use_count(), 2);
        EXPECT_FALSE(handle.owner_before(self) || self.owner_before(handle));
        handle.reset();
        EXPECT_EQ(pool.unused_resources(), 0U) << "somebody still uses the object";
        self.reset();
        EXPECT_EQ(pool.unused_resources(), 1U);
    }
    EXPECT_EQ(log.constructed(), 1);
}

TEST_F(recycle_shared_pool, a_recycle_function_may_call_shared_from_this) {
    std::weak_ptr<shares_itself> seen;
    recycle::shared_pool<shares_itself> pool([] { return std::make_shared<shares_itself>(); },
                                             [&](std::shared_ptr<shares_itself> value) {
                                                 seen = value;
                                                 EXPECT_EQ(value->shared_from_this(), value);
                                             });
    static_cast<void>(pool.allocate());
    EXPECT_FALSE(seen.expired()) << "the pool's own pointer keeps an idle object";
    pool.free_unused();
    EXPECT_TRUE(seen.expired());
}

TEST_F(recycle_shared_pool, knows_enable_shared_from_this_in_a_base_and_through_const) {
    struct derived : shares_itself {
        int more = 0;
    };
    recycle::shared_pool<derived> pool;
    auto const handle = pool.allocate();
    EXPECT_EQ(handle->shared_from_this().use_count(), 2);

    recycle::shared_pool<shares_itself const> constant(
        [] { return std::make_shared<shares_itself const>(); });
    auto const looked_at = constant.allocate();
    EXPECT_EQ(looked_at->shared_from_this().use_count(), 2);
}

struct one : std::enable_shared_from_this<one> {};
struct other : std::enable_shared_from_this<other> {};
struct ambiguous : one, other {};
struct hidden : private std::enable_shared_from_this<hidden> {};

TEST_F(recycle_shared_pool, does_not_set_a_weak_ptr_that_shared_ptr_does_not_set) {
    static_assert(pooled::detail::shares_from_this<one>);
    static_assert(!pooled::detail::shares_from_this<ambiguous>);
    static_assert(!pooled::detail::shares_from_this<hidden>);
    static_assert(!pooled::detail::shares_from_this<int>);
    recycle::shared_pool<ambiguous> both;
    EXPECT_EQ(both.allocate()->one::weak_from_this().lock(), nullptr);
    recycle::shared_pool<hidden> none;
    EXPECT_NE(none.allocate(), nullptr);
}

// What unique_pool promises besides: its pool_ptr.

using pool_type = recycle::unique_pool<object>;
using pool_ptr = pool_type::pool_ptr;
using recycle_unique_pool = recycle_pools;

TEST_F(recycle_unique_pool, allocates_a_unique_ptr_with_a_deleter_of_its_own) {
    static_assert(std::is_same_v<decltype(std::declval<pool_type&>().allocate()), pool_ptr>);
    static_assert(std::is_same_v<pool_ptr, std::unique_ptr<object, pool_ptr::deleter_type>>);
    static_assert(std::is_same_v<pool_type::value_ptr, std::unique_ptr<object>>);
    static_assert(std::is_nothrow_move_constructible_v<pool_ptr> && !std::is_copy_constructible_v<pool_ptr>);
}

TEST_F(recycle_unique_pool, release_takes_the_object_out_of_the_pool_for_good) {
    pool_type pool;
    object* const mine = pool.allocate().release();
    EXPECT_EQ(pool.unused_resources(), 0U);
    EXPECT_EQ(log.alive(), 1);
    delete mine;
    EXPECT_EQ(log.alive(), 0);
    static_cast<void>(pool.allocate());
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TEST_F(recycle_unique_pool, reset_recycles_the_old_object_and_later_the_new_one) {
    pool_type pool;
    pool_ptr pointer = pool.allocate();
    pointer.reset(new object);
    EXPECT_EQ(pool.unused_resources(), 1U);
    pointer.reset();
    EXPECT_EQ(pool.unused_resources(), 2U);
    EXPECT_EQ(log.alive(), 2);
}

TEST_F(recycle_unique_pool, a_pool_ptr_made_by_default_is_empty_and_takes_any_object) {
    pool_type pool;
    pool_ptr pointer;
    EXPECT_EQ(pointer, nullptr);
    pointer.reset(new object);
    pointer.reset();
    EXPECT_EQ(log.alive(), 0) << "of no pool: deleted";
    pointer = pool.allocate();
    pointer.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
}

TEST_F(recycle_unique_pool, move_assignment_recycles_what_the_target_had) {
    pool_type pool;
    pool_type other;
    auto pointer = pool.allocate();
    pointer = other.allocate();
    EXPECT_EQ(pool.unused_resources(), 1U);
    pointer = nullptr;
    EXPECT_EQ(other.unused_resources(), 1U);
}

TEST_F(recycle_unique_pool, a_pool_ptr_converts_to_a_shared_ptr_that_recycles) {
    pool_type pool;
    std::shared_ptr<object> shared = pool.allocate();
    std::weak_ptr<object> const weak = shared;
    shared.reset();
    EXPECT_EQ(pool.unused_resources(), 1U);
    EXPECT_TRUE(weak.expired());
}

TEST_F(recycle_unique_pool, values_that_share_themselves_do_so_behind_a_shared_ptr) {
    struct conversing : std::enable_shared_from_this<conversing> {
        test::counted<> life;
    };
    recycle::unique_pool<conversing> pool;
    for (int use = 0; use < 3; ++use) {
        std::shared_ptr<conversing> shared = pool.allocate();
        auto self = shared->shared_from_this();
        shared.reset();
        EXPECT_EQ(pool.unused_resources(), 0U);
        self.reset();
        EXPECT_EQ(pool.unused_resources(), 1U);
    }
    EXPECT_THROW(static_cast<void>(pool.allocate()->shared_from_this()), std::bad_weak_ptr);
    EXPECT_EQ(log.constructed(), 1);
}

}  // namespace
