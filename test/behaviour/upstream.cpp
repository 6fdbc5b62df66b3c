// SPDX-License-Identifier: BSL-1.0
// Upstreams of every kind: another pool, one that uses the pool that calls it, one that is slow; and that "exhausted" is
// never reported while memory comes or goes.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/in_child.hpp"
#include "support/internals.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <thread>
#include <utility>

namespace {

constexpr std::size_t k_kib = std::size_t{1} << 10;
constexpr std::size_t k_mib = std::size_t{1} << 20;

TEST(upstream_that_uses_its_own_pool, finds_no_lock_held) {
    test::counting_upstream memory;
    pooled::pool* self = nullptr;
    int depth = 0;
    auto const use = [&](std::size_t) {
        if (self == nullptr || depth > 0) return;
        ++depth;
        for (std::size_t const bytes : {std::size_t{48}, std::size_t{1500}, std::size_t{50'000}})
            if (void* const p = self->try_allocate(bytes)) self->deallocate(p, bytes);
        static_cast<void>(self->stats());
        EXPECT_TRUE(test::is_valid(*self));
        --depth;
    };
    test::hooked_upstream upstream(memory, use, use);
    for (std::size_t const max : {std::size_t{0}, 4 * k_mib}) {
        pooled::pool pool{{.max_bytes = max, .chunk_bytes = 64 * k_kib, .upstream = &upstream}};
        self = &pool;
        test::held_blocks blocks(pool, 1024);
        blocks.take(2000);
        pool.reserve_bytes(500, 200);
        blocks.give_back();
        pool.deallocate(pool.allocate(500 * k_kib), 500 * k_kib);
        pool.trim();
        EXPECT_TRUE(test::is_valid(pool));
        self = nullptr;
    }
    EXPECT_EQ(memory.bytes(), 0U);
}

// With a bound of two chunks, while the second of them returns.
TEST(upstream_that_uses_its_own_pool, has_the_bound_of_what_a_trim_returned_before) {
    test::counting_upstream memory;
    pooled::pool* trimmed = nullptr;
    std::size_t returned = 0;
    bool is_served = false;
    auto const use = [&](std::size_t) {
        if (trimmed == nullptr || ++returned != 2) return;
        pooled::pool& pool = *std::exchange(trimmed, nullptr);
        void* const p = pool.try_allocate(1024);
        is_served = p != nullptr;
        if (is_served) pool.deallocate(p, 1024);
    };
    test::hooked_upstream upstream(memory, use, use);
    pooled::pool pool{{.max_bytes = 2 * k_mib, .chunk_bytes = k_mib, .upstream = &upstream}};
    test::held_blocks(pool, 1024).take_all();
    trimmed = &pool;
    pool.trim();
    EXPECT_EQ(returned, 2U);
    EXPECT_TRUE(is_served);
}

// Against its contract: it returns null instead of throwing.
class null_upstream : public std::pmr::memory_resource {
    void* do_allocate(std::size_t, std::size_t) override { return nullptr; }
    void do_deallocate(void*, std::size_t, std::size_t) override { ADD_FAILURE(); }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
};

TEST(upstream_that_returns_null, has_no_memory) {
    // libstdc++ declares allocate() as never null, which the sanitizer of undefined behaviour reports.
    if (test::k_sanitized) GTEST_SKIP();
    null_upstream upstream;
    for (std::size_t const max : {std::size_t{0}, k_mib}) {
        pooled::pool pool{{.max_bytes = max, .upstream = &upstream}};
        for (std::size_t const bytes : {std::size_t{48}, 100 * k_kib}) {
            EXPECT_EQ(pool.try_allocate(bytes), nullptr);
            EXPECT_THROW(static_cast<void>(pool.resource()->allocate(bytes)), std::bad_alloc);
            try {
                static_cast<void>(pool.allocate(bytes));
                ADD_FAILURE();
            } catch (pooled::exhausted const& e) {
                ADD_FAILURE() << "it is not at its bound: " << e.what();
            } catch (std::bad_alloc const&) {}
        }
        EXPECT_THROW(pool.reserve<long>(100), std::bad_alloc);
        EXPECT_EQ(pool.stats().upstream_bytes, 0U);
        EXPECT_TRUE(test::is_valid(pool));
        EXPECT_THROW(static_cast<void>(pooled::object_pool<long>({.upstream = &upstream}).acquire()),
                     std::bad_alloc);
    }
}

constexpr auto k_moment = std::chrono::microseconds(20);

// Two threads that need one slab each of a pool that has two: there is always one that is free, cached, or on its way.
void expect_no_refusal(std::size_t max_bytes, std::size_t bytes_a, std::size_t bytes_b) {
    test::counting_upstream memory;
    auto const wait = [](std::size_t) { std::this_thread::sleep_for(k_moment); };
    test::hooked_upstream upstream(memory, wait, wait);
    pooled::pool pool{{.max_bytes = max_bytes, .chunk_bytes = 16 * k_kib, .upstream = &upstream}};
    std::atomic<std::size_t> refused{0};
    auto const use = [&](std::size_t bytes) {
        for (int i = 0; i < (test::k_sanitized || POOLED_CHECKED != 0 ? 300 : 2000); ++i) {
            void* const p = pool.try_allocate(bytes);
            if (p == nullptr)
                ++refused;
            else
                pool.deallocate(p, bytes);
            if (i % 2 == 0) pool.trim();
        }
    };
    std::thread a(use, bytes_a);
    std::thread b(use, bytes_b);
    a.join();
    b.join();
    EXPECT_EQ(refused, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(slow_upstream, is_waited_for_before_a_pool_is_called_exhausted) {
    expect_no_refusal(32 * k_kib, 8'000, 5'000);
}

TEST(slow_upstream, is_waited_for_before_a_large_block_is_refused) {
    // One size: a shorter block could lie in the middle of the only span that is long enough for the other.
    expect_no_refusal(2 * k_mib, k_mib, k_mib - 1);
}

// One of its calls, made when is_slow was set, takes 50 ms.
struct once_slow {
    void wait() {
        if (!is_slow.exchange(false)) return;
        is_inside = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    test::counting_upstream books;
    std::atomic<bool> is_slow{false};
    std::atomic<bool> is_inside{false};
    test::hooked_upstream upstream{books, [this](std::size_t) { wait(); }, [this](std::size_t) { wait(); }};
};

// All memory of a bounded pool is on its way back to upstream.
TEST(slow_upstream, is_waited_for_when_another_thread_trims) {
    for (std::size_t const bytes : {5'000 * std::size_t{1}, 25 * k_kib}) {
        once_slow memory;
        pooled::pool pool{{.max_bytes = 48 * k_kib, .chunk_bytes = 48 * k_kib, .upstream = &memory.upstream}};
        pool.deallocate(pool.allocate(10'000), 10'000);
        pool.deallocate(pool.try_allocate(47 * k_kib),
                        47 * k_kib);  // all of it as one large block, which is kept
        ASSERT_EQ(memory.books.bytes(), 48 * k_kib);
        memory.is_slow = true;
        std::thread other([&] { pool.trim(); });
        while (!memory.is_inside) {}
        void* const p = pool.try_allocate(bytes);
        EXPECT_NE(p, nullptr) << bytes;
        void* const large = pool.try_allocate(40 * k_kib);
        EXPECT_EQ(large, nullptr);
        pool.deallocate(p, bytes);
        other.join();
    }
}

// The last block of a pool is one of no class, and memory is on its way to upstream while another thread destroys the pool.
TEST(large_block, may_be_the_last_of_a_pool_that_another_thread_destroys) {
    once_slow memory;
    auto pool = std::make_unique<pooled::pool>(pooled::pool_options{.upstream = &memory.upstream});
    pool->deallocate(pool->allocate(63 * k_mib), 63 * k_mib);  // kept until more is free
    auto large = pool->make_shared_for_overwrite<char[]>(80 * k_mib);
    memory.is_slow = true;
    std::thread other([&] { large.reset(); });
    while (!memory.is_inside) {}
    pool.reset();
    pooled::pool const next{{.upstream = &memory.books}};  // where the other was, if that is gone too early
    other.join();
    EXPECT_EQ(next.stats().upstream_bytes, 0U);
    EXPECT_EQ(memory.books.bytes(), 0U);
}

TEST(fork, while_threads_are_inside_an_upstream_call_leaves_the_child_a_pool_that_works) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive a fork";
    std::atomic<bool> is_inside{false};
    std::atomic<bool> is_slow{false};
    auto const wait = [&](std::size_t) {
        is_inside = is_slow.load();
        while (is_slow)
            std::this_thread::yield();
    };
    test::hooked_upstream upstream(*std::pmr::new_delete_resource(), wait, wait);
    pooled::pool pool{{.max_bytes = 8 * k_mib, .chunk_bytes = k_mib, .upstream = &upstream}};
    void* const mine = pool.allocate(48);
    is_slow = true;
    std::thread caller([&] { pool.deallocate(pool.allocate(2 * k_mib), 2 * k_mib); });
    while (!is_inside)
        std::this_thread::yield();
    auto const use = [&] {
        is_slow = false;
        pool.deallocate(mine, 48);
        return pool.stats().upstream_bytes <= 2 * k_mib &&
               test::held_blocks(pool, 1024).take_all() >= 6 * k_kib && test::is_valid(pool);
    };
    EXPECT_EQ(test::in_child(use), 0);
    is_slow = false;
    caller.join();
    pool.deallocate(mine, 48);
    EXPECT_TRUE(test::is_valid(pool));
}

#if !defined(_WIN32)
TEST(fork, within_an_upstream_call_leaves_the_child_a_bound) {
    auto const use = [] {
        pooled::pool* self = nullptr;
        auto const fork_once = [&self](std::size_t) {
            pooled::pool* const within = std::exchange(self, nullptr);
            if (within == nullptr) return;
            if (pid_t const child = ::fork(); child != 0) ::_exit(test::status_of(child));
            while (within->try_allocate(1500) != nullptr) {}
        };
        test::hooked_upstream upstream(*std::pmr::new_delete_resource(), fork_once);
        pooled::pool pool{{.max_bytes = 4 * k_mib, .chunk_bytes = 64 * k_kib, .upstream = &upstream}};
        self = &pool;
        static_cast<void>(pool.try_allocate(k_mib));
        auto const bytes = [&] { return pool.stats().upstream_bytes; };
        while (bytes() < 8 * k_mib && pool.try_allocate(1500) != nullptr) {}
        return bytes() <= 5 * k_mib;
    };
    EXPECT_EQ(test::in_child(use), 0);
}
#endif

}  // namespace
