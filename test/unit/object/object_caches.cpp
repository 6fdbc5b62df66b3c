// SPDX-License-Identifier: BSL-1.0
// The threads' caches of an object pool alone: who finds what in them, and when nobody may.

#include "pooled/object/object_caches.hpp"

#include "pooled/pool/pool.hpp"

#include "support/internals.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace {

using namespace pooled::detail;

class object_caches_test : public testing::Test {
protected:
    // As one that was just built.
    [[nodiscard]] slot& fresh(object_caches const& of) {
        one.generation = of.generation();
        return one;
    }
    void stop() {
        std::scoped_lock const lock(test::core_of(pool).caches().mutex());
        caches.stop();
    }
    void resume() {
        std::scoped_lock const lock(test::core_of(pool).caches().mutex());
        caches.resume();
    }

    pooled::pool pool;
    object_caches caches{test::core_of(pool)};
    slot one{nullptr};
};

TEST_F(object_caches_test, hold_nothing_for_a_thread_without_a_cache) {
    EXPECT_EQ(caches.pop<sharing::shared>(), nullptr);
    EXPECT_FALSE(caches.push<sharing::shared>(fresh(caches)));
}

TEST_F(object_caches_test, give_a_thread_what_it_released_and_no_other) {
    ASSERT_NE(caches.attach(), nullptr);
    EXPECT_EQ(caches.attach(), caches.attach());
    EXPECT_TRUE(caches.push<sharing::shared>(fresh(caches)));
    test::sleeper other;
    other.run([&] {
        static_cast<void>(caches.attach());
        EXPECT_EQ(caches.pop<sharing::shared>(), nullptr);
    });
    std::size_t held = 0;
    std::size_t threads = 0;
    {
        std::scoped_lock const lock(test::core_of(pool).caches().mutex());
        caches.for_each([&](class_cache const& cache) {
            held += cache.held();
            ++threads;
        });
    }
    EXPECT_EQ(held, 1U);
    EXPECT_EQ(threads, 2U);
    EXPECT_EQ(caches.pop<sharing::shared>(), &one);
    EXPECT_EQ(caches.pop<sharing::shared>(), nullptr);
}

TEST_F(object_caches_test, are_out_of_reach_for_all_threads_while_they_are_stopped) {
    test::sleeper other;
    static_cast<void>(caches.attach());
    ASSERT_TRUE(caches.push<sharing::shared>(fresh(caches)));
    stop();
    EXPECT_EQ(caches.pop<sharing::shared>(), nullptr) << "also for who stopped them";
    slot another{nullptr};
    another.generation = caches.generation();
    other.run([&] {
        static_cast<void>(caches.attach());
        EXPECT_FALSE(caches.push<sharing::shared>(another)) << "also for a new thread";
    });
    resume();
    EXPECT_EQ(caches.pop<sharing::shared>(), &one);
    other.run([&] {
        EXPECT_TRUE(caches.push<sharing::shared>(another));
        EXPECT_EQ(caches.pop<sharing::shared>(), &another);
    });
}

TEST_F(object_caches_test, take_no_object_of_an_earlier_generation) {
    static_cast<void>(caches.attach());
    slot& old = fresh(caches);
    EXPECT_NE(caches.generation(), k_no_object);
    stop();
    caches.next_generation();
    resume();
    EXPECT_FALSE(caches.push<sharing::shared>(old));
    EXPECT_TRUE(caches.push<sharing::shared>(fresh(caches)));
    EXPECT_EQ(caches.pop<sharing::shared>(), &one);
}

TEST_F(object_caches_test, of_a_pool_beyond_the_near_slots_are_found_by_another_way) {
    pooled::pool far_pool{{.teardown = pooled::teardown::incremental}};
    object_caches far{test::core_of(far_pool)};
    static_cast<void>(far.attach());
    EXPECT_FALSE(far.push<sharing::shared>(fresh(far)));
    EXPECT_TRUE(far.push_far(fresh(far)));
    EXPECT_EQ(far.pop<sharing::shared>(), nullptr);
    EXPECT_EQ(far.pop_far(), &one);
    static_cast<void>(caches.attach());
    EXPECT_FALSE(caches.push_far(fresh(caches))) << "a near pool has one way";
    EXPECT_EQ(caches.pop_far(), nullptr);
}

TEST_F(object_caches_test, of_a_local_pool_are_one) {
    pooled::local_pool local_pool;
    object_caches local{test::core_of(local_pool)};
    EXPECT_TRUE(local.is_local());
    EXPECT_FALSE(caches.is_local());
    EXPECT_EQ(local.attach(), &test::core_of(local_pool).local_cache());
    static_cast<void>(fresh(local));
    EXPECT_TRUE(local.push<sharing::local>(one));
    EXPECT_EQ(local.pop<sharing::local>(), &one);
    one.generation = k_no_object;
    EXPECT_FALSE(local.push<sharing::local>(one));
}

}  // namespace
