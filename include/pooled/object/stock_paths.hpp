// SPDX-License-Identifier: BSL-1.0
#pragma once

// How slots move between users, caches and the stock. Each acquire and release runs the first four functions, which take no
// lock; everything below them does.

#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/object/object_stock.hpp"
#include "pooled/pool/registry.hpp"

#include <chrono>
#include <mutex>

namespace pooled::detail {

POOLED_ALWAYS_INLINE slot* object_stock::pop_from(thread_cache* cache) noexcept {
    if (cache == nullptr || !cache->door.enter()) [[unlikely]]
        return nullptr;
    void* const hot = cache->recycled.pop_hot();
    if (hot == nullptr) [[unlikely]]
        return pop_cold(*cache);
    cache->door.leave();
    return static_cast<slot*>(hot);
}

// The generation is compared inside the gate: take_idle(outdate) changes it when all are shut, so no outdated object gets
// into a cache after that.
POOLED_ALWAYS_INLINE bool object_stock::push_to(thread_cache* cache, slot& s) noexcept {
    if (cache == nullptr || !cache->door.enter()) [[unlikely]]
        return false;
    if (s.generation != generation()) [[unlikely]] {
        cache->door.leave();
        return false;
    }
    if (!cache->recycled.push_hot(&s)) [[unlikely]]
        return push_cold(*cache, s);
    cache->door.leave();
    return true;
}

template <sharing Sharing>
POOLED_ALWAYS_INLINE slot* object_stock::pop_cached() noexcept {
    if constexpr (Sharing == sharing::shared)
        return pop_from(t_state.near[m_near]);
    else
        return static_cast<slot*>(m_core.local_cache().recycled.pop(m_geometry));
}

template <sharing Sharing>
POOLED_ALWAYS_INLINE bool object_stock::push_cached(slot& s) noexcept {
    if constexpr (Sharing == sharing::shared)
        return push_to(t_state.near[m_near], s);
    else
        return s.generation == generation() && m_core.local_cache().recycled.push(&s, m_geometry);
}

POOLED_NOINLINE inline slot* object_stock::pop_cold(thread_cache& cache) noexcept {
    void* const popped = cache.recycled.pop_cold(m_geometry);
    cache.door.leave();
    return static_cast<slot*>(popped);
}

// Once the slot is given up and the gate left, stock and cache may be gone.
POOLED_NOINLINE inline bool object_stock::push_cold(thread_cache& cache, slot& s) noexcept {
    bool const is_pushed = cache.recycled.push_cold(&s, m_geometry);
    cache.door.leave();
    return is_pushed;
}

inline thread_cache* object_stock::own_cache() noexcept {
    return m_core.is_local() ? &m_core.local_cache() : g_registry.attach(m_core);
}

// Nothing: none is idle here and, if gathered, anywhere; and none may be built.
inline grant object_stock::take_locked(thread_cache* cache) noexcept {
    void* const idle = is_cached(cache)
                           ? m_used.pop(cache->recycled, m_geometry)
                           : m_used.pop_one(cache != nullptr ? &cache->recycled : nullptr, m_geometry);
    if (idle != nullptr) {
        ++m_calm;
        return {static_cast<slot*>(idle)};
    }
    if (!m_is_gathered) return {};
    m_calm = 0;
    if (slot* const fresh = m_fresh) {
        m_fresh = fresh->next();
        --m_fresh_count;
        m_used.adopt();
        return {fresh};
    }
    std::size_t const count = std::min(m_growth, m_bound - m_objects);
    m_objects += count;
    return {nullptr, count};
}

inline grant object_stock::take() {
    if (m_near == k_far_slot)
        if (slot* const s = pop_from(t_state.find(m_core.id()))) return {s};
    thread_cache* const cache = own_cache();
    for (;;) {
        bool is_calm = false;
        grant g;
        {
            std::scoped_lock const lock(m_used.mutex);
            g = take_locked(cache);
            if (!g && m_is_gathered) return {};
            is_calm = m_is_gathered && m_calm >= k_calm;
        }
        if (is_calm) spread();
        if (g) return g;
        gather();
    }
}

template <class Patience>
grant object_stock::wait(Patience const& patience) {
    thread_cache* const cache = own_cache();
    waiter self;
    for (;;) {
        {
            std::scoped_lock const lock(m_used.mutex);
            if (grant const g = take_locked(cache)) return g;
            if (m_core.is_local()) return {};  // nobody else can release one
            if (m_is_gathered) {
                m_line.push(self);
                break;
            }
        }
        gather();
    }
    {
        [[maybe_unused]] auto const watch = patience.watch(self);
        for (auto left = patience.remaining(); self.is_waiting() && left.count() > 0;
             left = patience.remaining())
            self.sleep(left);
    }
    if (self.is_called()) return self.granted();
    std::scoped_lock const lock(m_used.mutex);
    if (self.is_called()) return self.granted();
    m_line.remove(self);
    return {};
}

inline bool object_stock::put_back(slot& s) noexcept {
    if (m_near == k_far_slot && push_to(t_state.find(m_core.id()), s)) return true;
    thread_cache* const cache = own_cache();
    waiter* called = nullptr;
    {
        std::scoped_lock const lock(m_used.mutex);
        if (s.generation != generation()) return false;
        called = m_line.call_first({&s});
        if (called == nullptr) {
            if (is_cached(cache))
                m_used.push(&s, cache->recycled, m_geometry);
            else
                m_used.push_one(&s, m_geometry);
        }
    }
    if (called != nullptr) waiter::wake(called);
    return true;
}

inline void object_stock::admit_used(slot& s) noexcept {
    std::scoped_lock const lock(m_used.mutex);
    s.generation = generation();
    m_used.adopt();
}

inline void object_stock::admit_fresh(slot& s) noexcept {
    waiter* called = nullptr;
    {
        std::scoped_lock const lock(m_used.mutex);
        s.generation = generation();
        called = m_line.call_first({&s});
        if (called != nullptr) {
            m_used.adopt();
        } else {
            s.next() = m_fresh;
            m_fresh = &s;
            ++m_fresh_count;
        }
    }
    if (called != nullptr) waiter::wake(called);
}

inline bool object_stock::dismiss(was what) noexcept {
    waiter* called = nullptr;
    bool is_last = false;
    {
        std::scoped_lock const lock(m_used.mutex);
        if (what == was::used) m_used.disown();
        called = m_line.call_first({nullptr, 1});  // whose object it is then, in the count
        if (called == nullptr) --m_objects;
        is_last = m_is_abandoned && m_objects == 0;
    }
    if (called != nullptr) waiter::wake(called);
    return is_last;
}

}  // namespace pooled::detail
