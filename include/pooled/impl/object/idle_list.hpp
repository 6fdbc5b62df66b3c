// SPDX-License-Identifier: BSL-1.0
#pragma once

// The central list of an object pool's idle objects, and the counts of those that have been acquired at least once. Threads
// use it when their own cache is empty or full.
//
//   thread_cache::recycled ◀─ refill: half an array ─── idle_list ──pop──▶ caller
//                          ─── flush: the older half ─▶          ◀─push──
//
// Invariants: capacity = outside + size        outside: in a thread's cache, or with a caller
//             in use = outside − Σ held of the caches
// Requires the stock's lock, and that the owner of the cache passed to a function is the caller or is kept out. Last in, first
// out. O(1), but for a refill, a flush and collect(): O(objects moved).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/class_cache.hpp"
#include "pooled/detail/slot.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class idle_list {
public:
    static constexpr std::uint32_t k_max_cached = 128;

    // `cache_capacity`, of the array in a thread's cache: from 2 to k_max_cached.
    explicit idle_list(std::uint32_t cache_capacity) noexcept : m_cache_capacity(cache_capacity) {
        POOLED_ASSERT(detail::clamp<std::uint32_t>(cache_capacity, 2, k_max_cached) == cache_capacity,
                      "pooled: object_pool: a thread's cache holds 2 to 128 objects");
    }

    [[nodiscard]] std::size_t size() const noexcept { return m_idle.size(); }
    [[nodiscard]] std::size_t outside() const noexcept { return m_outside; }
    [[nodiscard]] std::size_t capacity() const noexcept { return m_outside + m_idle.size(); }
    // The largest capacity so far. An object is added only when no other is idle, so it is the most in use at once.
    [[nodiscard]] std::size_t high_water() const noexcept { return m_high_water; }

    // An idle object; null when the list has none.
    [[nodiscard]] slot* pop() noexcept {
        slot* const s = m_idle.pop();
        if (s != nullptr) ++m_outside;
        return s;
    }
    void push(slot& s) noexcept {
        m_idle.push(s);
        --m_outside;
    }

    // The same, for the thread that has `cache`, which is refilled if it is empty.
    [[nodiscard]] slot* pop(class_cache& cache) noexcept {
        if (void* const cached = cache.pop()) return static_cast<slot*>(cached);
        slot* const s = pop();
        if (s != nullptr && m_cache_capacity > 2 && !m_idle.empty()) refill(cache);
        return s;
    }

    // The same, for the thread that has `cache`, whose older half is flushed if it is full.
    void push(slot& s, class_cache& cache) noexcept {
        if (cache.push(&s)) return;
        if (cache.capacity() == 0) {
            if (!cache.reserve(m_cache_capacity)) return push(s);
        } else {
            flush(cache, m_cache_capacity / 2);
        }
        static_cast<void>(cache.push(&s));
    }

    // Takes everything out of a cache.
    void collect(class_cache& cache) noexcept {
        flush(cache, m_cache_capacity);
        if (void* const hot = cache.pop_hot()) push(*static_cast<slot*>(hot));
    }

    // The same for a cache that is not used any more: it keeps no memory.
    void retire(class_cache& cache) noexcept {
        collect(cache);
        cache.release();
    }

    // Counts one more, or one less, object of the caller.
    void add_outside() noexcept {
        ++m_outside;
        m_high_water = detail::larger(m_high_water, capacity());
    }
    void remove_outside() noexcept { --m_outside; }

    // Walks the list: for tests.
    [[nodiscard]] bool is_valid() const noexcept { return m_idle.is_valid() && capacity() <= m_high_water; }

private:
    void flush(class_cache& cache, std::uint32_t n) noexcept {
        for (void* const one : cache.oldest(n))
            push(*static_cast<slot*>(one));
        static_cast<void>(cache.drop_oldest(static_cast<std::uint32_t>(cache.oldest(n).size())));
    }

    // The object at the list's front is then also the first to leave the cache.
    void refill(class_cache& cache) noexcept {
        if (cache.capacity() == 0 && !cache.reserve(m_cache_capacity)) return;
        std::array<slot*, k_max_cached / 2> taken;
        std::uint32_t count = 0;
        while (count + 1 < m_cache_capacity / 2 && (taken[count] = pop()) != nullptr)
            ++count;
        while (count != 0)
            static_cast<void>(cache.push(taken[--count]));
    }

    slot_chain m_idle;
    std::size_t m_outside = 0;
    std::size_t m_high_water = 0;
    std::uint32_t m_cache_capacity;
};

// The capacity of the array in a thread's cache. A small part of a bounded pool's objects, so that threads seldom enter central
// mode for objects that others have cached.
[[nodiscard]] constexpr std::uint32_t cache_capacity_of(std::size_t bound) noexcept {
    constexpr std::size_t k_share = 16;
    return static_cast<std::uint32_t>(
        detail::clamp<std::size_t>(bound / k_share, 2, idle_list::k_max_cached));
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
