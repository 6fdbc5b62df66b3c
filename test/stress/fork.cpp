// SPDX-License-Identifier: BSL-1.0

// Plan: the process forks again and again while threads allocate, free, steal and end. Each child must find every pool
// usable: it checks and frees what it inherited, allocates, starts threads, trims, and exits. One that hangs is killed by
// its alarm, one that finds damage exits with its own status.
// Not under ThreadSanitizer, which does not support threads in a child of a process with threads.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace {

using namespace stress;

enum status { k_fine, k_inherited_damaged, k_new_damaged, k_is_invalid, k_exhausted, k_hangs, k_torn };

// Blocks in number of what a child may find in caches and central free lists, so that each is handed out once at least.
template <class Pool>
int use(Pool& pool, std::size_t count) {
    int worst = k_fine;
    dice r(1);
    std::vector<block> mine;
    for (std::size_t i = 0; i < count; ++i)
        mine.push_back(allocate(pool, 16 + 8 * r.below(16)));
    for (block const& b : mine) {
        if (b.p == nullptr)
            worst = k_exhausted;
        else if (!b.is_intact())
            worst = k_new_damaged;
        deallocate(pool, b);
    }
    return worst;
}

// All the blocks of 1 KiB that a bounded pool can give; freed again.
[[nodiscard]] std::size_t count_blocks(pooled::pool& bounded) {
    std::vector<block> all;
    for (block b = allocate(bounded, 1024); b.p != nullptr; b = allocate(bounded, 1024))
        all.push_back(b);
    for (block const& b : all)
        deallocate(bounded, b);
    return all.size();
}

class fork_stress : public testing::Test {
protected:
    void SetUp() override {
        if (POOLED_STRESS_TSAN)
            GTEST_SKIP() << "ThreadSanitizer cannot follow a fork of a process with threads";
        // The library's first use is over; see fork_first_use_stress for the other case.
        use(pool, 100);
        use(pooled::default_pool(), 100);
    }
    pooled::pool pool{{.name = "forked", .chunk_bytes = 256U << 10}};
};

TEST_F(fork_stress, a_child_works_on_while_the_parents_threads_were_in_the_middle_of_everything) {
    std::vector<block> inherited;
    for (int i = 0; i < 500; ++i)
        inherited.push_back(allocate(pool, 16 + 8 * static_cast<std::size_t>(i % 16)));
    auto const shared = pooled::make_shared<std::vector<int>>(100, 7);
    {
        std::atomic<bool> stop{false};
        std::vector<std::thread> threads;
        test::starting_line all_run(4);  // before the first fork, as in repeatedly
        for (std::size_t t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
                all_run.arrive_and_wait();
                dice r(t);
                std::vector<block> mine(300);
                std::vector<block> of_default(300);
                while (!stop.load(std::memory_order_relaxed)) {
                    for (int i = 0; i < 100; ++i) {
                        block& b = mine[r.below(mine.size())];
                        deallocate(pool, b);
                        b = allocate(pool, random_bytes(r));
                        block& d = of_default[r.below(of_default.size())];
                        deallocate(pooled::default_pool(), d);
                        d = allocate(pooled::default_pool(), 16 + 8 * r.below(16));
                    }
                    if (t == 0) pool.trim();
                    if (t == 1) std::thread([&] { use(pool, 10); }).join();
                }
                for (block const& b : mine)
                    deallocate(pool, b);
                for (block const& b : of_default)
                    deallocate(pooled::default_pool(), b);
            });
        all_run.arrive_and_wait();
        std::size_t const forks = scaled(400, 60);
        for (std::size_t i = 0; i < forks; ++i) {
            int const status = test::in_child([&] {
                for (block const& b : inherited)
                    if (!b.is_intact()) return k_inherited_damaged;
                if (int const bad = use(pool, 3000)) return static_cast<enum status>(bad);
                if (int const bad = use(pooled::default_pool(), 3000)) return static_cast<enum status>(bad);
                for (block const& b : inherited) {
                    if (!b.is_intact()) return k_inherited_damaged;
                    deallocate(pool, b);
                }
                std::atomic<int> worst{k_fine};
                on_threads(2, [&](std::size_t) {
                    if (int const bad = use(pool, 300)) worst = bad;
                });
                if (worst != k_fine) return static_cast<enum status>(worst.load());
                pool.trim();
                pooled::default_pool().trim();
                if (!test::is_valid(pool) || !test::is_valid(pooled::default_pool())) return k_is_invalid;
                return g_damaged == 0 ? k_fine : k_new_damaged;
            });
            EXPECT_EQ(status, k_fine) << "child " << i;
            if (HasFailure()) break;
        }
        stop = true;
        for (std::thread& t : threads)
            t.join();
    }
    EXPECT_EQ(shared->size(), 100U);
    for (block const& b : inherited)
        deallocate(pool, b);
    EXPECT_EQ(g_damaged, 0U);
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST_F(fork_stress, a_child_has_the_blocks_that_the_parents_threads_had_cached) {
    pooled::pool bounded{{.name = "bounded", .max_bytes = 256U << 10}};
    std::size_t const capacity = count_blocks(bounded);
    std::latch asleep(4);
    std::latch done(1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            std::vector<block> mine;
            for (int i = 0; i < 60; ++i)
                mine.push_back(allocate(bounded, 1024));
            for (block const& b : mine)
                deallocate(bounded, b);
            asleep.arrive_and_wait();
            done.wait();
        });
    asleep.arrive_and_wait();
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(test::in_child([&] { return count_blocks(bounded) == capacity ? k_fine : k_exhausted; }),
                  k_fine);
    done.count_down();
    for (std::thread& t : threads)
        t.join();
}

// The records of drops that are under way lie on the stacks of threads that the child does not have.
TEST_F(fork_stress, a_child_drops_on_stacks_where_the_parents_threads_were_in_the_midst_of_a_drop) {
    struct waits {
        explicit waits(std::atomic<int>& inside, std::atomic<bool>& go) : m_inside(inside), m_go(go) {}
        ~waits() {
            m_inside.fetch_add(1);
            while (!m_go.load())
                std::this_thread::yield();
        }
        std::atomic<int>& m_inside;
        std::atomic<bool>& m_go;
    };
    constexpr int k_threads = 8;
    std::atomic<int> inside{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < k_threads; ++i)
        threads.emplace_back([&] { pooled::make_shared<waits>(inside, go).reset(); });
    while (inside.load() != k_threads)
        std::this_thread::yield();
    EXPECT_EQ(test::in_child([&] {
                  std::vector<std::thread> others;
                  for (int i = 0; i < 3 * k_threads; ++i)
                      others.emplace_back([] { pooled::make_shared<std::vector<int>>(1000).reset(); });
                  for (std::thread& one : others)
                      one.join();
                  return k_fine;
              }),
              k_fine);
    go = true;
    for (std::thread& one : threads)
        one.join();
}

TEST_F(fork_stress, a_child_of_a_child_works_as_well) {
    auto const kept = pool.make_shared<int>(7);
    repeatedly const traffic([&] { use(pool, 100); });
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(test::in_child([&] {
                      if (use(pool, 500) != k_fine) return int{k_new_damaged};
                      return test::in_child(
                          [&] { return *kept == 7 ? use(pool, 500) : int{k_inherited_damaged}; });
                  }),
                  k_fine);
}

// Half done, a cache would be torn: fork copies the pages of a process that runs on one by one.
TEST_F(fork_stress, a_fork_finds_every_thread_outside_its_cache_and_lets_it_in_again) {
    pooled::pool bounded{{.name = "bounded", .max_bytes = 256U << 10}};
    std::size_t const capacity = count_blocks(bounded);
    std::atomic<bool> stop{false};
    std::atomic<bool> is_inside{false};
    std::atomic<std::size_t> entered{0};
    std::thread owner([&] {
        std::vector<block> mine;
        for (int i = 0; i < 60; ++i)
            mine.push_back(allocate(bounded, 1024));
        for (block const& b : mine)
            deallocate(bounded, b);
        // Nearly always in the middle of an operation, as a preempted thread is.
        auto& gate = pooled::detail::t_state().find(test::core_of(bounded).id())->gate;
        while (!stop) {
            if (!gate.enter()) {
                deallocate(
                    bounded,
                    allocate(bounded, 1024));  // what keeps the owner out for longer, it resumes itself
                continue;
            }
            is_inside = true;
            ++entered;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            is_inside = false;
            gate.leave();
        }
    });
    for (int i = 0; i < 20; ++i) {
        std::size_t const before = entered;
        auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (entered == before && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
        EXPECT_NE(entered, before) << "a thread is still kept out after the fork";
        EXPECT_EQ(test::in_child([&] {
                      if (is_inside) return k_torn;
                      return count_blocks(bounded) == capacity ? k_fine : k_exhausted;
                  }),
                  k_fine);
        if (HasFailure()) break;
    }
    stop = true;
    owner.join();
}

// An owner inside the gate of its deferred objects gets and frees memory for them there, which takes a lock.
TEST_F(fork_stress, threads_defer_and_destroy_thousands_of_objects_meanwhile) {
    struct owner {
        std::shared_ptr<int> value;
    };
    pooled::pool later{{.name = "later", .teardown = pooled::teardown::incremental}};
    repeatedly const traffic([&] {
        std::vector<pooled::unique_ptr<owner>> all(3000);
        for (auto& one : all)
            one = later.make_unique<owner>();
        all.clear();
        later.drain();
    });
    for (std::size_t i = 0; i < scaled(300, 50); ++i)
        ASSERT_EQ(test::in_child([&] {
                      later.drain();
                      return test::is_valid(later) ? use(later, 20) : int{k_is_invalid};
                  }),
                  k_fine)
            << "child " << i;
}

TEST_F(fork_stress, a_pool_may_be_another_pools_upstream) {
    pooled::pool below{{.name = "below"}};
    pooled::pool above{{.name = "above", .chunk_bytes = 64U << 10, .upstream = below.resource()}};
    repeatedly const traffic([&] {
        deallocate(above, allocate(above, 32'000));
        above.trim();
    });
    for (std::size_t i = 0; i < scaled(300, 50); ++i)
        ASSERT_EQ(test::in_child([&] { return use(above, 20) != k_fine ? use(above, 20) : use(below, 20); }),
                  k_fine)
            << "child " << i;
}

TEST_F(fork_stress, two_threads_fork_at_once) {
    std::atomic<int> worst{k_fine};
    on_threads(3, [&](std::size_t) {
        for (std::size_t i = 0; i < scaled(60, 15); ++i)
            if (int const bad = test::in_child([&] { return use(pool, 300); })) worst = bad;
    });
    EXPECT_EQ(worst, k_fine);
}

// What the first use of the library sets up must be whole in a child, too, or not begun. Each round is a process of its
// own, in which nothing has used the default pool, or has had a cache, before.
TEST(fork_first_use_stress, a_child_does_not_inherit_a_first_use_that_never_ends) {
    if (POOLED_STRESS_TSAN) GTEST_SKIP() << "ThreadSanitizer cannot follow a fork of a process with threads";
    for (int round = 0; round < 30; ++round)
        ASSERT_EQ(test::in_child([&] {
                      { pooled::pool const arms_the_handlers; }
                      std::atomic<bool> is_ready{false};
                      std::thread other([&] {
                          is_ready = true;
                          use(pooled::default_pool(), 10);
                      });
                      while (!is_ready) {}
                      auto const end =
                          std::chrono::steady_clock::now() + std::chrono::microseconds(round * 10);
                      while (std::chrono::steady_clock::now() < end) {}
                      int const status = test::in_child([] { return use(pooled::default_pool(), 10); }, 5);
                      other.join();
                      return status == k_fine ? k_fine : k_hangs;
                  }),
                  k_fine)
            << "round " << round;
}

}  // namespace
