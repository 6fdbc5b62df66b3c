// SPDX-License-Identifier: BSL-1.0
// The recycle pools on several threads: without a locking policy they lock for themselves, with one they use its lock.

#include "pooled/compat/recycle.hpp"

#include "support/lives.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

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
        std::latch start(k_threads + 1);
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

}  // namespace
