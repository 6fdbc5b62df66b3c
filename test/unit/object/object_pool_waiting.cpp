// SPDX-License-Identifier: BSL-1.0
// Waiters get objects in the order of their arrival; a waiter that times out or is stopped gets an empty pointer, and no
// object is lost.

#include "pooled/object/wait_queue.hpp"
#include "pooled/pooled.hpp"

#include "kinds.hpp"
#include "support/internals.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <ratio>
#include <stdexcept>
#include <thread>
#include <vector>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

using namespace std::chrono_literals;

namespace {

// Until `count` threads wait. The order in which they began is then their order in the queue.
template <class Pool>
void until_waiting(Pool const& pool, std::size_t count) {
    while (pool.waiting() != count)
        std::this_thread::yield();
}

TEST(waiting, ends_with_a_release) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    int* const object = held.get();
    std::shared_ptr<int> got;
    std::thread other([&] { got = pool.acquire_for(1h); });
    until_waiting(pool, 1);
    EXPECT_EQ(pool.stats().waiting, 1U);
    EXPECT_TRUE(test::is_valid(pool));
    held.reset();
    other.join();
    EXPECT_EQ(got.get(), object);
    EXPECT_EQ(pool.waiting(), 0U);
    EXPECT_EQ(pool.in_use(), 1U);
}

TEST(waiting, ends_with_a_release_of_a_unique_ptr) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire_unique();
    std::thread other([&] { EXPECT_TRUE(pool.acquire_unique_until(std::chrono::steady_clock::now() + 1h)); });
    until_waiting(pool, 1);
    held.reset();
    other.join();
}

// Holds up a thread that waits until a time of it.
struct held_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<held_clock>;
    [[maybe_unused]] static constexpr bool is_steady = true;
    static inline std::atomic<bool> may_go{false};
    static time_point now() noexcept {
        while (!may_go)
            std::this_thread::yield();
        return {};
    }
};

// An offer of the right to build one is not one of all that may be built.
TEST(waiting, hinders_nobody_who_may_build_another) {
    held_clock::may_go = false;
    pooled::object_pool<int> pool({.max_objects = 4});
    std::vector<std::shared_ptr<int>> held;
    for (int i = 0; i < 4; ++i)
        held.push_back(pool.acquire());
    auto const wait = [&] { EXPECT_TRUE(pool.acquire_until(held_clock::time_point(1h))); };
    std::thread first(wait);
    std::thread second(wait);
    until_waiting(pool, 2);
    pool.clear();
    held.clear();
    EXPECT_EQ(pool.waiting(), 0U) << "both have an offer";
    EXPECT_TRUE(test::is_valid(pool));
    std::this_thread::sleep_for(1ms);  // none is withdrawn any more
    EXPECT_TRUE(pool.try_acquire());
    held_clock::may_go = true;
    first.join();
    second.join();
}

TEST(waiting, ends_with_the_last_weak_ptr_and_not_before) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    std::weak_ptr<int> watcher = held;
    std::atomic<bool> is_served{false};
    std::thread other([&] {
        auto const got = pool.acquire_for(1h);
        is_served = true;
    });
    until_waiting(pool, 1);
    held.reset();
    EXPECT_EQ(pool.waiting(), 1U);
    EXPECT_FALSE(is_served);
    watcher.reset();
    other.join();
    EXPECT_TRUE(is_served);
}

TEST(waiting, ends_empty_after_the_deadline) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto const held = pool.acquire();
    auto const start = std::chrono::steady_clock::now();
    EXPECT_FALSE(pool.acquire_for(30ms));
    EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
    EXPECT_FALSE(pool.acquire_unique_for(1ns));
    EXPECT_FALSE(pool.acquire_for(std::chrono::duration<std::int64_t, std::pico>(1)));
    EXPECT_FALSE(pool.acquire_for(std::chrono::duration<double>(0.001)));
    EXPECT_FALSE(pool.acquire_until(start));
    EXPECT_FALSE(pool.acquire_unique_until(std::chrono::system_clock::now() + 1ms));
    EXPECT_EQ(pool.waiting(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(waiting, does_not_begin_after_the_deadline) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto const held = pool.acquire();
    EXPECT_FALSE(pool.acquire_for(0s));
    EXPECT_FALSE(pool.acquire_for(-1h));
    EXPECT_FALSE(pool.acquire_for(std::chrono::hours::min()));
    EXPECT_FALSE(pool.acquire_for(std::chrono::duration<double>(std::nan(""))));
    EXPECT_FALSE(pool.acquire_until(std::chrono::steady_clock::time_point::min()));
    using unsigned_ns = std::chrono::duration<std::uint64_t, std::nano>;
    auto const ago = std::chrono::steady_clock::now() - 1ms;
    auto const before = std::chrono::duration_cast<unsigned_ns>(ago.time_since_epoch());
    EXPECT_FALSE(pool.acquire_until(std::chrono::time_point<std::chrono::steady_clock, unsigned_ns>(before)));
    EXPECT_FALSE(pool.acquire_until(std::chrono::system_clock::time_point()));
    using years = std::chrono::duration<std::int64_t, std::ratio<86400 * 365>>;
    using seconds = std::chrono::duration<double>;
    EXPECT_FALSE(pool.acquire_until(std::chrono::time_point<std::chrono::system_clock, years>::min()));
    for (double const when : {-std::numeric_limits<double>::infinity(), std::nan("")})
        EXPECT_FALSE(
            pool.acquire_until(std::chrono::time_point<std::chrono::steady_clock, seconds>(seconds(when))));
}

TEST(waiting, accepts_any_duration_and_any_deadline) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto const serve_one = [&](auto wait) {
        auto held = pool.acquire();
        std::thread other([&] { EXPECT_TRUE(wait()); });
        until_waiting(pool, 1);
        held.reset();
        other.join();
    };
    serve_one([&] { return pool.acquire_for(std::chrono::hours::max()); });
    serve_one([&] { return pool.acquire_for(std::chrono::nanoseconds::max()); });
    serve_one([&] {
        return pool.acquire_for(std::chrono::duration<double>(std::numeric_limits<double>::infinity()));
    });
    serve_one([&] { return pool.acquire_for(std::chrono::duration<int, std::ratio<86400 * 365>>(1000)); });
    serve_one([&] { return pool.acquire_until(std::chrono::steady_clock::time_point::max()); });
    serve_one([&] { return pool.acquire_until(std::chrono::system_clock::time_point::max()); });
    using years = std::chrono::duration<std::int64_t, std::ratio<86400 * 365>>;
    serve_one(
        [&] { return pool.acquire_until(std::chrono::time_point<std::chrono::system_clock, years>::max()); });
    serve_one([&] {
        return pool.acquire_until(
            std::chrono::time_point<std::chrono::steady_clock, std::chrono::hours>::max());
    });
}

// A clock that the test advances: what counts is what the caller's clock says.
struct hand_clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<hand_clock>;
    [[maybe_unused]] static constexpr bool is_steady = false;
    static time_point now() noexcept { return time_point(duration(s_now += 1)); }
    static inline std::atomic<int> s_now{0};
};

TEST(waiting, follows_the_callers_clock) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto const held = pool.acquire();
    EXPECT_FALSE(pool.acquire_until(hand_clock::now() + 5ms));
    EXPECT_GE(hand_clock::s_now, 5);
}

// Waiters, and a thread that takes the object back so many times before it lets it go.
void expect_served_in_order(std::size_t waiters, int overtakes) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    std::vector<std::size_t> served;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < waiters; ++i) {
        threads.emplace_back([&, i] {
            auto const mine = pool.acquire_for(1h);
            served.push_back(i);  // one object, so one thread at a time
        });
        until_waiting(pool, i + 1);
    }
    for (int i = 0; i < overtakes; ++i) {
        held.reset();
        held = pool.try_acquire();
    }
    held.reset();
    for (auto& t : threads)
        t.join();
    ASSERT_EQ(served.size(), waiters);
    for (std::size_t i = 0; i < waiters; ++i)
        EXPECT_EQ(served[i], i);
}

TEST(waiting, serves_in_the_order_of_arrival) { expect_served_in_order(12, 0); }

TEST(waiting, goes_on_in_its_place_when_it_was_overtaken) { expect_served_in_order(4, 1000); }

TEST(waiting, ends_although_another_thread_acquires_and_releases_all_the_time) {
    pooled::object_pool<int> pool({.max_objects = 1});
    test::settle(pool);
    auto held = pool.acquire();
    std::atomic<bool> is_served{false};
    std::thread other([&] {
        auto const got = pool.acquire_for(1h);
        is_served = got != nullptr;
        while (pool.waiting() == 0)  // until the other thread is one that waits
            std::this_thread::yield();
    });
    until_waiting(pool, 1);
    for (;;) {  // overtakes, until it may not
        held.reset();
        held = pool.try_acquire();
        if (held == nullptr) break;
    }
    EXPECT_TRUE(pool.acquire_for(1h));
    EXPECT_TRUE(is_served);
    other.join();
    EXPECT_TRUE(test::is_valid(pool));
}

// A clock that stands still until the test says so: a waiter does not give up before the others wait, however slow the machine is.
struct set_clock : hand_clock {
    using time_point = std::chrono::time_point<set_clock>;
    static time_point now() noexcept { return time_point(duration(s_now.load())); }
    static inline std::atomic<int> s_now{0};
};

TEST(waiting, goes_on_when_other_waiters_give_up) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    std::vector<int> served;
    std::vector<std::thread> threads;
    auto const wait = [&](int i, bool gives_up) {
        threads.emplace_back([&, i, gives_up] {
            auto const mine =
                gives_up ? pool.acquire_until(set_clock::time_point(1ms)) : pool.acquire_for(1h);
            if (mine) served.push_back(i);
        });
        until_waiting(pool, threads.size());
    };
    set_clock::s_now = 0;
    for (int i = 0; i < 4; ++i)
        wait(i, i % 2 == 0);
    set_clock::s_now = 1;
    threads[0].join();
    threads[2].join();
    EXPECT_EQ(pool.waiting(), 2U);
    EXPECT_TRUE(test::is_valid(pool));
    held.reset();
    threads[1].join();
    threads[3].join();
    EXPECT_EQ(served, (std::vector{1, 3}));
}

TEST(waiting, does_not_begin_when_an_idle_object_is_in_a_sleeping_threads_cache) {
    pooled::object_pool<int> pool({.max_objects = 3});
    test::sleeper other;
    std::shared_ptr<int> a;
    other.run([&] { test::settle(pool); });  // one object, in that thread's cache
    EXPECT_EQ(pool.idle(), 1U);
    a = pool.acquire_for(0s);
    EXPECT_TRUE(a);
    EXPECT_EQ(pool.capacity(), 1U) << "found, not built";
}

TEST(waiting, lets_the_waiter_build_when_the_object_released_is_destroyed) {
    struct once {
        void on_release(int& n) const {
            if (n == 13) throw std::runtime_error("broken");
        }
    };
    pooled::object_pool<int, once> pool({.max_objects = 1});
    auto held = pool.acquire();
    *held = 13;
    std::thread other([&] {
        auto const got = pool.acquire_for(1h);
        ASSERT_TRUE(got);
        EXPECT_EQ(*got, 0) << "a new one";
    });
    until_waiting(pool, 1);
    held.reset();
    other.join();
    EXPECT_EQ(pool.capacity(), 1U);
}

TEST(waiting, lets_the_waiter_build_when_a_cleared_object_is_released) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto held = pool.acquire();
    *held = 1;
    pool.clear();
    std::thread other([&] { EXPECT_EQ(*pool.acquire_for(1h), 0); });
    until_waiting(pool, 1);
    held.reset();
    other.join();
}

TEST(waiting, lets_the_waiter_build_when_another_thread_fails_to) {
    // The first thread builds slowly and fails; the waiters may then build, one after the other; all but the last fail too.
    std::atomic<int> attempts{0};
    std::atomic<bool> may_fail{false};
    pooled::object_pool<int> pool({.max_objects = 1}, [&]() -> int {
        int const n = ++attempts;
        while (!may_fail)
            std::this_thread::yield();
        if (n < 4) throw std::runtime_error("no");
        return n;
    });
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            try {
                EXPECT_EQ(*pool.acquire_for(1h), 4);
            } catch (std::runtime_error const&) {
                ++failed;
            }
        });
        while (attempts == 0)
            std::this_thread::yield();
        until_waiting(pool, i);
    }
    may_fail = true;
    for (auto& t : threads)
        t.join();
    EXPECT_EQ(failed, 3);
    EXPECT_EQ(pool.capacity(), 1U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(waiting, ends_with_one_of_several_that_another_thread_builds) {
    std::atomic<bool> has_begun{false};
    std::atomic<bool> may_finish{false};
    std::atomic<int> built{0};
    pooled::object_pool<int> pool({.growth = 3, .max_objects = 3}, [&] {
        has_begun = true;
        while (!may_finish)
            std::this_thread::yield();
        return ++built;
    });
    std::vector<std::thread> threads;
    std::vector<std::shared_ptr<int>> got(3);
    threads.emplace_back([&] { got[0] = pool.acquire(); });
    while (!has_begun)
        std::this_thread::yield();
    // The others find that all three objects are being built, and wait.
    for (std::size_t i = 1; i < 3; ++i)
        threads.emplace_back([&, i] { got[i] = pool.acquire_for(1h); });
    until_waiting(pool, 2);
    may_finish = true;
    for (auto& t : threads)
        t.join();
    EXPECT_EQ(built, 3);
    EXPECT_TRUE(got[1] && got[2]);
    EXPECT_EQ(pool.high_water(), 3U);
}

TEST(waiting, passes_the_object_to_the_next_waiter_when_on_acquire_throws) {
    struct picky {
        void on_acquire(int&, bool wants) const {
            if (!wants) throw std::runtime_error("refused");
        }
    };
    pooled::object_pool<int, picky> pool({.max_objects = 1});
    auto held = pool.acquire(true);
    std::thread first(
        [&] { EXPECT_THROW(static_cast<void>(pool.acquire_for(1h, false)), std::runtime_error); });
    until_waiting(pool, 1);
    std::thread second([&] { EXPECT_TRUE(pool.acquire_for(1h, true)); });
    until_waiting(pool, 2);
    held.reset();
    first.join();
    second.join();
}

TEST(waiting, in_a_local_pool_returns_at_once) {
    pooled::local_object_pool<int> pool({.max_objects = 1});
    auto const held = pool.acquire();
    EXPECT_FALSE(pool.acquire_for(1h));
    EXPECT_FALSE(pool.acquire_unique_until(std::chrono::steady_clock::time_point::max()));
#if POOLED_HAS_STOP_TOKEN
    EXPECT_FALSE(pool.acquire(std::stop_source().get_token()));
#endif
}

#if POOLED_HAS_STOP_TOKEN

TEST(waiting, ends_empty_when_a_stop_is_requested) {
    pooled::object_pool<int> pool({.max_objects = 1});
    auto const held = pool.acquire();
    std::jthread shared([&](std::stop_token const& token) { EXPECT_FALSE(pool.acquire(token)); });
    std::jthread unique([&](std::stop_token const& token) { EXPECT_FALSE(pool.acquire_unique(token)); });
    std::jthread counted([&](std::stop_token const& token) { EXPECT_FALSE(pool.acquire_rc(token)); });
    until_waiting(pool, 3);
    shared.request_stop();
    shared.join();
    EXPECT_EQ(pool.waiting(), 2U);
    unique.request_stop();
    unique.join();
    counted.request_stop();
    counted.join();
    EXPECT_EQ(pool.waiting(), 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(waiting, does_not_begin_when_a_stop_was_requested_before) {
    pooled::object_pool<int> pool;
    std::stop_source source;
    EXPECT_TRUE(pool.acquire(source.get_token()));
    source.request_stop();
    EXPECT_FALSE(pool.acquire(source.get_token())) << "a loop on acquire(token) is to end";
    EXPECT_FALSE(pool.acquire_unique(source.get_token()));
}

TEST(waiting, with_a_stop_token_with_or_without_a_source_ends_with_a_release) {
    std::stop_source source;
    for (std::stop_token const& token : {source.get_token(), std::stop_token()}) {
        pooled::object_pool<int> pool({.max_objects = 1});
        auto held = pool.acquire();
        std::jthread other([&] { EXPECT_TRUE(pool.acquire(token)); });
        until_waiting(pool, 1);
        held.reset();
    }
}

#endif

}  // namespace
