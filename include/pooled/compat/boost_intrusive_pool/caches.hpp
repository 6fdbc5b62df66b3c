// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a memorypool that deals with the threads' caches: what take() and put() do when the cache does not serve,
// steals, threads that come and end, and fork.

#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/gate.hpp"
#include "pooled/compat/boost_intrusive_pool/core.hpp"
#include "pooled/compat/boost_intrusive_pool/stock.hpp"
#include "pooled/compat/boost_intrusive_pool/threads.hpp"
#include "pooled/os/platform.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace memorypool::detail {

namespace platform = pooled::detail::platform;

// As many as a thread caches of blocks of about that size, for the same reasons.
inline constexpr std::uint32_t k_most_in_chain = 64;

// While there are few items for each cache, none are cached at all: the stock's lock is cheaper than a steal.
inline constexpr std::size_t k_least_share = 4;

// Decides who constructs when the pool must grow: the one who took the last item, or who found none; the others wait.
POOLED_NOINLINE inline item* item_core::take_slow() {
    item_cache* const mine = g_item_registry.attach(*this);
    for (;;) {
        item* found = nullptr;
        std::size_t step = 0;
        std::uint32_t epoch = 0;
        bool is_mine_to_grow = false;
        {
            section const all(*this, mine);
            found = find(mine);
            if (found != nullptr && !is_dry(mine)) return found;
            step = next_step();
            is_mine_to_grow = m_grower == nullptr;
            if (step == 0 || m_grower == &t_items || (found != nullptr && !is_mine_to_grow)) return found;
            if (is_mine_to_grow) [[likely]] {
                m_grower = &t_items;
            } else {
                ++m_waiting;
                epoch = m_epoch.load(std::memory_order_relaxed);
            }
        }
        if (!is_mine_to_grow) [[unlikely]] {
            await_growth(epoch);
        } else if (found != nullptr) {
            grow_ahead(step, *found);
            return found;
        } else {
            grow(step, growth::step);
        }
    }
}

// `epoch` was read in the section in which m_waiting was counted up.
POOLED_NOINLINE inline void item_core::await_growth(std::uint32_t epoch) const noexcept {
    m_epoch.wait(epoch, std::memory_order_relaxed);
}

// Own, stock, and then what lies in other threads' caches. There are none of these in a section without m_mutex.
inline item* item_core::find(item_cache* mine) noexcept {
    if (mine != nullptr) {
        if (item* const it = mine->take(m_layout.stride)) return it;
        m_stock.refill(*mine, m_layout.first, m_layout.stride);
        if (item* const it = mine->take(m_layout.stride)) return it;
    }
    item* const it = m_stock.take(m_layout.first, m_layout.stride);
    return it != nullptr || (mine != nullptr && m_sole == mine) ? it : find_in_caches(mine);
}

POOLED_NOINLINE inline item* item_core::find_in_caches(item_cache* mine) noexcept {
    if (idle_in_caches() == 0) return nullptr;
    stop_caches();
    collect_caches();
    resume_caches();
    if (mine != nullptr) m_stock.refill(*mine, m_layout.first, m_layout.stride);
    item* const it = mine != nullptr ? mine->take(m_layout.stride) : nullptr;
    return it != nullptr ? it : m_stock.take(m_layout.first, m_layout.stride);
}

inline bool item_core::is_dry(item_cache const* mine) const noexcept {
    if (m_stock.idle() != 0) return false;
    return mine != nullptr && m_sole == mine ? mine->idle() == 0 : idle_in_caches() == 0;
}

POOLED_NOINLINE inline void item_core::put_slow(item& it, item_arena& arena) noexcept {
    item_cache* const mine = g_item_registry.attach(*this);
    {
        section const all(*this, mine);
        if (!arena.is_orphaned) {
            if (mine == nullptr)
                m_stock.put(it);
            else if (!mine->put_quickly(it))
                m_stock.put(it, *mine);
            return;
        }
    }
    destroy_orphan(it, arena);
}

inline std::size_t item_core::idle_in_caches() const noexcept {
    std::size_t idle = 0;
    for (item_cache const* cache = m_caches; cache != nullptr; cache = cache->next)
        idle += cache->idle();
    return idle;
}

// Without a section: what is counted may move meanwhile.
inline std::size_t item_core::idle() const noexcept {
    std::scoped_lock const lock(m_mutex);
    return std::min<std::size_t>(m_stock.idle() + idle_in_caches(), m_capacity);
}

inline bool item_core::is_exhausted() const noexcept {
    return idle() == 0 && (next_step() == 0 || m_is_short_of_memory);
}

// Somebody else came while there was one cache: it is emptied, so that the newcomer need not steal from it at once.
inline void item_core::end_sole(item_cache const* mine) noexcept {
    item_cache* const sole = m_sole;
    if (sole == nullptr || sole == mine) return;
    sole->door.stop();
    platform::heavy_barrier();
    pooled::detail::wait_until_idle(sole->door);
    m_stock.collect(*sole, m_layout.stride);
    m_sole = nullptr;
    set_limits();
    sole->door.resume();
}

inline void item_core::set_limits() noexcept {
    std::size_t const share = m_capacity / (k_least_share * std::max<std::uint32_t>(m_cache_count, 1));
    auto const limit = static_cast<std::uint32_t>(std::min<std::size_t>(share, k_most_in_chain));
    for (item_cache* cache = m_caches; cache != nullptr; cache = cache->next)
        cache->limit = cache == m_sole ? item_cache::k_no_limit : limit;
}

template <class Visit>
void item_core::for_each_other_gate(Visit&& visit) noexcept {
    for (item_cache* cache = m_caches; cache != nullptr; cache = cache->next)
        if (cache->owner != &t_items) visit(cache->door);
}

inline void item_core::stop_caches() noexcept {
    pooled::detail::stop_all([this](auto&& visit) { for_each_other_gate(visit); }, platform::heavy_barrier,
                             pooled::detail::wait_until_idle);
}

inline void item_core::resume_caches() noexcept {
    for_each_other_gate([](gate<>& door) { door.resume(); });
}

// Requires stopped caches.
inline void item_core::collect_caches() noexcept {
    for (item_cache* cache = m_caches; cache != nullptr; cache = cache->next)
        m_stock.collect(*cache, m_layout.stride);
}

inline void item_core::link(item_cache& cache) noexcept {
    end_sole(&cache);
    cache.home = this;
    cache.next = m_caches;
    if (m_caches != nullptr) m_caches->previous = &cache;
    m_caches = &cache;
    if (++m_cache_count == 1) m_sole = &cache;
    set_limits();
}

inline void item_core::unlink(item_cache& cache) noexcept {
    (cache.previous != nullptr ? cache.previous->next : m_caches) = cache.next;
    if (cache.next != nullptr) cache.next->previous = cache.previous;
    if (m_sole == &cache) m_sole = nullptr;
    --m_cache_count;
    set_limits();
}

// Requires that the owner has ended.
inline void item_core::retire(item_cache& cache) noexcept {
    m_stock.collect(cache, m_layout.stride);
    unlink(cache);
}

}  // namespace memorypool::detail
