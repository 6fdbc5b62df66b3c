// SPDX-License-Identifier: BSL-1.0
// E17: at the bound, and beside idle threads.
//
// replace      --step threads replace each other's blocks of 200 bytes in 8,192 slots; 1 MiB is allowed, which is less
//              than all slots take. An operation allocates a block and exchanges it with that of a random slot, which it
//              frees; when no block is left, it empties the slot, as a pipeline drops a packet, and does not count
// failing      a request that fails, since 1 MiB is in use, beside --step idle threads that have used the pool
// fresh_large  blocks of 100,000 bytes that are kept, beside --step idle threads that have used the pool; not bounded
//
// What a contender offers here:
//     explicit C(std::size_t most_bytes);             0: not bounded
//     void* try_allocate(std::size_t bytes);          null when the bound is reached
//     void deallocate(void* block, std::size_t bytes);
#pragma once

#include "support/measure.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"
#include "support/tick_counter.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace bench::e17_at_bound {

inline constexpr std::size_t k_most_bytes = std::size_t{1} << 20;
inline constexpr std::size_t k_block_bytes = 200;
inline constexpr std::size_t k_slots = 8192;
inline constexpr std::size_t k_large_bytes = 100'000;
inline constexpr std::size_t k_large_blocks = 1000;
inline constexpr double k_seconds = 10;  // of `replace` and, at most, of `failing`
inline constexpr std::uint64_t k_failing_calls = 1'000'000;

// A block is touched: what is only reserved costs nothing.
inline void write_first_byte(void* block) { *static_cast<unsigned char*>(block) = 1; }

// --- replace -------------------------------------------------------------------------------------------------------------

template <class C>
class slots {
public:
    explicit slots(C& from) : m_from(from) {
        for (auto& slot : m_slots)
            slot.store(from.try_allocate(k_block_bytes), std::memory_order_relaxed);
    }
    slots(const slots&) = delete;
    slots& operator=(const slots&) = delete;
    ~slots() {
        for (auto& slot : m_slots)
            put(slot.load(std::memory_order_relaxed));
    }

    // Whether a block was to be had; `ticks`: how long the request took.
    bool replace(random_source& random, std::uint64_t& ticks) {
        auto& slot = m_slots[random.below(k_slots)];
        const std::uint64_t before = ticks_now();
        void* const fresh = m_from.try_allocate(k_block_bytes);
        ticks = ticks_now() - before;
        if (fresh != nullptr) write_first_byte(fresh);
        put(slot.exchange(fresh,
                          std::memory_order_acq_rel));  // pairs with itself: the block's content moves along
        return fresh != nullptr;
    }

private:
    void put(void* block) {
        if (block != nullptr) m_from.deallocate(block, k_block_bytes);
    }

    C& m_from;
    std::array<std::atomic<void*>, k_slots> m_slots{};
};

struct alignas(128) replacements {
    std::uint64_t obtained = 0;
    std::uint64_t failed = 0;
    std::uint64_t worst_ticks = 0;
};

template <class C>
measurement replace(const parameters& p) {
    auto from = std::make_unique<C>(k_most_bytes);
    auto shared = std::make_unique<slots<C>>(*from);
    const double wanted_seconds = k_seconds * p.scale;
    std::vector<replacements> each(p.step);
    std::latch ready(static_cast<std::ptrdiff_t>(p.step) + 1);
    std::atomic<bool> ended{false};
    const auto work = [&](std::size_t t) {
        random_source random(k_seed + t);
        const auto batch = [&](replacements& into) {
            for (int i = 0; i < 16; ++i) {
                std::uint64_t ticks = 0;
                ++(shared->replace(random, ticks) ? into.obtained : into.failed);
                into.worst_ticks = std::max(into.worst_ticks, ticks);
            }
        };
        replacements warm_up;
        for (int i = 0; i < 4; ++i)
            batch(warm_up);
        ready.arrive_and_wait();
        replacements mine;
        do {
            batch(mine);
        } while (!ended.load(std::memory_order_relaxed));
        each[t] = mine;
    };
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < p.step; ++t)
        threads.emplace_back(work, t);
    ready.arrive_and_wait();
    const tick_scale scale;
    const stopwatch watch;
    std::this_thread::sleep_for(std::chrono::duration<double>(wanted_seconds));
    ended.store(true, std::memory_order_relaxed);
    const double seconds = watch.seconds();  // each thread does up to 16 operations more
    for (std::thread& thread : threads)
        thread.join();

    replacements all;
    for (const replacements& one : each) {
        all.obtained += one.obtained;
        all.failed += one.failed;
        all.worst_ticks = std::max(all.worst_ticks, one.worst_ticks);
    }
    if (all.obtained == 0) throw std::runtime_error("no block was obtained");
    const auto obtained = static_cast<double>(all.obtained);
    const double worst_us = static_cast<double>(all.worst_ticks) * scale.ns_per_tick() * 1e-3;
    return {seconds,
            all.obtained,
            {{"million_a_second", obtained / seconds * 1e-6},
             {"failed_share", static_cast<double>(all.failed) / (obtained + static_cast<double>(all.failed))},
             {"call_us_worst", worst_us}}};
}

// --- beside idle threads -------------------------------------------------------------------------------------------------

// Threads that have used `from` once, and then wait until this ends.
class idle_threads {
public:
    template <class C>
    idle_threads(C& from, std::size_t count) : m_not_ready(static_cast<std::ptrdiff_t>(count)) {
        for (std::size_t i = 0; i < count; ++i) {
            m_threads.emplace_back([this, &from] {
                void* const block = from.try_allocate(k_block_bytes);
                if (block != nullptr) from.deallocate(block, k_block_bytes);
                m_not_ready
                    .count_down();  // nothing wakes it before the end: it takes no time from what is measured
                m_end.wait(false);
            });
        }
        m_not_ready.wait();
    }
    idle_threads(const idle_threads&) = delete;
    idle_threads& operator=(const idle_threads&) = delete;
    ~idle_threads() {
        m_end.store(true);
        m_end.notify_all();
        for (std::thread& thread : m_threads)
            thread.join();
    }

private:
    std::latch m_not_ready;
    std::atomic<bool> m_end{false};
    std::vector<std::thread> m_threads;
};

inline std::size_t idle_of(const parameters& p) {
    return is_tiny(p.scale) ? std::min<std::size_t>(p.step, 20) : p.step;
}

template <class C>
measurement failing(const parameters& p) {
    auto from = std::make_unique<C>(k_most_bytes);
    std::vector<void*> blocks;
    measurement found;
    {
        const idle_threads idle(*from, idle_of(p));
        // The last of them fails: the first that does may have to look into every thread's cache.
        while (void* const block = from->try_allocate(k_block_bytes))
            blocks.push_back(block);
        const std::uint64_t calls = scaled(k_failing_calls, p.scale);
        const stopwatch watch;
        do {
            if (from->try_allocate(k_block_bytes) != nullptr)
                throw std::runtime_error("a full pool had a block");
            ++found.ops;
            found.seconds = watch.seconds();
        } while (found.ops < calls && found.seconds < k_seconds * p.scale);
    }
    for (void* const block : blocks)
        from->deallocate(block, k_block_bytes);
    return found;
}

template <class C>
measurement fresh_large(const parameters& p) {
    auto from = std::make_unique<C>(0);
    std::vector<void*> blocks(is_tiny(p.scale) ? 10 : k_large_blocks);
    measurement found;
    {
        const idle_threads idle(*from, idle_of(p));
        const stopwatch watch;
        for (void*& block : blocks) {
            block = from->try_allocate(k_large_bytes);
            if (block == nullptr) throw std::runtime_error("no memory for a large block");
            write_first_byte(block);
        }
        found = {watch.seconds(), blocks.size(), {}};
    }
    for (void* const block : blocks)
        from->deallocate(block, k_large_bytes);
    return found;
}

template <class C>
measurement run(const parameters& p) {
    start_and_join_one_thread();
    if (p.variant == "replace") return replace<C>(p);
    return p.variant == "failing" ? failing<C>(p) : fresh_large<C>(p);
}

}  // namespace bench::e17_at_bound
