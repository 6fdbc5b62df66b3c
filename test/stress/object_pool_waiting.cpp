// SPDX-License-Identifier: BSL-1.0

// Plan: a pool of one object, so that the threads that get it run one after the other and can record their order. Threads
// begin to wait one by one, in a known order; then releases, timeouts and stops race. The threads that got the object must
// have got it in the order of the queue, every thread must end, and afterwards the object must be idle.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

namespace {

using namespace stress;
using namespace std::chrono_literals;

// Sometimes on_release throws: the object is destroyed, and the first waiter builds another.
struct fragile {
    bool is_broken = false;
};
struct breaks {
    void on_release(fragile& f) const {
        if (f.is_broken) throw std::runtime_error("broken");
    }
};
using pool_type = pooled::object_pool<fragile, breaks>;

// One millisecond before the deadline of all that wait by it; then at the deadline.
struct race_clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<race_clock>;
    [[maybe_unused]] static constexpr bool is_steady = true;
    static time_point now() noexcept { return time_point(duration(s_is_over ? 1 : 0)); }
    static inline std::atomic<bool> s_is_over{false};
};

template <class Pool>
void until_waiting(Pool const& pool, std::size_t count) {
    while (pool.waiting() != count)
        std::this_thread::yield();
}

TEST(waiting_stress, waiters_get_the_object_in_their_order_whichever_of_them_give_up) {
    constexpr std::size_t k_threads = 8;
    pool_type pool({.max_objects = 1});
    dice r(1);
    std::size_t served_in_all = 0;
    for (std::size_t round = 0; round < scaled(400, 60); ++round) {
        auto held = pool.acquire();
        race_clock::s_is_over = false;
        std::vector<std::size_t> served;  // written by the thread that has the object
        std::vector<std::thread> threads;
#if POOLED_HAS_STOP_TOKEN
        std::stop_source source;
#endif
        std::vector<std::size_t> kinds(k_threads);
        for (std::size_t i = 0; i < k_threads; ++i) {
            kinds[i] = r.below(3);
            bool const breaks_it = r.below(4) == 0;
            threads.emplace_back([&, i, breaks_it] {
                std::shared_ptr<fragile> mine;
                if (kinds[i] == 1)
                    mine = pool.acquire_until(race_clock::time_point(1ms));
#if POOLED_HAS_STOP_TOKEN
                else if (kinds[i] == 2)
                    mine = pool.acquire(source.get_token());
#endif
                else
                    mine = pool.acquire_for(1h);
                if (mine == nullptr) return;
                served.push_back(i);
                mine->is_broken = breaks_it;
            });
            until_waiting(pool, i + 1);
        }
        std::thread releases([&] { held.reset(); });
        std::thread ends_the_deadline([&] { race_clock::s_is_over = true; });
#if POOLED_HAS_STOP_TOKEN
        std::thread stops([&] {
            if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round % 50));
            source.request_stop();
        });
        stops.join();
#endif
        releases.join();
        ends_the_deadline.join();
        for (auto& t : threads)
            t.join();
        EXPECT_TRUE(std::ranges::is_sorted(served));
        for (std::size_t i = 0; i < threads.size(); ++i) {
            bool const is_served = std::ranges::find(served, i) != served.end();
            EXPECT_TRUE(is_served || kinds[i] != 0) << "a waiter without a deadline gets the object";
        }
        served_in_all += served.size();
        ASSERT_EQ(pool.waiting(), 0U);
        ASSERT_TRUE(pool.try_acquire()) << "the object is there";
        ASSERT_TRUE(test::is_valid(pool));
    }
    EXPECT_GT(served_in_all, 0U);
}

TEST(waiting_stress, no_object_is_lost_when_a_release_and_a_time_out_come_at_once) {
    pooled::object_pool<int> pool({.max_objects = 1});
    std::size_t got = 0;
    for (std::size_t i = 0; i < scaled(5'000, 500); ++i) {
        auto held = pool.acquire();
        std::atomic<bool> got_one{false};
        std::thread waits([&] { got_one = pool.acquire_for(std::chrono::microseconds(i % 40)) != nullptr; });
        for (std::size_t spin = 0; spin < 20 * (i % 97); ++spin)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        held.reset();
        waits.join();
        got += got_one ? 1 : 0;
        ASSERT_TRUE(pool.try_acquire());
        ASSERT_EQ(pool.waiting(), 0U);
    }
    RecordProperty("got", std::to_string(got));
}

#if POOLED_HAS_STOP_TOKEN
TEST(waiting_stress, no_object_is_lost_when_a_release_and_a_stop_come_at_once) {
    pooled::object_pool<int> pool({.max_objects = 1});
    for (std::size_t i = 0; i < scaled(3'000, 300); ++i) {
        auto held = pool.acquire();
        std::jthread waits([&](std::stop_token const& token) { static_cast<void>(pool.acquire_rc(token)); });
        if (i % 2 == 0) until_waiting(pool, 1);
        std::thread stops([&] { waits.request_stop(); });
        held.reset();
        stops.join();
        waits.join();
        ASSERT_TRUE(pool.try_acquire());
        ASSERT_EQ(pool.waiting(), 0U);
    }
}
#endif

// The thread that made a pool takes no lock to wait, until another one uses the pool; statistics are read under the lock.
TEST(waiting_stress, the_only_thread_that_uses_a_pool_is_counted_while_it_waits) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto const held = pool.acquire();
    std::atomic<bool> is_seen{false};
    {
        repeatedly const watcher([&] {
            if (pool.waiting() == 1) is_seen = true;
            auto const seen = pool.stats();
            EXPECT_LE(seen.waiting, 1U);
            EXPECT_EQ(seen.in_use, 1U);
            std::this_thread::yield();
        });
        for (std::size_t i = 0; i < 5'000 || !is_seen; ++i)
            EXPECT_EQ(pool.acquire_for(1us), nullptr);
    }
    EXPECT_EQ(pool.waiting(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(waiting_stress, every_waiter_gets_an_object_when_there_are_always_too_few) {
    constexpr std::size_t k_threads = 8;
    pooled::object_pool<int> pool({.max_objects = 2});
    std::size_t const rounds = scaled(5'000, 300);
    std::atomic<std::size_t> served{0};
    on_threads(k_threads, [&](std::size_t) {
        for (std::size_t i = 0; i < rounds; ++i)
            if (auto const mine = pool.acquire_for(1h)) {
                ++served;
                std::this_thread::yield();
            }
    });
    EXPECT_EQ(served, k_threads * rounds);
    EXPECT_EQ(pool.high_water(), 2U);
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
