// SPDX-License-Identifier: BSL-1.0
// The deferred objects of a pool: each thread has its own, any thread finds all of them, what an allocation from an exhausted pool waits
// for, and none is lost when a thread ends or the pool is closed. And the queue that they are in.

#include "pooled/pooled.hpp"
#include "pooled/teardown/deferred_queue.hpp"

#include "support/death_tests.hpp"
#include "support/internals.hpp"
#include "support/no_metadata.hpp"
#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace pooled::detail;

class deferred_objects_test : public testing::Test {
protected:
    struct object {
        explicit object(std::atomic<int>& d) noexcept : destroyed(d) {}
        object(object const&) = delete;
        object& operator=(object const&) = delete;
        ~object() {
            if (in_destructor) in_destructor();
            ++destroyed;
        }
        std::atomic<int>& destroyed;
        std::function<void()> in_destructor;
    };

    deferred_objects_test() { drop(); }  // from here on, the pool has an extension
    ~deferred_objects_test() override {
        close();
        EXPECT_EQ(destroyed, dropped);
    }
    void drop(std::function<void()> in_destructor = {}) {
        ++dropped;
        pool->make_unique<object>(destroyed)->in_destructor = std::move(in_destructor);
    }
    [[nodiscard]] deferred_objects& store() {
        return *static_cast<deferred_objects*>(test::core_of(*pool).extension());
    }
    [[nodiscard]] bool is_any_left() { return store().look().is_any_left; }
    void close() { owner.reset(); }
    // Runs `work` on a thread whose deferred objects, and younger thread_local objects, are gone.
    template <class Work>
    void on_a_thread_that_ends(Work work) {
        struct runs_late {
            ~runs_late() { (*work)(); }
            Work* work;
        };
        std::thread([&] {
            static thread_local runs_late const last{&work};
            static_cast<void>(&last);
            drop();
        }).join();
    }

    std::atomic<int> destroyed{0};
    std::atomic<int> dropped{0};
    std::optional<pooled::pool> owner{std::in_place,
                                      pooled::pool_options{.teardown = pooled::teardown::incremental}};
    pooled::pool* const pool = &*owner;  // an object that is destroyed while it closes uses it
    test::sleeper other;
};

TEST_F(deferred_objects_test, tells_what_is_left_and_how_many_were_destroyed) {
    pool->drain();
    EXPECT_FALSE(is_any_left());
    auto const before = store().look().destroyed;
    drop([&] {
        EXPECT_TRUE(is_any_left()) << "one is being destroyed, one is deferred";
        EXPECT_EQ(store().look().destroyed, before);
    });
    other.run([&] { drop(); });
    EXPECT_TRUE(is_any_left());
    EXPECT_EQ(pool->drain(1), 1U);
    EXPECT_EQ(store().look().destroyed, before + 1);
    EXPECT_TRUE(is_any_left());
    other.run([&] { EXPECT_EQ(pool->drain(1), 1U); });
    EXPECT_EQ(store().look().destroyed, before + 2);
    EXPECT_FALSE(is_any_left());
}

TEST_F(deferred_objects_test, does_not_count_on_what_a_waiting_thread_is_destroying) {
    pool->drain();
    drop([&] {
        EXPECT_TRUE(is_any_left());
        t_state().is_waiting = true;
        EXPECT_FALSE(is_any_left());
        t_state().is_waiting = false;
        EXPECT_TRUE(is_any_left());
    });
    pool->drain();
}

TEST_F(deferred_objects_test, still_count_those_that_a_thread_which_has_ended_destroyed) {
    pool->drain();
    auto const before = store().look().destroyed;
    std::thread([&] {
        drop();
        pool->drain();
    }).join();
    EXPECT_EQ(store().look().destroyed, before + 1);
}

// Nothing is left before or after, but the allocation had looked for memory while the object was being destroyed.
TEST_F(deferred_objects_test, destroyed_between_two_looks_are_a_reason_to_look_for_memory_again) {
    pool->drain();
    std::uint64_t seen = ~std::uint64_t{0};
    EXPECT_TRUE(store().relieve(seen));
    other.run([&] {
        drop();
        pool->drain();
    });
    EXPECT_TRUE(store().relieve(seen));
    EXPECT_FALSE(store().relieve(seen));
}

TEST_F(deferred_objects_test, lets_a_thread_that_can_defer_nothing_destroy_what_others_did) {
    pool->drain();
    other.run([&] { drop([&] { EXPECT_TRUE(is_any_left()); }); });
    on_a_thread_that_ends([&] {
        auto one = pool->make_unique<object>(destroyed);
        ++dropped;
        int const before = destroyed;
        one.reset();
        EXPECT_EQ(destroyed, before + 1) << "it has ended";
        EXPECT_EQ(pool->drain(1), 1U);
        EXPECT_EQ(pool->drain(1), 0U);
    });
    EXPECT_FALSE(is_any_left());
}

TEST_F(deferred_objects_test, leaves_what_is_over_a_budget_to_others_where_a_thread_can_defer_nothing) {
    pool->drain();
    std::vector<pooled::unique_ptr<object>> objects;
    for (; objects.size() < 3; ++dropped)
        objects.push_back(pool->make_unique<object>(destroyed));
    other.run([&] { objects.clear(); });
    on_a_thread_that_ends([&] { EXPECT_EQ(pool->drain(2), 2U); });
    EXPECT_TRUE(is_any_left());
    EXPECT_EQ(pool->drain(2), 1U);
}

TEST_F(deferred_objects_test, destroys_what_was_deferred_and_takes_no_more_once_it_is_closed) {
    auto const make = [&] {
        ++dropped;
        return pool->make_unique<object>(destroyed);
    };
    auto mine = make();
    auto of_other = make();
    auto of_third = make();
    drop();
    other.run([&] { drop(); });
    EXPECT_LE(destroyed, 1);
    close();
    EXPECT_EQ(destroyed, 3);
    mine.reset();
    EXPECT_EQ(destroyed, 4);
    other.run([&] { of_other.reset(); });
    EXPECT_EQ(destroyed, 5);
    test::sleeper().run([&] { of_third.reset(); });
    EXPECT_EQ(destroyed, 6) << "a thread that had deferred nothing";
}

TEST_F(deferred_objects_test, destroys_what_is_deferred_while_it_closes) {
    pool->drain();
    drop([&] {
        int const before = destroyed;
        drop();
        other.run([&] { drop(); });
        EXPECT_EQ(destroyed, before);
    });
    close();
    EXPECT_EQ(destroyed, dropped);
}

TEST_F(deferred_objects_test, keeps_other_threads_out_while_one_forks) {
    std::atomic<bool> has_deferred{false};
    ++dropped;
    auto object_of_other = pool->make_unique<object>(destroyed);
    drop();
    g_fork_gate.begin();
    std::thread other_thread([&] {
        object_of_other.reset();
        has_deferred = true;
    });
    int const before = destroyed;
    drop();
    EXPECT_LE(destroyed, before + 4) << "the thread that forks goes on";
    for (int i = 0; i < 100; ++i)
        std::this_thread::yield();
    EXPECT_FALSE(has_deferred);
    g_fork_gate.end();
    other_thread.join();
}

// The deferred queue alone: it works without memory, and gives back what it took. What is lost or kept by numbers and by
// destructors: reclaim_scope.cpp and incremental.cpp. The objects are numbers, which are recorded when they are destroyed.

using namespace pooled::detail;

constexpr std::size_t k_window = 16;

struct object {
    std::uint64_t header = 0;  // the queue's to write
    int number = 0;
};

std::vector<int> g_finished;
std::vector<int> g_finished_observed;

void finish(block_type const&, void* p, bool is_observed) noexcept {
    (is_observed ? g_finished_observed : g_finished).push_back(static_cast<object*>(p)->number);
}

constexpr block_type k_type{.retire = nullptr,
                            .retire_observed = nullptr,
                            .free = nullptr,
                            .finish = finish,
                            .object_offset = offsetof(object, number),
                            .object_bytes = sizeof(int)};

class deferred_queue_test : public testing::Test {
protected:
    explicit deferred_queue_test(std::size_t count = 5000) : objects(count) {
        g_finished.clear();
        g_finished_observed.clear();
        for (std::size_t i = 0; i < count; ++i)
            objects[i].number = static_cast<int>(i);
    }
    [[nodiscard]] bool push(std::size_t i, bool is_observed = false) {
        return queue.push(deferred(&objects[i], tag_of(k_type, g_tag_of<k_type>), is_observed),
                          &objects[i].number, sizeof(int));
    }
    void push_all(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            ASSERT_TRUE(push(i));
    }
    void finish_all() {
        queue.finish();
        EXPECT_TRUE(queue.empty());
    }
    [[nodiscard]] static std::vector<int> numbers(std::size_t count) {
        std::vector<int> all(count);
        std::iota(all.begin(), all.end(), 0);
        return all;
    }

    std::vector<object> objects;
    deferred_queue queue;
};

TEST_F(deferred_queue_test, writes_into_no_object_while_there_is_memory) {
    push_all(objects.size());
    for (object const& o : objects)
        ASSERT_EQ(o.header, 0U);
    finish_all();
}

TEST_F(deferred_queue_test, gives_the_memory_of_what_was_behind_the_window_back) {
    constexpr std::size_t k_segment = 4096;
    void* const next = g_metadata.allocate(k_segment);
    g_metadata.deallocate(next, k_segment);
    push_all(k_window + 100);
    finish_all();
    EXPECT_EQ(g_metadata.allocate(k_segment), next);
    g_metadata.deallocate(next, k_segment);
}

TEST_F(deferred_queue_test, is_what_its_size_says_whatever_is_done_to_it) {
    std::mt19937 random(5);
    std::size_t pushed = 0;
    while (pushed < objects.size() || !queue.empty()) {
        bool const grows = random() % 3 != 0;
        for (auto n = random() % 700; n != 0; --n) {
            if (grows && pushed < objects.size()) {
                ASSERT_TRUE(push(pushed++));
            } else if (!queue.empty()) {
                queue.pop().finish();
            }
            ASSERT_EQ(queue.size(), pushed - g_finished.size());
        }
    }
    std::ranges::sort(g_finished);
    EXPECT_EQ(g_finished, numbers(objects.size()));
}

using deferred_queue_death_test = deferred_queue_test;

TEST_F(deferred_queue_death_test, without_memory_links_its_objects_and_refuses_those_that_are_observed) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer needs memory of its own";
    if (!test::can_end_metadata()) GTEST_SKIP() << "the emulator does not limit the address space";
    test::start_death_tests_anew();
    EXPECT_EXIT(
        {
            g_finished.reserve(objects.size());
            test::end_metadata();
            bool all = true;
            for (std::size_t i = 0; i < objects.size(); ++i)
                all = push(i) && all;
            bool const refused = !push(0, true);
            finish_all();
            std::ranges::sort(g_finished);
            bool is_right = g_finished.size() == objects.size();
            for (std::size_t i = 0; i < g_finished.size(); ++i)
                is_right = is_right && g_finished[i] == static_cast<int>(i);
            std::_Exit(all && refused && is_right ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

}  // namespace
