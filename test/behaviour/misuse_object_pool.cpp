// SPDX-License-Identifier: BSL-1.0
// The checked build misses no second drop of an object of an object_pool: of each kind of handle, wherever the object is then.
//
// A report is caught by leaving the library with longjmp: one process then sees many. Only in the preset `checked`.

#include <gtest/gtest.h>

#ifndef POOLED_CHECKED
#define POOLED_CHECKED 0
#endif

#if POOLED_CHECKED

#include "support/caught_report.hpp"

#define POOLED_FAIL(message) ::test::on_report(message)

#include "pooled/pooled.hpp"

#include "support/misused_pool.hpp"
#include "support/stale_pointer.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using test::is_report;
using test::iterations;
using test::report_of;
using test::report_of_stale_drop;
using test::stale;

struct connection {
    std::string text = "text";
};

template <class Pool>
class misuse_of : public testing::Test {
protected:
    Pool pool{{.name = "packets"}};
};
using kinds = testing::Types<pooled::object_pool<connection>, pooled::local_object_pool<connection>>;
struct kind_names {
    template <class Pool>
    static std::string GetName(int) {
        return std::is_same_v<Pool, pooled::object_pool<connection>> ? "object_pool" : "local_object_pool";
    }
};
TYPED_TEST_SUITE(misuse_of, kinds, kind_names);

TYPED_TEST(misuse_of, an_idle_object_is_reported_for_every_drop_of_a_shared_ptr) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i)
        found += is_report(report_of_stale_drop(this->pool.acquire()), "a std::shared_ptr");
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, an_idle_object_is_reported_for_every_drop_of_a_weak_ptr) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        auto owner = this->pool.acquire();
        std::weak_ptr<connection> observer = owner;
        owner.reset();
        found += is_report(report_of_stale_drop(std::move(observer)), "a std::weak_ptr");
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, an_idle_object_is_reported_for_every_drop_of_a_unique_ptr) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        auto owner = this->pool.acquire_unique();
        connection* const object = owner.get();
        owner.reset();
        found += is_report(report_of([&] { pooled::deleter<connection>{}(object); }),
                           "is idle in its object_pool");
    }
    EXPECT_EQ(found, iterations());
}

TYPED_TEST(misuse_of, an_idle_object_is_reported_for_every_drop_of_an_rc_ptr_or_weak_rc_ptr) {
    int found = 0;
    for (int i = 0; i < iterations(); ++i) {
        found += is_report(report_of_stale_drop(this->pool.acquire_rc()), "is idle in its object_pool");
        auto owner = this->pool.acquire_rc();
        auto observer = typename decltype(owner)::weak_type(owner);
        found += is_report(report_of_stale_drop(std::move(owner)), "double free");  // observed: not idle yet
        found += is_report(report_of_stale_drop(std::move(observer)), "is idle in its object_pool");
    }
    EXPECT_EQ(found, 3 * iterations());
}

// In a thread's cache, in the central list, and destroyed.
TYPED_TEST(misuse_of, an_object_is_reported_wherever_it_is_when_it_is_dropped_again) {
    constexpr std::size_t k_objects = 500;
    std::vector<stale<std::shared_ptr<connection>>> copies;
    std::vector<decltype(this->pool.acquire_rc())> counted;
    std::vector<stale<decltype(this->pool.acquire_rc())>> counted_copies;
    {
        std::vector<std::shared_ptr<connection>> owners;
        for (std::size_t i = 0; i < k_objects; ++i) {
            owners.push_back(this->pool.acquire());
            copies.emplace_back(owners.back());
            counted.push_back(this->pool.acquire_rc());
            counted_copies.emplace_back(counted.back());
        }
        counted.clear();
    }
    auto const expect_all = [&](char const* when) {
        std::size_t found = 0;
        for (auto each : copies)  // by value: a drop empties it
            found += is_report(each.report_of_drop(), "a std::shared_ptr");
        for (auto each : counted_copies)
            found += is_report(each.report_of_drop(), "double free");
        EXPECT_EQ(found, 2 * k_objects) << when;
    };
    expect_all("idle");
    this->pool.acquire().reset();  // none was damaged
    expect_all("idle again");
    EXPECT_EQ(this->pool.in_use(), 0U);
}

TYPED_TEST(misuse_of, an_object_is_reported_for_a_drop_after_it_was_destroyed) {
    auto owner = this->pool.acquire();
    auto const other = this->pool.acquire();  // the memory stays with the pool
    stale copy(owner);
    owner.reset();
    EXPECT_EQ(this->pool.trim(), 1U);
    EXPECT_TRUE(is_report(copy.report_of_drop(), "a std::shared_ptr"));
}

// The next owner is of another kind, and does not use the control block.
TYPED_TEST(misuse_of, an_object_is_reported_for_the_drop_of_an_earlier_shared_ptr) {
    auto first = this->pool.acquire();
    connection const* const object = first.get();
    stale copy(first);
    first.reset();
    auto const unique = this->pool.acquire_unique();
    ASSERT_EQ(unique.get(), object);
    EXPECT_TRUE(is_report(copy.report_of_drop(), "a std::shared_ptr"));
}

TYPED_TEST(misuse_of, an_idle_object_is_reported_for_a_shared_ptr_that_is_copied_from_it) {
    auto owner = this->pool.acquire();
    stale bytes(owner);
    owner.reset();
    auto* const copy = new std::shared_ptr<connection>(bytes.get());
    EXPECT_TRUE(is_report(report_of([&] { static_cast<void>(this->pool.acquire_rc()); }),
                          "bad copy of a std::shared_ptr"));
    ::operator delete(copy);
}

// Objects go through all kinds of handles, caches and lists; a shared pool's among threads.
TYPED_TEST(misuse_of, an_object_pool_is_not_reported_where_there_is_none) {
    auto const work = [this] {
        std::vector<std::shared_ptr<connection>> shared;
        for (int i = 0; i < iterations(); ++i) {
            auto const unique = this->pool.acquire_unique();
            auto counted = this->pool.acquire_rc();
            typename decltype(counted)::weak_type const observer = counted;
            counted.reset();
            shared.push_back(this->pool.acquire());
            std::weak_ptr<connection> const watching = shared.back();
            if (i % 300 == 0) shared.clear();
            if (i % 1000 == 0) this->pool.trim();
        }
    };
    std::vector<std::thread> threads;
    if constexpr (std::is_same_v<TypeParam, pooled::object_pool<connection>>)
        for (int t = 0; t < 3; ++t)
            threads.emplace_back(work);
    work();
    for (std::thread& each : threads)
        each.join();
    EXPECT_EQ(this->pool.in_use(), 0U);
}

}  // namespace

#else

TEST(misuse_of_object_pools, is_counted_in_the_preset_checked) { GTEST_SKIP() << "POOLED_CHECKED is 0"; }

#endif
