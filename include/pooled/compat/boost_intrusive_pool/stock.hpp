// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where the items of a memorypool are while they are free. All of them stay constructed.
//
//   item_arena   a block of memory with slots for items, which the pool constructs a step at a time
//
//     | header | item | item | item | item | raw  | raw  |       0 <= handed <= made <= slots
//                              ▲ handed      ▲ made              handed … made-1: fresh, never taken by anyone
//
//   item_chain   idle items linked through themselves, last in first out
//   item_cache   what one thread keeps of one pool: two chains and a run of fresh items
//   item_stock   what no thread keeps: one chain, and the arenas that have fresh items
//
// An idle item is one line of cache, the one with its count and its link; a fresh one is not read at all, so a thread
// that takes item after item waits for no cache miss.
// Nothing here locks: core.hpp says who may do what. All O(1) unless said.

#include "pooled/base/atomics.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/cache/gate.hpp"
#include "pooled/compat/boost_intrusive_pool/item.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

namespace memorypool::detail {

using pooled::detail::gate;
using pooled::detail::observed;

struct thread_state;

struct item_arena {
    item_core* home;
    std::uint32_t slots;
    std::uint32_t made = 0;
    std::uint32_t handed = 0;
    std::uint32_t holes = 0;              // slots whose item could not be constructed anew
    std::atomic<std::uint32_t> alive{0};  // items still constructed, once it is orphaned
    bool is_orphaned = false;             // its pool has let go of it: items that are returned are destroyed
    item_arena* next = nullptr;           // in its pool
    item_arena* next_fresh = nullptr;     // in the stock

    [[nodiscard]] std::uint32_t fresh() const noexcept { return made - handed; }
};

[[nodiscard]] inline item* item_at(std::byte* where) noexcept {
    return std::launder(reinterpret_cast<item*>(where));
}

class item_chain {
public:
    [[nodiscard]] bool empty() const noexcept { return m_first == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }
    [[nodiscard]] item* first() const noexcept { return m_first; }

    void push(item& it) noexcept {
        item_access::next(it) = m_first;
        if (m_first == nullptr) m_last = &it;
        m_first = &it;
        m_size.add(1);
    }

    // Requires that it is not empty.
    [[nodiscard]] item* pop() noexcept {
        item* const it = m_first;
        m_first = item_access::next(*it);
        m_size.subtract(1);
        return it;
    }

    // In front of what is here; leaves `other` empty.
    void put_all(item_chain& other) noexcept {
        if (other.empty()) return;
        item_access::next(*other.m_last) = m_first;
        if (m_first == nullptr) m_last = other.m_last;
        m_first = other.m_first;
        m_size.add(other.m_size);
        other.m_first = nullptr;
        other.m_size = 0;
    }

    // Up to `count` items, newest first. O(items moved).
    void put_some(item_chain& other, std::size_t count) noexcept {
        for (; count != 0 && !other.empty(); --count)
            push(*other.pop());
    }

    // Calls visit(item) for each; the chain does not change.
    template <class Visit>
    void for_each(Visit&& visit) const {
        std::size_t left = m_size;
        for (item* it = m_first; left != 0; it = item_access::next(*it), --left)
            visit(*it);
    }

private:
    item* m_first = nullptr;
    item* m_last = nullptr;  // of a chain that is not empty
    observed<std::size_t> m_size;
};

// Changed by its owner, inside the gate or under the pool's lock, or by a thread that steals, which holds the lock and has stopped the owner.
struct alignas(pooled::detail::k_cache_line) item_cache {
    static constexpr std::uint32_t k_no_limit = std::numeric_limits<std::uint32_t>::max();

    gate<> door;
    item_chain loaded;
    observed<std::byte*> run;  // the next fresh item
    observed<std::uint32_t> run_left;
    observed<std::uint32_t> limit;  // items in a chain; beyond two chains, items go to the stock
    item_chain spare;               // as many as were in a full chain, or none

    item_core* pool = nullptr;  // which pool it was made for; its owner only
    item_core* home = nullptr;  // the same, null once that is closed: guarded by the registry's lock
    thread_state const* owner = nullptr;
    item_cache* next_owned = nullptr;  // the owner's list: owner only
    item_cache* next = nullptr;        // the pool's list: guarded by its lock
    item_cache* previous = nullptr;

    [[nodiscard]] std::size_t idle() const noexcept { return loaded.size() + spare.size() + run_left; }

    // An item, or null: the last one is left to take(), after which the pool may have to grow.
    [[nodiscard]] POOLED_ALWAYS_INLINE item* take_quickly(std::size_t stride) noexcept {
        if (loaded.size() + run_left <= 1) [[unlikely]]
            return nullptr;
        return loaded.empty() ? take_fresh(stride) : loaded.pop();
    }

    [[nodiscard]] POOLED_ALWAYS_INLINE item* take(std::size_t stride) noexcept {
        if (loaded.empty()) loaded.put_all(spare);
        if (!loaded.empty()) return loaded.pop();
        return run_left != 0 ? take_fresh(stride) : nullptr;
    }

    // Calls visit(item) for each; the cache does not change.
    template <class Visit>
    void for_each(std::size_t stride, Visit&& visit) const {
        loaded.for_each(visit);
        spare.for_each(visit);
        for (std::uint32_t i = 0; i < run_left; ++i)
            visit(*item_at(run + i * stride));
    }

    // False when the chain has reached the limit.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool put_quickly(item& it) noexcept {
        if (loaded.size() >= limit) [[unlikely]]
            return false;
        loaded.push(it);
        return true;
    }

private:
    [[nodiscard]] POOLED_ALWAYS_INLINE item* take_fresh(std::size_t stride) noexcept {
        std::byte* const it = run;
        run = it + stride;
        run_left.subtract(1);
        return item_at(it);
    }
};

class item_stock {
public:
    [[nodiscard]] std::size_t idle() const noexcept { return m_idle.size() + m_fresh; }

    // The newest idle item, or a fresh one, or null. `first` is the distance from an arena's start to its first item.
    [[nodiscard]] item* take(std::size_t first, std::size_t stride) noexcept {
        if (!m_idle.empty()) return m_idle.pop();
        std::uint32_t count = 0;
        std::byte* const it = take_fresh(first, stride, 1, count);
        return it != nullptr ? item_at(it) : nullptr;
    }

    // Requires an empty cache. All there is, if the cache has no limit; else about what it may hold.
    POOLED_ALWAYS_INLINE void refill(item_cache& cache, std::size_t first, std::size_t stride) noexcept {
        if (cache.limit == item_cache::k_no_limit)
            cache.loaded.put_all(m_idle);
        else
            cache.loaded.put_some(m_idle, cache.limit);
        if (!cache.loaded.empty()) return;
        std::uint32_t count = 0;
        cache.run = take_fresh(first, stride, cache.limit, count);
        cache.run_left = count;
    }

    void put(item& it) noexcept { m_idle.push(it); }

    // Requires that the chain of `cache` is full.
    void put(item& it, item_cache& cache) noexcept {
        if (cache.limit == 0) return put(it);
        m_idle.put_all(cache.spare);
        std::swap(cache.spare, cache.loaded);
        cache.loaded.push(it);
    }

    // `count` items were constructed in the arena. Those of the arena that came first are taken first.
    void add_fresh(item_arena& arena, std::uint32_t count) noexcept {
        if (arena.fresh() == 0) {
            arena.next_fresh = nullptr;
            (m_first_fresh != nullptr ? m_last_fresh->next_fresh : m_first_fresh) = &arena;
            m_last_fresh = &arena;
        }
        arena.made += count;
        m_fresh.add(count);
    }

    // Everything out of the cache. O(its run).
    void collect(item_cache& cache, std::size_t stride) noexcept {
        while (cache.run_left != 0) {
            cache.run_left.subtract(1);
            put(*item_at(cache.run + cache.run_left * stride));
        }
        m_idle.put_all(cache.spare);
        m_idle.put_all(cache.loaded);
    }

    // Requires that all caches were collected. Calls visit(item) for each free item; the stock is empty afterwards. O(items).
    template <class Visit>
    void take_each(std::size_t first, std::size_t stride, Visit&& visit) noexcept {
        while (item* const it = take(first, stride))
            visit(*it);
    }

    // Calls visit(item) for each free item; the stock does not change.
    template <class Visit>
    void for_each(std::size_t first, std::size_t stride, Visit&& visit) const {
        m_idle.for_each(visit);
        std::size_t left = m_fresh;
        for (item_arena* arena = m_first_fresh; left != 0; arena = arena->next_fresh) {
            for (std::uint32_t i = arena->handed; i != arena->made; ++i)
                visit(*item_at(reinterpret_cast<std::byte*>(arena) + first + i * stride));
            left -= arena->fresh();
        }
    }

private:
    // Up to `most` neighbours; null when there is none.
    [[nodiscard]] std::byte* take_fresh(std::size_t first, std::size_t stride, std::uint32_t most,
                                        std::uint32_t& count) noexcept {
        item_arena* const arena = m_first_fresh;
        count = arena != nullptr ? std::min(arena->fresh(), most) : 0;
        if (count == 0) return nullptr;
        std::byte* const it = reinterpret_cast<std::byte*>(arena) + first + arena->handed * stride;
        arena->handed += count;
        m_fresh.subtract(count);
        if (arena->fresh() == 0) m_first_fresh = arena->next_fresh;
        return it;
    }

    item_chain m_idle;
    observed<std::size_t> m_fresh;
    item_arena* m_first_fresh = nullptr;
    item_arena* m_last_fresh = nullptr;  // of a list that is not empty
};

}  // namespace memorypool::detail
