// SPDX-License-Identifier: BSL-1.0
// What BDE documents of bdlcc::SharedObjectPool, on what docs/migration/bde.md puts in its place: a test for each sentence, in the
// words of object_pool. BDE itself is not needed.

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

template <class T>
using shared_pool = pooled::object_pool<T, pooled::function_lifecycle<T>>;

std::string* create(void* where) { return new (where) std::string("new"); }

TEST(in_place_of_a_creator, a_factory_constructs_each_object_once_at_the_address_it_is_given) {
    int created = 0;
    std::vector<void*> at;
    pooled::object_pool<std::string> pool({}, [&](void* where) {
        ++created;
        at.push_back(where);
        new (where) std::string("made by the creator");
    });
    for (int i = 0; i < 10; ++i) {
        std::shared_ptr<std::string> const one = pool.acquire();
        EXPECT_EQ(*one, "made by the creator");
        EXPECT_EQ(one.get(), at.front());
    }
    EXPECT_EQ(created, 1);
}

TEST(in_place_of_a_creator, functions_chosen_at_run_time_are_of_one_type_of_pool) {
    static_assert(
        std::is_same_v<shared_pool<std::string>::lifecycle_type, pooled::function_lifecycle<std::string>>);
    int returned = 0;
    pooled::function_lifecycle<std::string> functions;
    functions.create = create;
    functions.on_release = [&returned](std::string& s) {
        s.clear();
        ++returned;
    };
    shared_pool<std::string> pool({}, functions);
    EXPECT_EQ(*pool.acquire(), "new");
    EXPECT_EQ(returned, 1);
    EXPECT_EQ(*pool.acquire(), "");
}

TEST(in_place_of_a_creator, without_one_objects_are_default_constructed) {
    pooled::object_pool<std::string> pool;
    EXPECT_EQ(*pool.acquire(), "");
}

TEST(in_place_of_a_creator, one_that_throws_leaves_the_pool_as_it_was) {
    int left = 3;
    pooled::object_pool<std::string> pool({.growth = 2}, [&](void* where) {
        if (left-- == 0) throw std::runtime_error("no more");
        new (where) std::string("made");
    });
    std::shared_ptr<std::string> const one = pool.acquire();
    std::shared_ptr<std::string> const two = pool.acquire();
    EXPECT_THROW(static_cast<void>(pool.acquire()), std::runtime_error);
    EXPECT_EQ(pool.capacity(), 2U);
    left = 100;
    EXPECT_EQ(*pool.acquire(), "made");
}

TEST(in_place_of_a_resetter, on_release_is_called_when_the_object_returns_and_not_when_it_is_given) {
    struct lifecycle {
        int* calls;
        void on_release(std::string&) const { ++*calls; }
    };
    int calls = 0;
    pooled::object_pool<std::string, lifecycle> pool({.initial_objects = 3}, lifecycle{&calls});
    std::shared_ptr<std::string> one = pool.acquire();
    std::shared_ptr<std::string> copy = one;
    EXPECT_EQ(calls, 0);
    one.reset();
    EXPECT_EQ(calls, 0) << "there is another owner";
    copy.reset();
    EXPECT_EQ(calls, 1);
    static_cast<void>(pool.acquire());
    EXPECT_EQ(calls, 2);
}

TEST(in_place_of_a_resetter, clear_keeps_the_memory_that_the_object_has) {
    pooled::object_pool<std::string, pooled::clear_on_release> pool;
    pool.acquire()->assign(10'000, 'x');
    EXPECT_EQ(*pool.acquire(), "");
    EXPECT_GE(pool.acquire()->capacity(), 10'000U);
}

TEST(in_place_of_a_resetter, one_of_remove_all_is_three_lines) {
    struct names {
        std::vector<std::string> all;
        void removeAll() { all.clear(); }
    };
    struct remove_all {
        void on_release(names& t) const { t.removeAll(); }
    };
    pooled::object_pool<names, remove_all> pool;
    pool.acquire()->all.emplace_back("one");
    EXPECT_TRUE(pool.acquire()->all.empty());
}

TEST(in_place_of_grow_by, a_positive_one_adds_that_many_at_each_replenishment) {
    pooled::object_pool<std::string> pool({.growth = 4});
    EXPECT_EQ(pool.capacity(), 0U) << "nothing is created with the pool";
    std::vector<std::shared_ptr<std::string>> out;
    for (std::size_t i = 1; i <= 20; ++i) {
        out.push_back(pool.acquire());
        EXPECT_EQ(pool.capacity(), (i + 3) / 4 * 4);
        EXPECT_EQ(pool.idle(), pool.capacity() - i);
    }
}

TEST(in_place_of_grow_by, a_negative_one_multiplies_the_number_of_objects) {
    pooled::object_pool<std::string> pool({.growth = 3, .growth_factor = 2});
    std::vector<std::size_t> capacities;
    std::vector<std::shared_ptr<std::string>> out;
    while (out.size() < 25) {
        out.push_back(pool.acquire());
        if (capacities.empty() || capacities.back() != pool.capacity()) capacities.push_back(pool.capacity());
    }
    EXPECT_EQ(capacities, (std::vector<std::size_t>{3, 6, 12, 24, 48}));
}

TEST(in_place_of_grow_by, it_may_be_chosen_at_run_time) {
    for (std::size_t grow_by = 1; grow_by < 10; ++grow_by) {
        pooled::object_pool_options options;
        options.growth = grow_by;
        pooled::object_pool<std::string> pool(options);
        static_cast<void>(pool.acquire());
        EXPECT_EQ(pool.capacity(), grow_by);
    }
}

TEST(in_place_of_reserve_capacity, so_many_requests_are_served_before_the_next_replenishment) {
    pooled::object_pool<std::string> pool({.growth = 1});
    std::vector<std::shared_ptr<std::string>> out;
    for (int i = 0; i < 5; ++i)
        out.push_back(pool.acquire());
    pool.reserve(pool.in_use() + 10);
    EXPECT_EQ(pool.idle(), 10U);
    EXPECT_EQ(pool.capacity(), 15U);
    for (int i = 0; i < 10; ++i)
        out.push_back(pool.acquire());
    EXPECT_EQ(pool.capacity(), 15U);
    out.resize(5);
    pool.reserve(pool.in_use() + 10);
    EXPECT_EQ(pool.capacity(), 15U) << "enough are there";
}

TEST(in_place_of_increase_capacity, so_many_are_created_and_added_whatever_is_there) {
    pooled::object_pool<std::string> pool({.growth = 1});
    std::shared_ptr<std::string> const one = pool.acquire();
    for (std::size_t i = 1; i <= 3; ++i) {
        pool.reserve(pool.capacity() + 7);
        EXPECT_EQ(pool.capacity(), 1 + 7 * i);
        EXPECT_EQ(pool.idle(), 7 * i);
    }
    pool.reserve(pool.capacity());
    EXPECT_EQ(pool.capacity(), 22U) << "increaseCapacity(0)";
}

TEST(in_place_of_the_numbers_of_objects, capacity_counts_all_and_idle_the_available_ones) {
    pooled::object_pool<std::string> pool({.initial_objects = 10});
    EXPECT_EQ(pool.capacity(), 10U);
    EXPECT_EQ(pool.idle(), 10U);
    {
        auto const one = pool.acquire();
        auto const two = pool.acquire_rc();
        EXPECT_EQ(pool.capacity(), 10U) << "numObjects() includes those outstanding";
        EXPECT_EQ(pool.idle(), 8U);
    }
    EXPECT_EQ(pool.idle(), 10U);
}

TEST(in_place_of_the_allocator, upstream_supplies_the_memory_of_objects_and_control_blocks) {
    test::counting_upstream upstream;
    {
        pooled::object_pool<std::string> pool({.upstream = &upstream});
        EXPECT_TRUE(upstream.contains(pool.acquire().get()));
        std::size_t const asked = upstream.allocations();
        for (int i = 0; i < 1000; ++i) {
            std::shared_ptr<std::string> const one = pool.acquire();
            std::weak_ptr<std::string> const observer = one;
        }
        EXPECT_EQ(upstream.allocations(), asked) << "a returned object and its control block are used again";
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

TEST(in_place_of_the_allocator, a_factory_passes_one_to_the_objects) {
    test::counting_upstream upstream;
    {
        pooled::object_pool<std::pmr::string> pool(
            {}, [&](void* where) { new (where) std::pmr::string(&upstream); });
        pool.acquire()->assign(1000, 'x');
        EXPECT_GE(upstream.bytes(), 1000U);
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

TEST(in_place_of_get_object, the_pointer_is_a_std_shared_ptr_with_all_that_it_can) {
    pooled::object_pool<std::vector<int>> pool;
    std::shared_ptr<std::vector<int>> one = pool.acquire();
    one->assign({1, 2, 3});
    std::shared_ptr<int> const part(one, &one->front());
    one.reset();
    EXPECT_EQ(pool.idle(), 0U) << "an alias owns the object";
    EXPECT_EQ(*part, 1);
    std::shared_ptr<void> const any = pool.acquire();
    EXPECT_EQ(pool.capacity(), 2U);
}

TEST(in_place_of_get_object, an_object_watched_by_a_weak_ptr_is_not_given_again) {
    pooled::object_pool<std::string> pool;
    std::shared_ptr<std::string> one = pool.acquire();
    std::weak_ptr<std::string> observer = one;
    std::string const* const address = one.get();
    one.reset();
    EXPECT_TRUE(observer.expired());
    std::shared_ptr<std::string> const other = pool.acquire();
    EXPECT_NE(other.get(), address);
    EXPECT_EQ(pool.capacity(), 2U);
    observer.reset();
    EXPECT_EQ(pool.acquire().get(), address);
}

TEST(in_place_of_a_shared_object_pool, any_thread_gets_and_returns_objects) {
    pooled::object_pool<std::string, pooled::clear_on_release> pool({.growth = 4});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) {
                std::shared_ptr<std::string> one = pool.acquire();
                EXPECT_EQ(*one, "");
                one->append("used");
            }
        });
    for (std::thread& each : threads)
        each.join();
    EXPECT_EQ(pool.idle(), pool.capacity());
    EXPECT_LE(pool.capacity(), 16U);
}

TEST(in_place_of_a_shared_object_pool, objects_in_use_outlive_it_and_are_then_destroyed) {
    struct flagged {
        bool* is_gone = nullptr;
        ~flagged() {
            if (is_gone != nullptr) *is_gone = true;
        }
    };
    bool is_gone = false;
    bool idle_is_gone = false;
    std::shared_ptr<flagged> kept;
    {
        pooled::object_pool<flagged> pool;
        kept = pool.acquire();
        kept->is_gone = &is_gone;
        pool.acquire()->is_gone = &idle_is_gone;
        EXPECT_FALSE(idle_is_gone);
    }
    EXPECT_TRUE(idle_is_gone);
    EXPECT_FALSE(is_gone);
    kept.reset();
    EXPECT_TRUE(is_gone);
}

TEST(in_place_of_a_shared_object_pool, a_resetter_that_throws_costs_one_object) {
    struct lifecycle {
        void on_release(std::string& s) const {
            if (s == "bad") throw std::runtime_error("cannot be reset");
        }
    };
    pooled::object_pool<std::string, lifecycle> pool;
    *pool.acquire() = "bad";
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_EQ(*pool.acquire(), "");
}

}  // namespace
