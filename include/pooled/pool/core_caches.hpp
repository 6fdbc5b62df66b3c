// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of pool_core that deals with the threads' caches: exchanging magazines with them, and raiding them when free
// blocks are needed that other threads hold.
//
// All private functions require m_mutex. Raids: O(threads + blocks moved); the rest O(1).

#include "pooled/os/platform.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/registry.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

namespace pooled::detail {

inline void* pool_core::pop_slow(class_index c) {
    class_geometry const g = k_geometry[c];
    central& stock = m_central[c];
    thread_cache* const cache = is_local() ? &local_cache() : g_registry.attach(*this);
    for (;;) {
        {
            std::scoped_lock const lock(stock.mutex);
            if (void* const block =
                    cache != nullptr ? stock.pop(cache->classes[c], g) : stock.pop_one(nullptr, g))
                return block;
        }
        std::scoped_lock const lock(m_mutex);
        grown const more = grow(c, cache);
        if (more.block != nullptr || more.is_at_bound) return more.block;
    }
}

inline void pool_core::push_slow(class_index c, void* block) noexcept {
    class_geometry const g = k_geometry[c];
    central& stock = m_central[c];
    thread_cache* const cache = is_local() ? &local_cache() : g_registry.attach(*this);
    bool is_closed = false;
    {
        std::scoped_lock const lock(stock.mutex);
        is_closed = stock.is_closed;
        if (cache != nullptr && !is_closed)
            stock.push(block, cache->classes[c], g);
        else
            stock.push_one(block, g);
    }
    if (is_closed) came_home(1);  // outside the lock: the core may be gone after this
}

// Until the owner is out. It holds no lock inside, so this is a matter of a few instructions, or of its next time slice.
inline void wait_until_idle(gate<> const& door) noexcept {
    for (unsigned attempt = 0; !door.is_idle(); ++attempt)
        platform::pause(attempt);
}

// The gates of all owners but the caller; a local pool's owner is the caller.
template <class Visit>
void pool_core::for_each_other_gate(Visit&& visit) noexcept {
    for (thread_cache* cache = m_caches; cache != nullptr; cache = cache->next)
        if (cache->owner != nullptr && cache->owner != &t_state) visit(cache->door);
}

inline void pool_core::stop_caches() noexcept {
    stop_all([this](auto&& visit) { for_each_other_gate(visit); }, platform::heavy_barrier, wait_until_idle);
}

inline void pool_core::resume_caches() noexcept {
    if (m_caches_held) return;
    for (thread_cache* cache = m_caches; cache != nullptr; cache = cache->next)
        cache->door.resume();
}

inline void pool_core::set_extension(pool_extension* extension) noexcept {
    std::scoped_lock const lock(m_mutex);
    m_extension.store(extension,
                      std::memory_order_release);  // release: pairs with the acquire in extension()
}

inline bool pool_core::set_extension_if_none(pool_extension& fresh) noexcept {
    std::scoped_lock const lock(m_mutex);
    if (extension() != nullptr) return false;
    m_extension.store(&fresh, std::memory_order_release);  // release: pairs with the acquire in extension()
    return true;
}

inline void pool_core::hold_caches() noexcept {
    stop_caches();
    m_caches_held = true;
    for_each_cache([](thread_cache& cache) { cache.door.stop(); });  // the caller's own, too
}

inline void pool_core::let_caches_go() noexcept {
    m_caches_held = false;
    resume_caches();
}

template <class Visit>
void pool_core::for_each_cache(Visit&& visit) noexcept {
    for (thread_cache* cache = m_caches; cache != nullptr; cache = cache->next)
        visit(*cache);
}

// Requires stopped caches and the lock of the class.
inline void pool_core::collect_caches(class_index c) noexcept {
    for (thread_cache* cache = m_caches; cache != nullptr; cache = cache->next)
        if (cache->classes[c].held(k_geometry[c]) != 0)
            m_central[c].collect(cache->classes[c], k_geometry[c]);
}

// Requires the lock of the class. For a caller whose cache is empty.
inline void* pool_core::pop_past(thread_cache* caller, class_index c) noexcept {
    return m_central[c].pop_one(caller != nullptr ? &caller->classes[c] : nullptr, k_geometry[c]);
}

// A block found in any thread's cache; all that they held is in the depot then. Null means that at one moment no block of
// the class was free anywhere: owners are kept out, and those on the slow path wait for the lock of the class.
inline void* pool_core::raid(class_index c, thread_cache* caller) noexcept {
    stop_caches();
    void* block = nullptr;
    {
        std::scoped_lock const lock(m_central[c].mutex);
        collect_caches(c);
        block = pop_past(caller, c);
    }
    resume_caches();
    return block;
}

inline std::uint64_t pool_core::held_in_caches(class_index c) const noexcept {
    std::uint64_t held = 0;
    for (thread_cache const* cache = m_caches; cache != nullptr; cache = cache->next)
        held += cache->classes[c].held(k_geometry[c]);
    return held;
}

// Read without stopping anyone, so clamped: a block may be counted in two places at that moment.
inline std::uint64_t pool_core::in_use(class_index c) const noexcept {
    std::uint64_t const outside = m_central[c].outside();
    return outside - std::min(outside, held_in_caches(c));
}

inline void pool_core::link(thread_cache& cache) noexcept {
    if (m_caches_held) cache.door.stop();
    cache.previous = nullptr;
    cache.next = m_caches;
    if (m_caches != nullptr) m_caches->previous = &cache;
    m_caches = &cache;
}

inline void pool_core::unlink(thread_cache& cache) noexcept {
    (cache.previous != nullptr ? cache.previous->next : m_caches) = cache.next;
    if (cache.next != nullptr) cache.next->previous = cache.previous;
}

// The cache's owner has ended, or is the caller and about to: what it holds is free for all.
inline void pool_core::retire(thread_cache& cache) noexcept {
    for (class_index c = 0; c < k_class_count; ++c) {
        class_cache& mine = cache.classes[c];
        if (mine.held(k_geometry[c]) == 0 && mine.net_taken() == 0) continue;
        std::scoped_lock const lock(m_central[c].mutex);
        m_central[c].retire(mine, k_geometry[c]);
    }
    if (pool_extension* const e = extension()) e->on_retire(cache);
    unlink(cache);
}

inline void pool_core::lock_classes() noexcept {
    for (central& stock : m_central)
        stock.mutex.lock();
    if (pool_extension* const e = extension()) e->lock();
}

inline void pool_core::unlock_classes() noexcept {
    if (pool_extension* const e = extension()) e->unlock();
    for (central& stock : m_central)
        stock.mutex.unlock();
}

}  // namespace pooled::detail
