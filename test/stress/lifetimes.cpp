// SPDX-License-Identifier: BSL-1.0
// Plan: pools are destroyed while other threads hold, drop and observe their objects. The thread that returns the last block
// destroys the core: after each round upstream must have all memory, neither too early (marks) nor never (bytes).

#include "pooled/pooled.hpp"

#include "../../bench/soak/correct.hpp"
#if !defined(_WIN32)  // it forks
#include "../../bench/soak/frees.hpp"
#endif
#include "stress/common.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/starting_line.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

namespace {

using namespace stress;

class lifetimes_stress : public testing::Test {
protected:
    ~lifetimes_stress() override {
        EXPECT_EQ(g_damaged.exchange(0), 0U) << "memory of a destroyed pool was given back too early";
    }
    test::counting_upstream upstream;
};

// Detects in its destructor whether its memory is still its own.
class watched {
public:
    watched() noexcept { m_block().write(); }
    watched(watched const&) = delete;
    watched& operator=(watched const&) = delete;
    ~watched() {
        if (!m_block().is_intact()) ++g_damaged;
    }

private:
    [[nodiscard]] block m_block() noexcept { return {m_words.data(), sizeof(m_words), m_mark}; }
    std::uint64_t m_mark = next_mark();
    std::array<std::uint64_t, 6> m_words;
};

constexpr std::size_t k_workers = 3;

// Each round: workers fill, each from the pool and of what the others made; then they empty while the pool ends.
void in_rounds(std::size_t rounds, std::function<void(std::size_t)> const& fill,
               std::function<void(std::size_t)> const& drop, std::function<void()> const& begin,
               std::function<void()> const& destroy, std::function<void()> const& check) {
#if defined(_WIN32)
    test::starting_line sync(k_workers + 1);
#else
    // It sleeps: on a busy machine, a round would take a slice for each thread that yields.
    std::barrier<> sync(k_workers + 1);
#endif
    std::vector<std::thread> workers;
    for (std::size_t w = 0; w < k_workers; ++w)
        workers.emplace_back([&, w] {
            for (std::size_t i = 0; i < rounds; ++i) {
                sync.arrive_and_wait();
                fill(w);
                sync.arrive_and_wait();
                drop(w);
                sync.arrive_and_wait();
            }
        });
    for (std::size_t i = 0; i < rounds; ++i) {
        begin();
        sync.arrive_and_wait();
        sync.arrive_and_wait();
        destroy();
        sync.arrive_and_wait();
        check();
    }
    for (std::thread& t : workers)
        t.join();
}

TEST_F(lifetimes_stress, a_pool_ends_while_other_threads_drop_what_they_hold) {
    std::optional<pooled::pool> pool;
    std::array<std::vector<std::shared_ptr<watched>>, k_workers> held;
    std::array<std::vector<block>, k_workers> raw;
    std::pmr::memory_resource* resource = nullptr;
    in_rounds(
        scaled(15'000, 1'500),
        [&](std::size_t w) {
            for (std::size_t i = 0; i < 40; ++i)
                held[w].push_back(pool->make_shared<watched>());
            for (std::size_t const bytes : std::initializer_list<std::size_t>{16, 24, 600, 5000, 40'000}) {
                block const b{resource->allocate(bytes, 8), bytes, next_mark()};
                b.write();
                raw[w].push_back(b);
            }
        },
        [&](std::size_t w) {
            // Made by other threads; each worker in an order of its own, so that any kind may be the last to be returned.
            std::vector<block>& others = raw[(w + 2) % k_workers];
            if (w != 0) held[(w + 1) % k_workers].clear();
            for (std::size_t i = 0; i < others.size(); ++i) {
                block const& b = others[(i + 2 * w) % others.size()];
                if (!b.is_intact()) ++g_damaged;
                resource->deallocate(b.p, b.bytes, 8);
            }
            others.clear();
            held[(w + 1) % k_workers].clear();
        },
        [&] {
            pool.emplace(pooled::pool_options{.chunk_bytes = 64U << 10, .upstream = &upstream});
            resource = pool->resource();
        },
        [&] { pool.reset(); },
        [&] {
            EXPECT_EQ(upstream.bytes(), 0U) << "the last block was returned, but its pool is still there";
        });
}

TEST_F(lifetimes_stress, weak_pointers_outlive_their_pool_on_other_threads) {
    std::optional<pooled::pool> pool;
    std::array<std::vector<std::shared_ptr<watched>>, k_workers> held;
    std::array<std::vector<std::weak_ptr<watched>>, k_workers> watching;
    in_rounds(
        scaled(8'000, 1'000),
        [&](std::size_t w) {
            for (std::size_t i = 0; i < 40; ++i) {
                held[w].push_back(pool->make_shared<watched>());
                watching[w].push_back(held[w].back());
            }
        },
        [&](std::size_t w) {
            for (std::weak_ptr<watched>& p : watching[(w + 1) % k_workers]) {
                static_cast<void>(p.lock());
                p.reset();
            }
            watching[(w + 1) % k_workers].clear();
        },
        [&] { pool.emplace(pooled::pool_options{.chunk_bytes = 64U << 10, .upstream = &upstream}); },
        [&] {
            for (auto& of_worker : held)
                of_worker.clear();  // the objects end; their blocks are pinned by the weak pointers
            pool.reset();
        },
        [&] { EXPECT_EQ(upstream.bytes(), 0U); });
}

TEST_F(lifetimes_stress, a_pool_ends_while_threads_that_used_it_end) {
    std::size_t const rounds = scaled(4'000, 800);
    for (std::size_t round = 0; round < rounds; ++round) {
        std::optional<pooled::pool> pool;
        pool.emplace(pooled::pool_options{.chunk_bytes = 64U << 10, .upstream = &upstream});
        exchange<std::shared_ptr<watched>, 8> left;
        test::starting_line filled(3);
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t < 2; ++t)
            threads.emplace_back([&, t] {
                for (std::size_t i = 0; i < 20; ++i)
                    static_cast<void>(left.swap(pool->make_shared<watched>(), t * 3 + i));
                filled.arrive_and_wait();
                // Now and then the thread's end itself is the first to notice.
                if (round % 2 == 0) static_cast<void>(left.swap(nullptr, t));
            });
        filled.arrive_and_wait();
        for (std::size_t i = 0; i < round % 8; ++i)
            std::this_thread::yield();
        pool.reset();
        for (std::thread& t : threads)
            t.join();
        left.drain([](auto const&) {});
        EXPECT_EQ(upstream.bytes(), 0U);
    }
}

TEST_F(lifetimes_stress, thousands_of_pools_come_and_go_while_threads_live_on) {
    // More at once than a thread's near table holds, so that ids beyond it are used again, too.
    constexpr std::size_t k_pools = 48;
    struct entry {
        std::shared_mutex mutex;  // shared: allocate; exclusive: replace
        std::optional<pooled::pool> pool;
    };
    std::array<entry, k_pools> pools;
    auto const renew = [&](entry& e) {
        std::scoped_lock const lock(e.mutex);
        e.pool.reset();
        e.pool.emplace(pooled::pool_options{.chunk_bytes = 16U << 10, .upstream = &upstream});
    };
    for (entry& e : pools)
        renew(e);

    exchange<std::shared_ptr<watched>> shared;
    std::atomic<bool> stop{false};
    std::vector<std::thread> users;
    for (std::size_t u = 0; u < 2; ++u)
        users.emplace_back([&, u] {
            dice r(u);
            std::vector<std::shared_ptr<watched>> mine(32);
            while (!stop.load(std::memory_order_relaxed)) {
                entry& e = pools[r.below(k_pools)];
                std::shared_ptr<watched>& p = mine[r.below(mine.size())];
                p = shared.swap(std::move(p), r.below(64));
                std::shared_lock const lock(e.mutex);
                p = e.pool->make_shared<watched>();
            }
        });
    dice r(99);
    std::size_t const replaced = scaled(8'000, 2'000);
    for (std::size_t i = 0; i < replaced; ++i) {
        renew(pools[r.below(k_pools)]);
        if (i % 16 == 0) std::this_thread::yield();
    }
    stop = true;
    for (std::thread& t : users)
        t.join();
    shared.drain([](auto const&) {});
    for (entry& e : pools) {
        EXPECT_EQ(e.pool->stats().in_use, 0U) << "a block went to another pool that has the id now";
        EXPECT_TRUE(test::is_valid(*e.pool));
        e.pool.reset();
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

// `make soak`'s programs of correct operations and of frees, at a scale for every run of the tests. In the checked build any report
// ends the first.

TEST(soak_stress, what_is_correct_is_neither_reported_nor_damaged_nor_lost) {
    soak::correct_plan const plan{.operations = scaled(2'000'000, 200'000),
                                  .operations_of_life = scaled(50'000, 10'000)};
    soak::correct_result const result = soak::correct(plan).run();
    EXPECT_EQ(result.fault(), std::string());
    EXPECT_GE(result.operations, plan.operations);
    EXPECT_GE(result.lives, plan.workers);
}

#if !defined(_WIN32)
TEST(soak_stress, frees_by_other_threads_lose_nothing_while_threads_end_and_the_process_forks) {
    soak::frees_plan const plan{.frees = scaled(2'000'000, 200'000),
                                .lives = scaled(400, 100),
                                .forks = scaled(100, 0),  // the sanitizers fork with locks of their own
                                .forks_per_trim = 10};
    soak::frees_result const result = soak::frees(plan).run();
    EXPECT_EQ(result.fault(), std::string());
    EXPECT_GE(result.freed, plan.frees);
    EXPECT_GE(result.lives, plan.lives);
    EXPECT_EQ(result.forks, plan.forks);
}
#endif

}  // namespace
