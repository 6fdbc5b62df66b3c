// SPDX-License-Identifier: BSL-1.0
#pragma once

// What happens to every pool at once: a thread ends, or the process does, or forks.

#include "pooled/cache/thread_cache.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_caches.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/registry.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace pooled::detail {

inline bool registry::arm_exit_hook(thread_state& state) const noexcept {
    if (!state.armed) state.armed = m_exit_hook.arm(&state);
    return state.armed;
}

// Runs after the thread's thread_local destructors. What is freed on this thread still later takes the locked path.
inline void registry::on_thread_exit(void* argument) noexcept {
    auto& state = *static_cast<thread_state*>(argument);
    state.ended = true;
    state.near.fill(nullptr);
    state.forget(state.recent);
    for (unsigned attempt = 0; state.owned != nullptr;)
        if (!g_registry.try_retire_first(state)) platform::pause(attempt++);
    if (state.far != nullptr) g_metadata.deallocate(state.far, state.far_count * sizeof(thread_cache*));
    state.far = nullptr;
    state.far_count = 0;
}

inline void registry::on_process_exit() noexcept {
    if (auto* const hook = g_exit_hook.load(std::memory_order_relaxed)) hook();
}

// False when the pool's lock is taken: its holder may be waiting for the registry's, which must be let go then.
inline bool registry::try_retire_first(thread_state& state) noexcept {
    std::scoped_lock const lock(m_mutex);  // no pool may be closed meanwhile
    thread_cache& cache = *state.owned;
    cache.door.leave();  // the thread may have been cancelled inside
    if (pool_core* const core = cache.core) {
        if (!core->m_mutex.try_lock()) return false;
        core->retire(cache);
        core->m_mutex.unlock();
    }
    state.owned = cache.next_owned;
    g_metadata.deallocate(&cache, sizeof(thread_cache));
    return true;
}

// Holds every lock and keeps every thread out of its caches, so that the child finds all of it whole. The pools' own locks
// are tried: a holder may be waiting for another pool, its upstream.
inline void registry::before_fork() noexcept {
    g_forks_pending.fetch_add(1, std::memory_order_relaxed);
    for (unsigned attempt = 0;; ++attempt) {
        g_registry.m_mutex.lock();
        std::uint32_t locked = 0;
        if (g_registry.try_lock_cores(locked)) break;
        g_registry.unlock_cores(locked);
        g_registry.m_mutex.unlock();
        platform::pause(attempt);
    }
    g_forks_pending.fetch_sub(1, std::memory_order_relaxed);
    auto const each_gate = [](auto&& visit) {
        g_registry.for_each_core([&](pool_core& core) { core.for_each_other_gate(visit); });
    };
    stop_all(each_gate, platform::heavy_barrier, wait_until_idle);
    g_registry.for_each_core([](pool_core& core) { core.lock_classes(); });
    g_metadata.lock().lock();
}

inline void registry::after_fork_in_parent() noexcept {
    g_metadata.lock().unlock();
    g_registry.for_each_core([](pool_core& core) {
        core.unlock_classes();
        core.resume_caches();
    });
    g_registry.unlock_cores(g_registry.m_end);
    g_registry.m_mutex.unlock();
}

// Only the thread that forked lives on; what the others had cached is free for all.
inline void registry::after_fork_in_child() noexcept {
    g_forks_pending.store(0, std::memory_order_relaxed);  // those who were waiting are not here
    after_fork_in_parent();
    g_registry.for_each_core([](pool_core& core) {
        std::scoped_lock const lock(core.m_mutex);
        if (pool_extension* const e = core.extension()) e->after_fork_in_child();
        thread_cache* next = nullptr;
        for (thread_cache* cache = core.m_caches; cache != nullptr; cache = next) {
            next = cache->next;
            if (cache->owner == nullptr || cache->owner == &t_state) continue;
            core.retire(*cache);
            g_metadata.deallocate(cache, sizeof(thread_cache));
        }
    });
}

// `locked`: one past the last id that was looked at.
inline bool registry::try_lock_cores(std::uint32_t& locked) noexcept {
    for (locked = 0; locked < m_end; ++locked) {
        pool_core* const core = m_cores[locked].load(std::memory_order_relaxed);
        if (core != nullptr && !core->m_mutex.try_lock()) return false;
    }
    return true;
}

inline void registry::unlock_cores(std::uint32_t locked) noexcept {
    for (std::uint32_t id = 0; id < locked; ++id)
        if (pool_core* const core = m_cores[id].load(std::memory_order_relaxed)) core->m_mutex.unlock();
}

}  // namespace pooled::detail
