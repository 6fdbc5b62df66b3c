// SPDX-License-Identifier: BSL-1.0
// Plan: each object counts its holders, so one that two threads acquired at once is detected immediately, and a lost one at
// the end, when all are acquired. Threads acquire by every form and handle, wait, time out, are stopped, pass objects on and
// end, while others trim, clear and destroy pools. Where a thread holds a token for each object it may have, "exhausted" is
// an error. POOLED_STRESS_SECONDS says how long the first test runs at least; 1 if it is not set.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#if POOLED_HAS_STOP_TOKEN
#include <stop_token>
#endif

namespace {

using namespace stress;
using namespace std::chrono_literals;

std::atomic<std::int64_t> g_alive{0};
std::atomic<std::size_t> g_held_twice{0};

// Derives from enable_shared_from_this, so that each use also sets and resets the weak_ptr inside.
struct buffer : std::enable_shared_from_this<buffer> {
    buffer() { ++g_alive; }
    buffer(buffer const&) = delete;
    ~buffer() { --g_alive; }
    std::atomic<int> holders{0};
    std::uint64_t uses = 0;  // not atomic: one use happens after the other
};

struct counts_holders {
    void on_acquire(buffer& b) const {
        if (b.holders.fetch_add(1, std::memory_order_relaxed) != 0) ++g_held_twice;
        ++b.uses;
    }
    void on_release(buffer& b) const {
        ++b.uses;
        if (b.holders.fetch_sub(1, std::memory_order_relaxed) != 1) ++g_held_twice;
    }
};

using pool_type = pooled::object_pool<buffer, counts_holders>;
using any_handle =
    std::variant<std::monostate, std::shared_ptr<buffer>, pooled::unique_ptr<buffer>, pooled::rc_ptr<buffer>>;

[[nodiscard]] bool is_empty(any_handle const& h) {
    return std::visit(
        [](auto const& p) {
            if constexpr (std::is_same_v<std::decay_t<decltype(p)>, std::monostate>)
                return true;
            else
                return p == nullptr;
        },
        h);
}

[[nodiscard]] any_handle try_any(pool_type& pool, dice& r) {
    switch (r.below(3)) {
    case 0:
        return pool.try_acquire();
    case 1:
        return pool.try_acquire_unique();
    default:
        return pool.try_acquire_rc();
    }
}

[[nodiscard]] any_handle acquire_any(pool_type& pool, dice& r) {
    std::chrono::microseconds const at_most(r.below(100));
    switch (r.below(8)) {
    case 0:
        return pool.acquire_for(at_most);
    case 1:
        return pool.acquire_unique_for(at_most);
    case 2:
        return pool.acquire_rc_for(at_most);
    case 3:
        return pool.acquire_until(std::chrono::system_clock::now() + at_most);
    case 4:
        return pool.acquire_rc_until(std::chrono::steady_clock::now() + at_most);
    default:
        return try_any(pool, r);
    }
}

class object_pool_stress : public testing::Test {
protected:
    ~object_pool_stress() override {
        EXPECT_EQ(g_held_twice.exchange(0), 0U);
        EXPECT_EQ(g_alive, 0) << "objects of a destroyed pool are alive";
    }

    static void expect_all_there(pool_type& pool, std::size_t count) {
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_EQ(pool.in_use(), 0U);
        EXPECT_EQ(pool.waiting(), 0U);
        std::set<buffer*> distinct;
        std::vector<std::shared_ptr<buffer>> all;
        while (auto p = pool.try_acquire()) {
            distinct.insert(p.get());
            all.push_back(std::move(p));
        }
        EXPECT_EQ(all.size(), count);
        EXPECT_EQ(distinct.size(), count);
    }
};

[[nodiscard]] std::chrono::milliseconds stress_time() {
    char const* const seconds = std::getenv("POOLED_STRESS_SECONDS");
    return seconds == nullptr ? 1000ms : std::chrono::milliseconds(1000 * std::atoi(seconds));
}

TEST_F(object_pool_stress, eight_threads_share_sixteen_objects_and_lose_none) {
    constexpr std::uint64_t k_enough = 1000;  // however few a second on a busy machine
    pool_type pool({.max_objects = 16});
    std::atomic<std::uint64_t> acquired{0};  // relaxed, so that it hides no race
    auto const end = std::chrono::steady_clock::now() + stress_time();
    on_threads(8, [&](std::size_t index) {
        dice r(index);
        std::vector<any_handle> mine;
        std::vector<std::weak_ptr<buffer>> watched;
        while (std::chrono::steady_clock::now() < end ||
               acquired.load(std::memory_order_relaxed) < k_enough) {
            std::uint64_t count = 0;
            for (int i = 0; i < 100; ++i) {
                // Now and then all that there is, so that the others have to wait.
                std::size_t const wanted = r.below(64) == 0 ? 16 : 1 + r.below(3);
                if (mine.size() < wanted) {
                    any_handle h = acquire_any(pool, r);
                    if (is_empty(h)) continue;
                    ++count;
                    if (auto const* const shared = std::get_if<1>(&h); shared != nullptr && r.below(8) == 0)
                        watched.push_back(*shared);
                    mine.push_back(std::move(h));
                } else {
                    std::swap(mine[r.below(mine.size())], mine.back());
                    mine.pop_back();
                }
                if (watched.size() > 2) watched.clear();
            }
            acquired.fetch_add(count, std::memory_order_relaxed);
        }
    });
    EXPECT_EQ(pool.high_water(), 16U);
    expect_all_there(pool, 16);
    RecordProperty("acquired", std::to_string(acquired));
}

TEST_F(object_pool_stress, a_thread_with_a_token_for_an_object_always_gets_one) {
    constexpr std::size_t k_objects = 16;
    pool_type pool({.max_objects = k_objects});
    std::atomic<int> tokens{static_cast<int>(k_objects)};
    auto const take_token = [&] {
        int seen = tokens.load(std::memory_order_relaxed);
        while (seen > 0)
            if (tokens.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire)) return true;
        return false;
    };
    auto const give_token = [&] { tokens.fetch_add(1, std::memory_order_release); };
    exchange<any_handle> handed_on;  // some are released by another thread than acquired them
    std::atomic<std::size_t> refused{0};
    on_threads(8, [&](std::size_t index) {
        dice r(index + 100);
        for (std::size_t i = 0; i < scaled(600'000, 8'000); ++i) {
            if (!take_token()) {
                // All are out or waiting in the exchange: take one from there.
                if (any_handle h = handed_on.swap({}, r.below(64)); !is_empty(h)) {
                    h = {};
                    give_token();
                }
                continue;
            }
            any_handle h = try_any(pool, r);
            if (is_empty(h)) ++refused;
            if (r.below(4) == 0) h = handed_on.swap(std::move(h), r.below(64));
            if (is_empty(h)) continue;
            h = {};
            give_token();
        }
    });
    EXPECT_EQ(refused, 0U);
    handed_on.drain([](any_handle) {});
    expect_all_there(pool, k_objects);
}

TEST_F(object_pool_stress, objects_are_passed_between_threads_that_begin_and_end) {
    pool_type pool({.max_objects = 200});
    exchange<any_handle> handed_on;
    for (std::size_t round = 0; round < scaled(300, 10); ++round)
        on_threads(4, [&](std::size_t index) {
            dice r(index + 10 * round);
            for (int i = 0; i < 3000; ++i) {
                any_handle h = try_any(pool, r);
                static_cast<void>(handed_on.swap(std::move(h), r.below(64)));
            }
        });
    handed_on.drain([](any_handle) {});
    expect_all_there(pool, 200);
}

// Nobody waits for a thread that was preempted inside its cache: then others build more, so one run of ten without that suffices.
TEST_F(object_pool_stress, growing_pools_build_no_more_than_are_in_use_at_once) {
    constexpr std::size_t k_threads = 6;
    constexpr std::size_t k_each = 3;
    std::size_t built = k_threads * k_each + 1;
    for (int attempt = 0; attempt < 10 && built > k_threads * k_each; ++attempt) {
        pool_type pool;
        on_threads(k_threads, [&](std::size_t index) {
            dice r(index);
            std::vector<any_handle> mine;
            for (std::size_t i = 0; i < scaled(1'000'000, 10'000); ++i) {
                if (mine.size() < k_each && r.below(2) == 0)
                    mine.push_back(try_any(pool, r));
                else if (!mine.empty())
                    mine.pop_back();
            }
        });
        built = pool.capacity();
        EXPECT_EQ(pool.high_water(), built);
        EXPECT_EQ(g_alive, static_cast<std::int64_t>(built));
        EXPECT_TRUE(test::is_valid(pool));
    }
    EXPECT_LE(built, k_threads * k_each);
}

TEST_F(object_pool_stress, trim_clear_and_counts_lose_no_object) {
    pool_type pool({.growth = 3, .max_objects = 24});
    {
        std::atomic<std::size_t> rounds{0};
        repeatedly const disturb([&] {
            switch (rounds++ % 4) {
            case 0:
                pool.trim();
                break;
            case 1:
                pool.clear();
                break;
            case 2:
                EXPECT_LE(pool.idle(), pool.capacity() + 24);
                break;
            default:
                EXPECT_TRUE(test::is_valid(pool));
                break;
            }
            std::this_thread::sleep_for(50us);
        });
        on_threads(4, [&](std::size_t index) {
            dice r(index + 7);
            std::vector<any_handle> mine;
            for (std::size_t i = 0; i < scaled(1'000'000, 10'000); ++i) {
                if (mine.size() < 10 && r.below(2) == 0) {
                    any_handle h = acquire_any(pool, r);
                    if (!is_empty(h)) mine.push_back(std::move(h));
                } else if (!mine.empty()) {
                    mine.pop_back();
                }
            }
        });
    }
    expect_all_there(pool, 24);
}

TEST_F(object_pool_stress, pools_are_destroyed_while_objects_are_released) {
    for (std::size_t round = 0; round < scaled(4'000, 100); ++round) {
        std::optional<pool_type> pool;
        pool.emplace(pooled::object_pool_options{.initial_objects = round % 5});
        exchange<any_handle> handed_on;
        std::atomic<int> ready{0};
        std::thread other([&] {
            dice r(round);
            std::vector<any_handle> mine;
            for (int i = 0; i < 20; ++i) {
                mine.push_back(try_any(*pool, r));
                static_cast<void>(handed_on.swap(try_any(*pool, r), r.below(64)));
            }
            ready = 1;
            mine.clear();  // while the pool is destroyed
        });
        while (ready == 0)
            std::this_thread::yield();
        pool.reset();
        handed_on.drain([](any_handle) {});
        other.join();
        ASSERT_EQ(g_alive, 0);
    }
}

TEST(object_pool_stress_of_one_user, is_counted_by_another_thread_while_it_grows) {
    pooled::object_pool<int> pool{{.growth = 4}};
    std::atomic<bool> is_over{false};
    std::thread other([&] {
        while (!is_over.load(std::memory_order_relaxed))
            static_cast<void>(pool.capacity());
    });
    std::vector<std::shared_ptr<int>> held;
    for (int i = 0; i < 20'000; ++i)
        held.push_back(pool.acquire());
    is_over.store(true, std::memory_order_relaxed);
    other.join();
    EXPECT_GE(pool.capacity(), 20'000U);
}

// Plan: the process forks again and again while threads acquire, release, wait, build and end. In each child the pool must
// be usable: all that was idle can be acquired, no thread waits, and the pool stays valid. Not under ThreadSanitizer, which
// does not support threads in a child of a process with threads; nor with musl as Zig builds it, whose malloc leaves the child a
// lock that another thread held (docs/platforms.md): the child below uses a vector and a thread.
TEST(object_pool_fork_stress, a_child_can_use_the_pool) {
    if (POOLED_STRESS_TSAN)
        GTEST_SKIP() << "ThreadSanitizer does not support a fork of a process with threads";
#if defined(__linux__) && !defined(__GLIBC__)
    GTEST_SKIP() << "the C library's malloc may be locked for ever in a forked child";
#endif
    constexpr std::size_t k_objects = 8;
    pooled::object_pool<int> scarce({.max_objects = k_objects});
    pooled::object_pool<int> plenty;
    auto const use = [&](std::size_t seed) {
        return [&, seed] {
            std::vector<std::shared_ptr<int>> some;
            for (int i = 0; i < 4; ++i) {
                some.push_back(scarce.acquire_for(std::chrono::microseconds(50 * seed)));
                some.push_back(plenty.acquire());
            }
        };
    };
    repeatedly const a(use(1));
    repeatedly const b(use(2));
    repeatedly const c(use(3));
    repeatedly const short_lived([&] { std::thread(use(4)).join(); });

    for (std::size_t i = 0; i < scaled(300, 60); ++i) {
        auto const use_in_child = [&] {
            if (scarce.waiting() != 0) return 1;
            // What other threads of the parent held is lost to the child; nothing else.
            std::size_t const idle = scarce.idle();
            std::vector<std::shared_ptr<int>> all;
            while (auto p = scarce.try_acquire())
                all.push_back(std::move(p));
            if (all.size() < idle) return 2;
            all.clear();
            for (int n = 0; n < 2000; ++n)
                all.push_back(plenty.acquire());
            std::thread([&] { all.clear(); }).join();
            return test::is_valid(scarce) && test::is_valid(plenty) ? 0 : 3;
        };
        ASSERT_EQ(test::in_child(use_in_child), 0) << "round " << i;
    }
    EXPECT_TRUE(test::is_valid(scarce));
}

// Plan: a pool of one object, so that the threads that get it run one after the other and can record their order. Threads
// begin to wait one by one, in a known order; then releases, timeouts and stops race. The threads that got the object must
// have got it in the order of the queue, every thread must end, and afterwards the object must be idle.

// Sometimes on_release throws: the object is destroyed, and the first waiter builds another.
struct fragile {
    bool is_broken = false;
};
struct breaks {
    void on_release(fragile& f) const {
        if (f.is_broken) throw std::runtime_error("broken");
    }
};
using fragile_pool = pooled::object_pool<fragile, breaks>;

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
    fragile_pool pool({.max_objects = 1});
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
