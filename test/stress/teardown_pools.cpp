// SPDX-License-Identifier: BSL-1.0
// Deferred objects and memory pressure: bounded incremental pools used by eight threads, and pools that stand on pools.
// However the threads interleave, no allocation is refused while memory is deferred, and no destructor runs under a lock.
// POOLED_TEST_SECONDS says how long each test runs; 60 is run by hand.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

namespace {

[[nodiscard]] std::chrono::steady_clock::time_point end_of_test() {
    char const* const asked = std::getenv("POOLED_TEST_SECONDS");
    auto const time = asked != nullptr ? std::chrono::seconds(std::atoi(asked)) : std::chrono::seconds(1);
    return std::chrono::steady_clock::now() + time;
}

constexpr std::size_t k_threads = 8;

struct node {
    explicit node(pooled::pool* p = nullptr) noexcept : pool(p) {}
    node(node const&) = delete;
    node& operator=(node const&) = delete;
    // Allocates, as destructors of users may: that needs every lock on the way down.
    ~node() {
        if (pool != nullptr)
            if (void* const p = pool->try_allocate(64)) pool->deallocate(p, 64);
    }
    pooled::pool* pool;
    std::shared_ptr<node> next;
    std::array<char, 16> payload{};
};

// A list, or empty when an allocation was refused.
std::shared_ptr<node> try_list(pooled::pool& pool, std::size_t length, pooled::pool* allocates) {
    std::shared_ptr<node> head;
    for (std::size_t i = 0; i < length; ++i) {
        auto front = pool.try_make_shared<node>(allocates);
        if (front == nullptr) return nullptr;
        front->next = std::move(head);
        head = std::move(front);
    }
    return head;
}

TEST(a_bounded_incremental_pool, refuses_nothing_when_destructors_allocate) {
    pooled::pool pool{{.max_bytes = 512 << 10, .teardown = pooled::teardown::incremental}};
    std::atomic<std::size_t> refused{0};
    auto const end = end_of_test();
    stress::on_threads(k_threads, [&](std::size_t me) {
        stress::dice random(me + 1);
        while (std::chrono::steady_clock::now() < end)
            if (try_list(pool, 1 + random.below(100), &pool) == nullptr) ++refused;
    });
    EXPECT_EQ(refused, 0U);
    pool.drain();
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST(pools_on_pools_on_pools, neither_deadlock_nor_refuse) {
    using pooled::teardown;
    for (auto const [lowest, middle, top] :
         {std::array{teardown::incremental, teardown::immediate, teardown::immediate},
          std::array{teardown::immediate, teardown::incremental, teardown::incremental},
          std::array{teardown::incremental, teardown::incremental, teardown::incremental},
          std::array{teardown::unordered, teardown::immediate, teardown::incremental}}) {
        pooled::pool a{{.max_bytes = 16 << 20, .teardown = lowest}};
        pooled::pool b{{.chunk_bytes = 64 << 10, .upstream = a.resource(), .teardown = middle}};
        pooled::pool c{
            {.max_bytes = 4 << 20, .chunk_bytes = 64 << 10, .upstream = b.resource(), .teardown = top}};
        std::array<pooled::pool*, 3> const pools{&a, &b, &c};
        std::atomic<std::size_t> refused{0};
        auto const end = end_of_test();
        stress::on_threads(k_threads, [&](std::size_t me) {
            stress::dice random(me + 1);
            while (std::chrono::steady_clock::now() < end) {
                std::optional<pooled::reclaim_scope> scope;
                if (random.below(3) == 0) scope.emplace();
                for (std::size_t i = random.below(5); i != 0; --i)
                    if (try_list(*pools[random.below(3)], 1 + random.below(60), pools[random.below(3)]) ==
                        nullptr)
                        ++refused;
                // Large ones: upstream is called for each.
                pooled::pool& large = *pools[random.below(3)];
                if (void* const p = large.try_allocate(48 << 10))
                    large.deallocate(p, 48 << 10);
                else
                    ++refused;
                if (random.below(16) == 0) pools[random.below(3)]->drain(random.below(100));
                if (random.below(64) == 0) pools[random.below(3)]->trim();
            }
        });
        EXPECT_EQ(refused, 0U);
        for (pooled::pool* each : pools)
            each->drain();
    }
}

// The deadlock of issue 11: growing the upper pool calls the lower one, exhausted, whose relief destroys what this thread
// gathered: a large object of the upper pool, which needs the upper pool's lock.
TEST(pools_on_pools_on_pools, relieve_the_lower_one_outside_of_the_upper_ones_lock) {
    pooled::pool lower{{.max_bytes = 1 << 20}};
    pooled::pool upper{{.chunk_bytes = 64 << 10, .upstream = lower.resource()}};
    struct large {
        ~large() { bytes[0] = 1; }
        std::array<char, 400 << 10> bytes;
    };
    pooled::reclaim_scope const scope;
    for (int i = 0; i < 20; ++i)
        EXPECT_NE(upper.try_make_shared<large>(), nullptr);
}

// The same with deferred objects of an incremental lower pool.
TEST(pools_on_pools_on_pools, relieve_an_incremental_lower_one) {
    pooled::pool lower{{.max_bytes = 1 << 20, .teardown = pooled::teardown::incremental}};
    pooled::pool upper{{.chunk_bytes = 64 << 10, .upstream = lower.resource()}};
    struct keeps {
        explicit keeps(pooled::pool& p) : memory(p.try_make_unique<std::array<char, 40 << 10>>()) {}
        pooled::unique_ptr<std::array<char, 40 << 10>> memory;
        std::array<char, 30'000> bytes{};
    };
    for (int i = 0; i < 200; ++i) {
        auto const object = lower.try_make_shared<keeps>(upper);
        ASSERT_NE(object, nullptr);
        ASSERT_NE(object->memory, nullptr);
    }
}

}  // namespace
