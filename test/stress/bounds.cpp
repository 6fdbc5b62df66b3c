// SPDX-License-Identifier: BSL-1.0

// Plan: a bounded pool of one size class with N blocks, and N tokens. A thread holds a token while it allocates, and
// returns it only after the block: so during every allocation at least one block is free somewhere, and "exhausted" is an
// error. Also: an upstream that fails under contention.

#include "pooled/pooled.hpp"

#include "stress/common.hpp"
#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace stress;

class bounds_stress : public testing::Test {
protected:
    ~bounds_stress() override {
        EXPECT_EQ(g_damaged.exchange(0), 0U) << "blocks overlapped, or were handed out twice";
    }

    static constexpr std::size_t k_bound = 256U << 10;

    // Allocates all blocks of `bytes` that the pool has, and frees them.
    [[nodiscard]] std::size_t count_blocks(std::size_t bytes) {
        std::vector<block> all;
        for (block b = allocate(pool, bytes); b.p != nullptr; b = allocate(pool, bytes))
            all.push_back(b);
        for (block const& b : all)
            deallocate(pool, b);
        return all.size();
    }

    bool take_token() {
        int seen = m_tokens.load(std::memory_order_relaxed);
        while (seen > 0)
            if (m_tokens.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire)) return true;
        return false;
    }
    void give_token() { m_tokens.fetch_add(1, std::memory_order_release); }

    // Eight threads that hold as many blocks as they get tokens for, and drop them at random, some on other threads.
    // `maintenance` goes on meanwhile.
    void contend(std::size_t bytes, std::size_t count, std::optional<repeatedly> maintenance = {}) {
        std::size_t const blocks = count_blocks(bytes);
        ASSERT_GT(blocks, 8U);
        m_tokens = static_cast<int>(blocks);
        on_threads(8, [&](std::size_t index) {
            dice r(index);
            std::vector<block> mine;
            auto const drop = [&](block const& b) {
                if (b.p == nullptr) return;
                deallocate(pool, b);
                give_token();
            };
            for (std::size_t i = 0; i < count; ++i) {
                if (r.below(100) < 55 && take_token()) {
                    block const b = allocate(pool, bytes);
                    if (b.p != nullptr)
                        mine.push_back(b);
                    else {
                        ++m_lies;
                        give_token();
                    }
                } else if (!mine.empty()) {
                    std::swap(mine[r.below(mine.size())], mine.back());
                    block const b = mine.back();
                    mine.pop_back();
                    drop(i % 8 == 0 ? m_exchange.swap(b, r.below(64)) : b);
                }
                // Asleep with blocks in its cache.
                if (i % 8192 == 8191) std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
            for (block const& b : mine)
                drop(b);
        });
        maintenance.reset();  // beside a trim() that does not run, cached blocks count as in use
        m_exchange.drain([&](block b) { deallocate(pool, b); });
        EXPECT_EQ(m_lies, 0U) << "\"exhausted\" was said while a block was free";
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_EQ(count_blocks(bytes), blocks) << "blocks were lost";
        EXPECT_LE(upstream.most_bytes(), k_bound);
    }

    test::counting_upstream upstream;
    pooled::pool pool{{.name = "bounded", .max_bytes = k_bound, .upstream = &upstream}};

private:
    std::atomic<int> m_tokens{0};
    std::atomic<std::size_t> m_lies{0};
    exchange<> m_exchange;
};

TEST_F(bounds_stress, a_free_block_is_found_in_whatever_cache_it_lies) {
    contend(1024, scaled(300'000, 20'000));
}

TEST_F(bounds_stress, a_free_block_among_few_is_found) { contend(16'384, scaled(2'000'000, 100'000)); }

TEST_F(bounds_stress, a_free_block_among_thousands_is_found) { contend(64, scaled(300'000, 20'000)); }

TEST_F(bounds_stress, a_free_block_is_found_while_others_trim_and_count) {
    auto const maintain = [&] {
        pool.trim();
        static_cast<void>(pool.stats());
    };
    contend(1024, scaled(100'000, 10'000), std::optional<repeatedly>(std::in_place, maintain));
}

TEST_F(bounds_stress, a_free_block_is_found_while_threads_are_born_and_end) {
    for (int i = 0; i < 20; ++i)
        contend(1024, scaled(3'000, 300));
}

// Dekker's handshake itself, as often as it goes. There are four blocks. One thread takes and frees them without a pause,
// through its gate; the other steals one without a pause, and hands it over, so that it has to steal again. If both take
// the same block, one finds the other's mark.
TEST_F(bounds_stress, an_owner_and_a_stealing_thread_never_take_the_same_block) {
    constexpr std::size_t k_bytes = 4096;
    pooled::pool small{{.name = "small", .max_bytes = 4 * k_bytes}};
    using word = std::atomic<std::uint64_t>;
    auto const take = [&](std::uint64_t mark) {
        auto* const p = static_cast<word*>(small.try_allocate(k_bytes));
        if (p != nullptr) p[100].store(mark, std::memory_order_relaxed);
        return p;
    };
    auto const drop = [&](word* p, std::uint64_t mark) {
        if (p == nullptr) return;
        if (p[100].load(std::memory_order_relaxed) != mark) ++g_damaged;
        small.deallocate(p, k_bytes);
    };

    std::atomic<bool> stop{false};
    std::atomic<word*> handed_over{nullptr};
    std::thread owner([&] {
        while (!stop.load(std::memory_order_relaxed)) {
            for (int i = 0; i < 16; ++i) {
                word* const first = take(1);
                word* const second = take(2);
                drop(first, 1);
                drop(second, 2);
            }
            drop(handed_over.exchange(nullptr, std::memory_order_acquire), 3);
        }
    });
    std::size_t stolen = 0;
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(scaled(1000, 500));
    while (std::chrono::steady_clock::now() < end || stolen == 0) {
        word* const p = take(3);
        if (p == nullptr) continue;
        ++stolen;
        drop(handed_over.exchange(p, std::memory_order_acq_rel), 3);
    }
    stop = true;
    owner.join();
    drop(handed_over, 3);
    EXPECT_EQ(small.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(small));
}

TEST_F(bounds_stress, sizes_take_turns_within_the_bound) {
    // Each round the whole bound is used for another size: memory that no size still needs must be found, too.
    dice r(1);
    std::size_t const rounds = scaled(150, 25);
    for (std::size_t round = 0; round < rounds; ++round) {
        std::size_t const bytes = 64 + 64 * r.below(32);
        std::atomic<std::size_t> got{0};
        std::vector<std::vector<block>> all(4);
        on_threads(4, [&](std::size_t i) {
            for (block b = allocate(pool, bytes); b.p != nullptr; b = allocate(pool, bytes))
                all[i].push_back(b);
            got += all[i].size();
        });
        EXPECT_GE(got * bytes, k_bound * 3 / 4) << "with blocks of " << bytes;
        on_threads(4, [&](std::size_t i) {
            for (block const& b : all[(i + 1) % 4])
                deallocate(pool, b);
        });
    }
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_LE(upstream.most_bytes(), k_bound);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST_F(bounds_stress, large_and_small_blocks_contend_within_the_bound) {
    on_threads(6, [&](std::size_t index) {
        dice r(index);
        std::vector<block> mine(8);
        std::size_t const count = scaled(30'000, 1'500);
        for (std::size_t i = 0; i < count; ++i) {
            block& b = mine[r.below(mine.size())];
            deallocate(pool, b);
            b = allocate(pool, r.below(4) == 0 ? 40'000 : 16 + 8 * r.below(500));
        }
        for (block const& b : mine)
            deallocate(pool, b);
    });
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_EQ(pool.stats().large_bytes, 0U);
    EXPECT_LE(upstream.most_bytes(), k_bound);
    EXPECT_TRUE(test::is_valid(pool));
    pool.trim();
    EXPECT_EQ(upstream.bytes(), 0U);
}

// Each block that a thread has cached is in its cache or in the list until it has ended.
TEST(bounds_stress_of_large_blocks, a_free_block_is_found_while_threads_end_that_cached_some) {
    constexpr std::size_t k_bytes = std::size_t{1} << 20;
    pooled::pool pool{{.max_bytes = std::size_t{24} << 20}};
    test::held_blocks all(pool, k_bytes);
    std::atomic<std::size_t> tokens{all.take_all()};
    all.give_back();
    std::array<std::atomic<void*>, 32> slots{};
    std::atomic<std::size_t> lies{0};
    auto const drop = [&](void* p) {
        if (p == nullptr) return;
        pool.deallocate(p, k_bytes);
        tokens.fetch_add(1, std::memory_order_release);
    };
    // Some only allocate, some only deallocate, so that the pool leaves its bound again and again.
    auto const work = [&](std::size_t index, std::size_t count) {
        dice r(index);
        for (std::size_t i = 0; i < count; ++i) {
            if (index % 3 != 1) {
                std::size_t seen = tokens.load(std::memory_order_relaxed);
                while (seen != 0 &&
                       !tokens.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire)) {}
                void* const p = seen != 0 ? pool.try_allocate(k_bytes) : nullptr;
                if (seen != 0 && p == nullptr) ++lies, ++tokens;
                if (r.below(8) == 0)
                    drop(p);
                else if (p != nullptr)
                    drop(slots[r.below(slots.size())].exchange(p));
            }
            if (index % 3 != 0) drop(slots[r.below(slots.size())].exchange(nullptr));
        }
    };
    on_threads(8, [&](std::size_t index) {
        std::size_t const count = scaled(600, 20);
        for (std::size_t i = 0; i < count; ++i) {
            std::thread([&] { work(index + 31 * i, index % 2 != 0 ? 400 : 20'000); }).join();
            work(index + 31 * i + 1, 3'000);
        }
    });
    for (std::atomic<void*>& slot : slots)
        drop(slot);
    EXPECT_EQ(lies, 0U) << "\"exhausted\" was said while a block was free";
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_EQ(all.take_all(), tokens) << "blocks were lost";
}

TEST_F(bounds_stress, what_a_thread_has_freed_is_there_for_it_whatever_others_ask_for) {
    test::held_blocks all(pool, 200);
    all.take_all();
    std::atomic<bool> has_ended{false};
    std::thread other([&] {
        for (unsigned i = 0; !has_ended; ++i) {
            EXPECT_EQ(pool.try_allocate(i % 2 == 0 ? 4000 : 100'000), nullptr);
            if (i % 64 == 0) static_cast<void>(pool.stats());
            if (i % 256 == 0) static_cast<void>(pool.trim());
        }
    });
    std::size_t failures = 0;
    std::size_t const count = scaled(3'000'000, 30'000);
    for (std::size_t i = 0; i < count && failures == 0; ++i) {
        pool.deallocate(all.back(), 200);
        all.back() = pool.try_allocate(200);
        failures += all.back() == nullptr ? 1 : 0;
    }
    has_ended = true;
    other.join();
    EXPECT_EQ(failures, 0U);
    all.give_back();
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST_F(bounds_stress, an_upstream_that_throws_under_contention_loses_nothing) {
    test::counting_upstream books;
    std::atomic<unsigned> calls{0};
    test::hooked_upstream moody(books, [&](std::size_t) {
        if (++calls % 20 != 0) throw std::bad_alloc();
    });
    pooled::pool moody_pool{{.name = "moody", .chunk_bytes = 64U << 10, .upstream = &moody}};
    exchange<> blocks;
    std::atomic<std::size_t> thrown{0};
    on_threads(6, [&](std::size_t index) {
        dice r(index);
        std::vector<block> mine(128);
        std::size_t const count = scaled(150'000, 6'000);
        for (std::size_t i = 0; i < count; ++i) {
            block& b = mine[r.below(mine.size())];
            deallocate(moody_pool, b);
            std::size_t const bytes = random_bytes(r);
            b = {};
            try {
                b = block{moody_pool.allocate(bytes, 8), bytes, next_mark()};
                b.write();
            } catch (std::bad_alloc const&) {
                ++thrown;
            }
            if (i % 8 == 0) b = blocks.swap(b, r.below(64));
            if (i % 1000 == 0) moody_pool.trim();
        }
        for (block const& b : mine)
            deallocate(moody_pool, b);
    });
    blocks.drain([&](block b) { deallocate(moody_pool, b); });
    EXPECT_GT(thrown, 0U);
    EXPECT_EQ(moody_pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(moody_pool));
    moody_pool.trim();
    EXPECT_EQ(books.bytes(), 0U);
}

}  // namespace
