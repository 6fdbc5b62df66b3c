// SPDX-License-Identifier: BSL-1.0
#pragma once

// The common part of the stress tests: counts that shrink under sanitizers, blocks that contain their owner's mark, and a place
// where threads exchange blocks, so that most blocks are freed by a thread that did not allocate them.

#include "pooled/pooled.hpp"

#include "support/starting_line.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#if defined(__SANITIZE_THREAD__) || defined(POOLED_TEST_SANITIZER_THREAD)
#define POOLED_STRESS_TSAN 1
#else
#define POOLED_STRESS_TSAN 0
#endif
#if POOLED_STRESS_TSAN || defined(__SANITIZE_ADDRESS__) || defined(POOLED_TEST_SANITIZER_ADDRESS)
#define POOLED_STRESS_SANITIZED 1
#else
#define POOLED_STRESS_SANITIZED 0
#endif
#if !POOLED_STRESS_SANITIZED && defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#error "define POOLED_TEST_SANITIZER_THREAD or POOLED_TEST_SANITIZER_ADDRESS, as the presets do"
#endif
#endif

namespace stress {

[[nodiscard]] constexpr std::size_t scaled(std::size_t plain, std::size_t sanitized) noexcept {
    return POOLED_STRESS_SANITIZED ? sanitized : plain;
}

// xorshift64*, Vigna 2014: a few instructions, so that the pool and not the generator is under stress.
class dice {
public:
    explicit dice(std::uint64_t seed) noexcept : m_state(seed * 0x9e3779b97f4a7c15U + 1) {}
    std::uint64_t operator()() noexcept {
        m_state ^= m_state >> 12;
        m_state ^= m_state << 25;
        m_state ^= m_state >> 27;
        return m_state * 0x2545f4914f6cdd1dU;
    }
    std::size_t below(std::size_t n) noexcept { return ((*this)() >> 16) % n; }

private:
    std::uint64_t m_state;
};

// A block and what was written into all of it. If two blocks overlap, or one is allocated twice, a mark is missing:
// marks are unique.
struct block {
    void* p = nullptr;
    std::size_t bytes = 0;
    std::uint64_t mark = 0;

    void write() const noexcept {
        auto* const words = static_cast<std::uint64_t*>(p);
        for (std::size_t i = 0; i < bytes / 8; ++i)
            words[i] = mark ^ (i * 0x9e3779b97f4a7c15U);
    }
    [[nodiscard]] bool is_intact() const noexcept {
        auto const* const words = static_cast<std::uint64_t const*>(p);
        for (std::size_t i = 0; i < bytes / 8; ++i)
            if (words[i] != (mark ^ (i * 0x9e3779b97f4a7c15U))) return false;
        return true;
    }
};

[[nodiscard]] inline std::uint64_t next_mark() noexcept {
    static std::atomic<std::uint64_t> thread_count{0};
    static thread_local std::uint64_t mark = (++thread_count) << 36;
    return ++mark;
}

// Mostly small, some of a few KiB, rarely beyond the largest size class; multiples of 8.
[[nodiscard]] inline std::size_t random_bytes(dice& r) noexcept {
    std::uint64_t const kind = r.below(256);
    if (kind == 0) return 40'000;
    if (kind < 8) return 2048 + 8 * r.below(2048);
    return 16 + 8 * r.below(60);
}

// Empty if the allocation failed.
template <class Pool>
[[nodiscard]] block allocate(Pool& pool, std::size_t bytes) {
    block b{pool.try_allocate(bytes, 8), bytes, next_mark()};
    if (b.p != nullptr) b.write();
    return b;
}

// Damaged blocks that any thread found; expected to be 0.
inline std::atomic<std::size_t> g_damaged{0};

template <class Pool>
void deallocate(Pool& pool, block const& b) noexcept {
    if (b.p == nullptr) return;
    if (!b.is_intact()) ++g_damaged;
    pool.deallocate(b.p, b.bytes, 8);
}

// Threads put blocks in and take others out.
template <class T = block, std::size_t Size = 64>
class exchange {
public:
    [[nodiscard]] T swap(T mine, std::size_t at) {
        std::scoped_lock const lock(m_slots[at % Size].mutex);
        std::swap(mine, m_slots[at % Size].value);
        return mine;
    }
    template <class Function>
    void drain(Function&& function) {
        for (std::size_t i = 0; i < Size; ++i)
            function(swap({}, i));
    }

private:
    struct slot {
        std::mutex mutex;
        T value{};
    };
    std::array<slot, Size> m_slots;
};

// Runs body(index) on `count` threads, which start together, and waits for them.
template <class Function>
void on_threads(std::size_t count, Function&& body) {
    test::starting_line start(count);
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        threads.emplace_back([&body, &start, i] {
            start.arrive_and_wait();
            body(i);
        });
    for (std::thread& t : threads)
        t.join();
}

// A thread that repeats `body` until the scope ends.
class repeatedly {
public:
    template <class Function>
    explicit repeatedly(Function body)
        : m_thread([this, body] {
              m_runs.store(true, std::memory_order_relaxed);
              while (!m_stop.load(std::memory_order_relaxed))
                  body();
          }) {
        // A fork while a process's first thread begins leaves libc++'s guard held in the child, whose own threads wait for it for ever.
        while (!m_runs.load(std::memory_order_relaxed))
            std::this_thread::yield();
    }
    ~repeatedly() {
        m_stop = true;
        m_thread.join();
    }
    repeatedly(repeatedly const&) = delete;
    repeatedly& operator=(repeatedly const&) = delete;

private:
    std::atomic<bool> m_runs{false};
    std::atomic<bool> m_stop{false};
    std::thread m_thread;
};

}  // namespace stress
