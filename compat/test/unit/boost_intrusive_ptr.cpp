// SPDX-License-Identifier: BSL-1.0
// boost::intrusive_ptr to objects of the pools: it counts with rc_ptr, and the last of either kind ends the object.

#include "pooled/compat/boost_intrusive_ptr.hpp"

#include "pooled/pooled.hpp"

#include "support/lives.hpp"

#include <boost/intrusive_ptr.hpp>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

struct session : pooled::enable_intrusive_ptr, test::counted<8> {
    explicit session(test::life_log& log, int n = 0) : counted(log), number(n) {}
    [[nodiscard]] boost::intrusive_ptr<session> self() { return boost::intrusive_ptr<session>(this); }
    int number;
};

struct first {
    virtual ~first() = default;
    std::uint64_t payload = 1;
};
struct second : pooled::enable_intrusive_ptr {
    virtual ~second() = default;
    int number = 2;
};
struct both : first, second, test::counted<8> {
    explicit both(test::life_log& log) : counted(log) {}
};

struct alignas(64) aligned : pooled::enable_intrusive_ptr {
    int number = 3;
};

}  // namespace

namespace untouchable {

// A class of another library, in its namespace.
struct plain : test::counted<8> {
    using counted::counted;
};
using pooled::intrusive_ptr_add_ref;
using pooled::intrusive_ptr_release;

// Not to be found by argument-dependent lookup: an unqualified call in the library would be ambiguous.
template <class T>
void* start_of(T* object) {
    return object;
}
template <class T, class... Args>
pooled::rc_ptr<T> make_rc(Args&&...) {
    return nullptr;
}
template <class T>
boost::intrusive_ptr<T> to_intrusive(pooled::rc_ptr<T>) {
    return nullptr;
}

}  // namespace untouchable

namespace {

static_assert(std::is_empty_v<pooled::enable_intrusive_ptr>);
static_assert(sizeof(boost::intrusive_ptr<session>) == 8);

class boost_intrusive_ptr : public testing::Test {
protected:
    boost_intrusive_ptr() : blocks(pooled::default_pool().stats().in_use) {}
    ~boost_intrusive_ptr() override {
        EXPECT_EQ(log.alive(), 0);
        EXPECT_EQ(pooled::default_pool().stats().in_use, blocks);
    }
    std::uint64_t blocks;
    test::life_log log;
};

TEST_F(boost_intrusive_ptr, owns_an_object_of_the_default_pool) {
    boost::intrusive_ptr<session> a = pooled::make_intrusive<session>(log, 7);
    EXPECT_EQ(a->number, 7);
    EXPECT_TRUE(pooled::default_pool().owns(a.get()));
    boost::intrusive_ptr<session> b = a;
    a.reset();
    EXPECT_EQ(log.alive(), 1);
    b.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(boost_intrusive_ptr, owns_an_object_of_a_pool_that_may_go_first) {
    boost::intrusive_ptr<session> a;
    {
        pooled::pool pool;
        a = pooled::to_intrusive(pool.make_rc<session>(log));
        EXPECT_TRUE(pool.owns(a.get()));
    }
    EXPECT_EQ(log.alive(), 1);
}

TEST_F(boost_intrusive_ptr, counts_with_rc_ptr) {
    boost::intrusive_ptr<session> a = pooled::make_intrusive<session>(log);
    pooled::rc_ptr<session> b = pooled::to_rc(a);
    EXPECT_EQ(b.use_count(), 2);
    EXPECT_EQ(b.get(), a.get());
    a.reset();
    EXPECT_EQ(b.use_count(), 1);
    a = pooled::to_intrusive(std::move(b));
    EXPECT_EQ(b, nullptr);  // NOLINT: a moved pointer is empty
    EXPECT_EQ(log.alive(), 1);
    b = pooled::to_rc(std::move(a));
    EXPECT_EQ(b.use_count(), 1);
}

TEST_F(boost_intrusive_ptr, may_be_observed) {
    boost::intrusive_ptr<session> a = pooled::make_intrusive<session>(log);
    pooled::weak_rc_ptr<session> const weak = pooled::to_rc(a);
    EXPECT_EQ(weak.lock().get(), a.get());
    a.reset();
    EXPECT_EQ(log.alive(), 0);
    EXPECT_TRUE(weak.expired());
}

TEST_F(boost_intrusive_ptr, takes_over_a_unique_ptr_without_an_allocation) {
    pooled::unique_ptr<session> unique = pooled::make_unique<session>(log, 5);
    session* const object = unique.get();
    std::uint64_t const before = pooled::default_pool().stats().in_use;
    boost::intrusive_ptr<session> a = pooled::to_intrusive(std::move(unique));
    EXPECT_EQ(a.get(), object);
    EXPECT_EQ(pooled::default_pool().stats().in_use, before);
    boost::intrusive_ptr<session> const released(pooled::make_unique<session>(log).release());
    EXPECT_EQ(pooled::to_rc(released).use_count(), 2);
}

TEST_F(boost_intrusive_ptr, can_be_made_from_this) {
    boost::intrusive_ptr<session> a = pooled::make_intrusive<session>(log);
    boost::intrusive_ptr<session> const b = a->self();
    EXPECT_EQ(a, b);
    a.reset();
    EXPECT_EQ(log.alive(), 1);
}

TEST_F(boost_intrusive_ptr, empty_ones_convert_to_empty_ones) {
    EXPECT_EQ(pooled::to_rc(boost::intrusive_ptr<session>()), nullptr);
    EXPECT_EQ(pooled::to_intrusive(pooled::rc_ptr<session>()), nullptr);
    EXPECT_EQ(pooled::to_intrusive(pooled::unique_ptr<session>()), nullptr);
}

TEST_F(boost_intrusive_ptr, sees_the_object_as_any_base_and_as_const) {
    boost::intrusive_ptr<second> base = pooled::make_intrusive<both>(log);
    EXPECT_EQ(base->number, 2);
    EXPECT_EQ(pooled::to_rc(base).use_count(), 2);
    boost::intrusive_ptr<both> const derived = boost::dynamic_pointer_cast<both>(base);
    EXPECT_NE(static_cast<void*>(derived.get()), static_cast<void*>(base.get()))
        << "the base lies further on";
    base.reset();
    EXPECT_EQ(log.alive(), 1);
    boost::intrusive_ptr<both const> const constant = derived;
    EXPECT_EQ(pooled::to_rc(derived).use_count(), 3);
    pooled::rc_ptr<second> const rc = pooled::to_rc(boost::intrusive_ptr<second>(derived));
    EXPECT_EQ(pooled::to_intrusive(rc).get(), rc.get());
}

TEST_F(boost_intrusive_ptr, serves_classes_of_a_namespace_that_uses_the_functions) {
    boost::intrusive_ptr<untouchable::plain> a = pooled::make_intrusive<untouchable::plain>(log);
    boost::intrusive_ptr<untouchable::plain> const b = a;
    a.reset();
    EXPECT_EQ(log.alive(), 1);
}

TEST_F(boost_intrusive_ptr, serves_classes_of_a_large_alignment) {
    boost::intrusive_ptr<aligned> const a = pooled::make_intrusive<aligned>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % 64, 0U);
    EXPECT_EQ(a->number, 3);
}

TEST_F(boost_intrusive_ptr, gives_an_object_back_to_its_object_pool) {
    struct connection : pooled::enable_intrusive_ptr {
        int uses = 0;
    };
    pooled::object_pool<connection> pool{{.max_objects = 1}};
    for (int i = 1; i <= 3; ++i) {
        boost::intrusive_ptr<connection> const c = pooled::to_intrusive(pool.acquire_rc());
        EXPECT_EQ(++c->uses, i) << "it stays constructed";
        EXPECT_EQ(pool.in_use(), 1U);
    }
    EXPECT_EQ(pool.idle(), 1U);
}

TEST_F(boost_intrusive_ptr, is_copied_and_dropped_by_many_threads) {
    for (int round = 0; round < 50; ++round) {
        boost::intrusive_ptr<session> shared = pooled::make_intrusive<session>(log);
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([mine = shared]() mutable {
                for (int i = 0; i < 100; ++i)
                    boost::intrusive_ptr<session> const copy = mine;
                mine.reset();
            });
        shared.reset();
        for (std::thread& thread : threads)
            thread.join();
        ASSERT_EQ(log.alive(), 0);
    }
}

}  // namespace
