// SPDX-License-Identifier: BSL-1.0
// The part of an object_pool behind its handle: slots with objects in them, and that whatever a lifecycle throws loses none.

#include "pooled/object/recycler.hpp"

#include "kinds.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

using namespace pooled::detail;
using pooled::object_pool_options;

using item = test::counted<>;

struct steps {
    std::string* events;
    bool* on_acquire_throws;
    bool* on_release_throws;
    void on_acquire(item&, char argument) const {
        *events += argument;
        if (*on_acquire_throws) throw std::runtime_error("on_acquire");
    }
    void on_release(item&) const {
        *events += 'r';
        if (*on_release_throws) throw std::runtime_error("on_release");
    }
};
using tested = recycler<item, steps, sharing::shared>;
using layout = slot_layout<item>;

class recycler_test : public testing::Test {
protected:
    [[nodiscard]] tested& make(object_pool_options const& options) {
        return tested::make(options, {&events, &on_acquire_throws, &on_release_throws},
                            [this](void* where) { ::new (where) item(log); });
    }
    [[nodiscard]] static slot* acquire(tested& r) {
        return r.acquire([](tested& self) { return self.take_or_throw(); }, 'a');
    }
    // As the last handle does.
    static void drop(tested& r, slot* s) {
        r.release(*s);
        r.recycle(*s);
    }
    ~recycler_test() override {
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(test::pools_alive(), pools_before);
    }

    std::size_t pools_before = test::pools_alive();
    std::string events;
    bool on_acquire_throws = false;
    bool on_release_throws = false;
    test::life_log log;
};

TEST_F(recycler_test, uses_an_object_again_and_tells_the_lifecycle) {
    tested& r = make({});
    slot* const first = acquire(r);
    EXPECT_EQ(&tested::of(*first), &r);
    drop(r, first);
    EXPECT_EQ(acquire(r), first);
    EXPECT_EQ(log.constructed(), 1);
    EXPECT_EQ(events, "ara");
    drop(r, first);
    r.close();
}

TEST_F(recycler_test, builds_its_first_objects_at_once_or_is_not_made) {
    tested& r = make({.initial_objects = 5});
    EXPECT_EQ(log.alive(), 5);
    r.close();
    for (std::int64_t n = 1; n <= 5; ++n) {
        log.throw_at(n);
        EXPECT_THROW(static_cast<void>(make({.initial_objects = 5})), test::constructor_failed);
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(test::pools_alive(), pools_before);
    }
    EXPECT_THROW(static_cast<void>(make({.growth = 0})), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(make({.initial_objects = 3, .max_objects = 2})), std::invalid_argument);
}

TEST_F(recycler_test, is_exhausted_at_its_bound_and_not_when_building_fails) {
    tested& r = make({.growth = 2, .max_objects = 2});
    for (std::int64_t n = 1; n <= 2; ++n) {
        log.throw_at(n);
        EXPECT_THROW(static_cast<void>(acquire(r)), test::constructor_failed);
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(r.count().capacity, 0U);
    }
    slot* const a = acquire(r);
    slot* const b = acquire(r);
    EXPECT_THROW(static_cast<void>(acquire(r)), pooled::exhausted);
    EXPECT_EQ(r.try_take(), nullptr);
    drop(r, a);
    drop(r, b);
    r.close();
}

TEST_F(recycler_test, recycles_an_object_whose_on_acquire_throws) {
    tested& r = make({.max_objects = 1});
    on_acquire_throws = true;
    EXPECT_THROW(static_cast<void>(acquire(r)), std::runtime_error);
    on_acquire_throws = false;
    EXPECT_EQ(r.count().idle, 1U);
    drop(r, acquire(r));
    EXPECT_EQ(log.constructed(), 1);
    EXPECT_EQ(events, "aar") << "what was not acquired is not released";
    r.close();
}

TEST_F(recycler_test, destroys_an_object_whose_on_release_throws) {
    tested& r = make({.max_objects = 1});
    on_release_throws = true;
    drop(r, acquire(r));
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(r.count().capacity, 0U);
    on_release_throws = false;
    drop(r, acquire(r));
    EXPECT_EQ(log.constructed(), 2);
    r.close();
}

TEST_F(recycler_test, reserves_up_to_its_bound_or_is_as_before) {
    tested& r = make({.max_objects = 4});
    EXPECT_THROW(r.reserve(5), std::length_error);
    log.throw_at(2);
    EXPECT_THROW(r.reserve(4), test::constructor_failed);
    EXPECT_EQ(r.count().capacity, 0U);
    r.reserve(3);
    r.reserve(2);
    EXPECT_EQ(log.alive(), 3);
    r.close();
}

TEST_F(recycler_test, discards_what_is_idle_and_what_is_outdated_when_it_is_released) {
    tested& r = make({.initial_objects = 3});
    slot* const kept = acquire(r);
    EXPECT_EQ(r.discard_idle(object_stock::in_use::keep), 2U);
    drop(r, kept);
    EXPECT_EQ(log.alive(), 1);
    slot* const outdated = acquire(r);
    EXPECT_EQ(r.discard_idle(object_stock::in_use::outdate), 0U);
    events.clear();
    drop(r, outdated);
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(events, "") << "what is destroyed is not reset before";
    r.close();
}

TEST_F(recycler_test, goes_with_its_last_object_when_it_was_closed_before) {
    tested& r = make({.initial_objects = 2});
    slot* const s = acquire(r);
    r.close();
    EXPECT_EQ(log.alive(), 1) << "the idle one is gone";
    EXPECT_EQ(test::pools_alive(), pools_before + 1);
    r.release(*s);
    EXPECT_EQ(log.alive(), 0);
    r.recycle(*s);  // nothing refers to the slot any more
}

}  // namespace
