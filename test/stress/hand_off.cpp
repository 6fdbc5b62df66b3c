// SPDX-License-Identifier: BSL-1.0

// Plan: one thread makes objects and another drops them, the case in which a cache that returns nothing would grow without limit.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace stress;

struct payload {
    std::array<std::uint64_t, 6> words;
};

constexpr std::size_t k_alive = 100'000;

// One producer, one consumer, k_alive objects on the way.
class ring {
public:
    ring() : m_slots(k_alive) {}
    void push(std::shared_ptr<payload> p) {
        std::size_t const tail = m_tail.load(std::memory_order_relaxed);
        while (tail - m_head.load(std::memory_order_acquire) == k_alive)
            std::this_thread::yield();
        m_slots[tail % k_alive] = std::move(p);
        m_tail.store(tail + 1, std::memory_order_release);
    }
    std::shared_ptr<payload> pop() {
        std::size_t const head = m_head.load(std::memory_order_relaxed);
        while (head == m_tail.load(std::memory_order_acquire))
            std::this_thread::yield();
        std::shared_ptr<payload> p = std::move(m_slots[head % k_alive]);
        m_head.store(head + 1, std::memory_order_release);
        return p;
    }

private:
    std::vector<std::shared_ptr<payload>> m_slots;
    alignas(64) std::atomic<std::size_t> m_head{0};
    alignas(64) std::atomic<std::size_t> m_tail{0};
};

// In /proc/self/status, not in statm: that counts pages, of another size than the program's under emulation.
[[nodiscard]] std::size_t resident_bytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    std::size_t kib = 0;
    while (status >> word)
        if (word == "VmRSS:") status >> kib;
    return kib << 10;
}

template <class Make>
void hand_off(std::size_t count, Make const& make) {
    ring r;
    std::thread consumer([&] {
        for (std::size_t i = 0; i < count; ++i) {
            auto const p = r.pop();
            if (p->words[0] != i) ++g_damaged;
        }
    });
    for (std::size_t i = 0; i < count; ++i) {
        auto p = make();
        p->words.fill(i);
        r.push(std::move(p));
    }
    consumer.join();
    EXPECT_EQ(g_damaged.exchange(0), 0U);
}

TEST(hand_off_stress, memory_does_not_grow_with_what_passes_from_thread_to_thread) {
    pooled::pool pool{{.name = "hand-off"}};
    std::size_t const before = resident_bytes();
    hand_off(scaled(20'000'000, 600'000), [&] { return pool.make_shared<payload>(); });
    std::size_t const after = resident_bytes();
    if (!POOLED_STRESS_SANITIZED) {
        EXPECT_LT(after - std::min(after, before), std::size_t{24} << 20);
    }
    pooled::pool_stats const s = pool.stats();
    EXPECT_EQ(s.in_use, 0U);
    EXPECT_LT(s.upstream_bytes, std::size_t{24} << 20) << "more than the objects alive and a few caches";
    EXPECT_TRUE(test::is_valid(pool));
}

}  // namespace
