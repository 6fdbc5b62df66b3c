// SPDX-License-Identifier: BSL-1.0
#pragma once

// What happens to every pool at once: a thread ends, or the process forks.

#include "pooled/pool/core.hpp"
#include "pooled/pool/core_caches.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/pool/thread_cache.hpp"
#include "pooled/source/metadata.hpp"
#include "pooled/source/platform.hpp"

#include <mutex>

namespace pooled::detail {

inline bool registry::arm_exit_hook(thread_state& state) noexcept {
    if (state.armed) return true;
    static platform::thread_exit_hook const hook(on_thread_exit);
    state.armed = hook.arm(&state);
    return state.armed;
}

// Runs after the thread's thread_local destructors. What is freed on this thread still later takes the locked path.
inline void registry::on_thread_exit(void* argument) noexcept {
    auto& state = *static_cast<thread_state*>(argument);
    state.ended = true;
    state.near.fill(nullptr);
    std::scoped_lock const registry_lock(g_registry.m_mutex);  // no pool may be closed meanwhile
    while (thread_cache* const cache = state.owned) {
        state.owned = cache->next_owned;
        if (cache->core != nullptr) {
            std::scoped_lock const lock(cache->core->m_mutex);
            cache->core->retire(*cache);
        }
        g_metadata.deallocate(cache, sizeof(thread_cache));
    }
    if (state.far != nullptr) g_metadata.deallocate(state.far, state.far_count * sizeof(thread_cache*));
    state.far = nullptr;
    state.far_count = 0;
}

inline void registry::before_fork() noexcept {
    g_registry.m_mutex.lock();
    g_registry.for_each_core([](pool_core& core) { core.lock_all(); });
    g_metadata.mutex().lock();
}

inline void registry::after_fork_in_parent() noexcept {
    g_metadata.mutex().unlock();
    g_registry.for_each_core([](pool_core& core) { core.unlock_all(); });
    g_registry.m_mutex.unlock();
}

// Only the thread that forked lives on. What the others had cached is taken over; a cache whose owner was in the middle
// of an operation cannot be trusted, and its few blocks stay counted as in use.
inline void registry::after_fork_in_child() noexcept {
    after_fork_in_parent();
    g_registry.for_each_core([](pool_core& core) {
        std::scoped_lock const lock(core.m_mutex);
        thread_cache* next = nullptr;
        for (thread_cache* cache = core.m_caches; cache != nullptr; cache = next) {
            next = cache->next;
            if (cache->owner == nullptr || cache->owner == &t_state) continue;
            if (cache->door.is_idle()) {
                core.retire(*cache);
                g_metadata.deallocate(cache, sizeof(thread_cache));
            } else {
                core.unlink(*cache);
            }
        }
    });
}

}  // namespace pooled::detail
