// SPDX-License-Identifier: BSL-1.0
#pragma once

// What item_registry does: a pool comes and goes, a thread gets its cache of a pool and ends, the process forks.
//
// A cache's memory is its thread's. A pool that closes takes everything out of it, and shuts its gate as the last thing.

#include "pooled/cache/gate.hpp"
#include "pooled/compat/boost_intrusive_pool/caches.hpp"
#include "pooled/compat/boost_intrusive_pool/core.hpp"
#include "pooled/compat/boost_intrusive_pool/stock.hpp"
#include "pooled/compat/boost_intrusive_pool/threads.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/default_pool.hpp"

#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace memorypool::detail {

inline void item_registry::add(item_core& core) {
    static_cast<void>(pooled::default_pool());  // first, so that around a fork its locks are taken after ours
    std::scoped_lock const lock(m_mutex);
    if (!m_is_ready) {
        if (!platform::at_fork(before_fork, after_fork_in_parent, after_fork_in_child)) throw std::bad_alloc();
        m_has_barrier = platform::enable_heavy_barrier();
        m_exit_hook.create(on_thread_exit);
        m_is_ready = true;
    }
    core.m_number = m_next_number++;
    core.m_next = m_first;
    if (m_first != nullptr) m_first->m_previous = &core;
    m_first = &core;
}

template <class Function>
void item_registry::remove(item_core& core, Function&& last) noexcept {
    std::scoped_lock const lock(m_mutex);
    (core.m_previous != nullptr ? core.m_previous->m_next : m_first) = core.m_next;
    if (core.m_next != nullptr) core.m_next->m_previous = core.m_previous;

    std::scoped_lock const core_lock(core.m_mutex);
    core.stop_caches();
    last();
    while (item_cache* const cache = core.m_caches) {
        core.unlink(*cache);
        cache->home = nullptr;
        cache->door.close();  // the last access: its owner may free it now
    }
}

inline item_cache* item_registry::attach(item_core& core) noexcept {
    item_cache* const cache = t_items.find(core, core.m_number);
    return cache != nullptr && !cache->door.is_closed() ? cache : attach_slow(core);
}

POOLED_NOINLINE inline item_cache* item_registry::attach_slow(item_core& core) noexcept {
    thread_state& state = t_items;
    if (core.m_is_closed || state.has_ended || !m_has_barrier) return nullptr;

    item_cache* cache = state.owned;
    while (cache != nullptr && (cache->pool != &core || cache->door.is_closed()))
        cache = cache->next_owned;
    if (cache == nullptr) {
        cache = new_cache(state);
        if (cache == nullptr) return nullptr;
        cache->pool = &core;
        std::scoped_lock const lock(core.m_mutex);
        if (core.m_is_closed) {
            cache->door.close();
            return nullptr;
        }
        core.link(*cache);
    }
    state.entry_of(core.m_number) = {&core, cache};
    return cache;
}

// One whose pool is closed, or new memory; null when the system has none.
inline item_cache* item_registry::new_cache(thread_state& state) const noexcept {
    for (item_cache* cache = state.owned; cache != nullptr; cache = cache->next_owned) {
        if (!cache->door.is_closed()) continue;
        for (thread_state::entry& entry : state.entries)
            if (entry.cache == cache) entry = {};
        item_cache* const next_owned = cache->next_owned;
        ::new (static_cast<void*>(cache)) item_cache;
        cache->next_owned = next_owned;
        cache->owner = &state;
        return cache;
    }
    if (!state.is_armed) state.is_armed = m_exit_hook.arm(&state);
    void* const memory =
        state.is_armed ? pooled::detail::g_metadata.try_allocate(sizeof(item_cache)) : nullptr;
    if (memory == nullptr) return nullptr;
    auto* const cache = ::new (memory) item_cache;
    cache->next_owned = std::exchange(state.owned, cache);
    cache->owner = &state;
    return cache;
}

// Runs after the thread's thread_local destructors. Items that are returned still later go to the stock.
inline void item_registry::on_thread_exit(void* argument) noexcept {
    auto& state = *static_cast<thread_state*>(argument);
    state.has_ended = true;
    state.entries.fill({});
    std::scoped_lock const lock(g_item_registry.m_mutex);  // no pool may be closed meanwhile
    while (item_cache* const cache = state.owned) {
        state.owned = cache->next_owned;
        cache->door.leave();  // the thread may have been cancelled inside
        if (item_core* const core = cache->home) {
            std::scoped_lock const core_lock(core->m_mutex);
            core->retire(*cache);
        }
        pooled::detail::g_metadata.deallocate(cache, sizeof(item_cache));
    }
}

// Holds every lock and keeps every thread out of its caches, so that the child finds all of it whole.
inline void item_registry::before_fork() noexcept {
    g_item_registry.m_mutex.lock();
    for (item_core* core = g_item_registry.m_first; core != nullptr; core = core->m_next)
        core->m_mutex.lock();
    pooled::detail::stop_all(
        [](auto&& visit) {
            for (item_core* core = g_item_registry.m_first; core != nullptr; core = core->m_next)
                core->for_each_other_gate(visit);
        },
        platform::heavy_barrier, pooled::detail::wait_until_idle);
}

inline void item_registry::after_fork_in_parent() noexcept {
    for (item_core* core = g_item_registry.m_first; core != nullptr; core = core->m_next) {
        core->resume_caches();
        core->m_mutex.unlock();
    }
    g_item_registry.m_mutex.unlock();
}

// Only the thread that forked lives on: what the others had cached is free for all, and what they were constructing will
// never be finished.
inline void item_registry::after_fork_in_child() noexcept {
    for (item_core* core = g_item_registry.m_first; core != nullptr; core = core->m_next) {
        core->m_waiting = 0;
        if (core->m_grower != &t_items) core->m_grower = nullptr;
        for (item_cache *cache = core->m_caches, *next = nullptr; cache != nullptr; cache = next) {
            next = cache->next;
            if (cache->owner == &t_items) continue;
            core->retire(*cache);
            pooled::detail::g_metadata.deallocate(cache, sizeof(item_cache));
        }
    }
    after_fork_in_parent();
}

}  // namespace memorypool::detail
