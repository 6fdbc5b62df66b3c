// SPDX-License-Identifier: BSL-1.0
// The deferred objects of a pool, without the pool: each thread has its own, any thread finds all of them, and none is
// lost when a thread ends or the pool is closed.

#include "pooled/impl/os/fork_gate.hpp"
#include "pooled/impl/teardown/incremental.hpp"

#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace {

using namespace pooled::detail;

struct object {
    std::uint64_t header = 0;  // the queue's to write
    std::atomic<int> destroyed{0};
    std::function<void()> in_destructor;
};

void finish(void* p) noexcept {
    auto& o = *static_cast<object*>(p);
    if (o.in_destructor) o.in_destructor();
    ++o.destroyed;
}

constexpr block_type k_type{.retire = nullptr,
                            .retire_observed = nullptr,
                            .finish = finish,
                            .finish_observed = finish,
                            .free = nullptr,
                            .object_offset = 8,
                            .object_bytes = 0};

class deferred_objects_test : public testing::Test {
protected:
    ~deferred_objects_test() override {
        other.end();
        if (!is_closed) close();
        store.on_destroy();
        for (object const& o : objects)
            EXPECT_LE(o.destroyed, 1);
    }
    // The number of objects that the calling thread has deferred then; 0: it was not deferred.
    std::size_t defer(std::size_t i) {
        return store.defer(deferred(&objects[i], tag_of<k_type>(), false), &objects[i], 0);
    }
    [[nodiscard]] int destroyed() const {
        int count = 0;
        for (object const& o : objects)
            count += o.destroyed;
        return count;
    }
    void close() {
        store.on_close();
        is_closed = true;
    }

    std::vector<object> objects = std::vector<object>(100);
    deferred_objects& store = deferred_objects::make();
    bool is_closed = false;
    test::sleeper other;
};

TEST_F(deferred_objects_test, tells_what_is_left_and_how_many_were_destroyed) {
    EXPECT_FALSE(store.look().is_any_left);
    static_cast<void>(defer(0));
    other.run([&] { static_cast<void>(defer(1)); });
    EXPECT_TRUE(store.look().is_any_left);
    objects[0].in_destructor = [&] {
        EXPECT_TRUE(store.look().is_any_left) << "one is being destroyed, one is deferred";
        EXPECT_EQ(store.look().destroyed, 0U);
    };
    EXPECT_TRUE(deferred_objects::destroy_one(*store.own()));
    EXPECT_EQ(store.look().destroyed, 1U);
    EXPECT_TRUE(store.look().is_any_left);
    other.run([&] { EXPECT_TRUE(deferred_objects::destroy_one(*store.own())); });
    EXPECT_EQ(store.look().destroyed, 2U);
    EXPECT_FALSE(store.look().is_any_left);
}

TEST_F(deferred_objects_test, does_not_count_on_what_a_waiting_thread_is_destroying) {
    static_cast<void>(defer(0));
    objects[0].in_destructor = [&] {
        EXPECT_TRUE(store.look().is_any_left);
        deferred_objects::set_blocked(true);
        EXPECT_FALSE(store.look().is_any_left);
        deferred_objects::set_blocked(false);
        EXPECT_TRUE(store.look().is_any_left);
    };
    EXPECT_TRUE(deferred_objects::destroy_one(*store.own()));
}

TEST_F(deferred_objects_test, lets_a_thread_that_can_defer_nothing_destroy_what_others_did) {
    other.run([&] { static_cast<void>(defer(0)); });
    std::thread([&] {
        deferred_objects::finish_thread();
        EXPECT_EQ(defer(1), 0U) << "it has ended";
        objects[0].in_destructor = [&] { EXPECT_TRUE(store.look().is_any_left); };
        EXPECT_EQ(store.drain(1), 1U);
        EXPECT_EQ(store.own(), nullptr);
        EXPECT_EQ(store.drain(1), 0U);
    }).join();
    EXPECT_FALSE(store.look().is_any_left);
    EXPECT_EQ(objects[0].destroyed, 1);
    EXPECT_EQ(store.look().destroyed, 1U);
}

TEST_F(deferred_objects_test, leaves_what_is_over_a_budget_to_others_where_a_thread_can_defer_nothing) {
    for (std::size_t i = 0; i < 3; ++i)
        other.run([&] { static_cast<void>(defer(i)); });
    std::thread([&] {
        deferred_objects::finish_thread();
        EXPECT_EQ(store.drain(2), 2U);
    }).join();
    EXPECT_EQ(destroyed(), 2);
    EXPECT_TRUE(store.look().is_any_left);
    EXPECT_EQ(store.drain(2), 1U);
}

TEST_F(deferred_objects_test, destroys_what_was_deferred_and_takes_no_more_once_it_is_closed) {
    static_cast<void>(defer(0));
    other.run([&] { static_cast<void>(defer(1)); });
    close();
    EXPECT_EQ(objects[0].destroyed + objects[1].destroyed, 2);
    EXPECT_EQ(defer(2), 0U);
    other.run([&] { EXPECT_EQ(defer(3), 0U); });
    test::sleeper().run([&] { EXPECT_EQ(defer(4), 0U) << "a thread that had deferred nothing"; });
    EXPECT_EQ(store.drain(1), 0U);
}

TEST_F(deferred_objects_test, destroys_what_is_deferred_while_it_closes) {
    objects[0].in_destructor = [&] {
        EXPECT_NE(defer(1), 0U);
        other.run([&] { EXPECT_NE(defer(2), 0U); });
    };
    static_cast<void>(defer(0));
    close();
    EXPECT_EQ(destroyed(), 3);
}

TEST_F(deferred_objects_test, keeps_other_threads_out_while_one_forks) {
    static_cast<void>(defer(0));
    g_fork_gate.begin();
    std::atomic<bool> has_deferred{false};
    std::thread other_thread([&] {
        static_cast<void>(defer(1));
        has_deferred = true;
    });
    EXPECT_EQ(defer(2), 2U) << "the thread that forks goes on";
    for (int i = 0; i < 100; ++i)
        std::this_thread::yield();
    EXPECT_FALSE(has_deferred);
    g_fork_gate.end();
    other_thread.join();
    EXPECT_EQ(objects[1].destroyed, 1) << "its thread has ended";
}

}  // namespace
