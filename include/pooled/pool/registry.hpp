// SPDX-License-Identifier: BSL-1.0
#pragma once

// The pools of the process by id, and what concerns all of them at once: a thread's caches when it starts to use a pool and
// when it ends, and forks.
//
// A pool keeps its id until its core is destroyed, so an id found in the page map or in a thread's table is never that of a
// later pool. A thread's cache of a closed pool stays, closed, until the thread's next slow call or its end.
//
// Any thread may call. find() is one load; everything else takes the registry's lock, or none.

#include "pooled/base/geometry.hpp"
#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/dead_pools.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/local_use.hpp"
#include "pooled/pool/options.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <type_traits>

namespace pooled::detail {

inline constexpr std::uint32_t k_default_pool_id = 0;

class registry {
public:
    constexpr registry() noexcept = default;
    registry(registry const&) = delete;
    registry& operator=(registry const&) = delete;

    // acquire: pairs with the release in insert(); the core is seen constructed.
    [[nodiscard]] pool_core* find(std::uint32_t id) const noexcept {
        return m_cores[id].load(std::memory_order_acquire);
    }

    // A new core, under the lowest id that is free; id 0 is the default pool's. Throws std::bad_alloc when memory or ids
    // (k_max_pools) run out, and std::invalid_argument for options that make no sense.
    [[nodiscard]] pool_core& make(pool_options const& options, sharing kind) {
        std::scoped_lock const lock(m_mutex);
        // An incremental pool's allocations have more to do than the fast path: they take the far way to their cache.
        bool const is_far = kind == sharing::shared && options.teardown == teardown::incremental;
        std::uint32_t id = is_far ? std::max(m_lowest_free, k_far_slot) : m_lowest_free;
        while (id < k_max_pools && m_cores[id].load(std::memory_order_relaxed) != nullptr)
            ++id;
        if (id == k_max_pools) throw std::bad_alloc();
        pool_core& core = insert(id, options, kind);
        if (!is_far) m_lowest_free = id + 1;
        m_end = std::max(m_end, id + 1);
        return core;
    }

    // The pool's handle is gone: nobody allocates from it any more. Destroys the core if no block is in use.
    void close(pool_core& core) noexcept {
        bool is_last = false;
        {
            std::scoped_lock const lock(m_mutex);  // no thread ends with one of its caches now
            is_last = core.close();
        }
        if (is_last) destroy(core);
        free_closed_caches(t_state);  // the calling thread's cache was one of them
    }

    // Requires a closed core without a block in use. Its id is free again.
    void destroy(pool_core& core) noexcept {
        std::uint32_t const id = core.id();
        {
            std::scoped_lock const lock(m_mutex);  // a fork finds it whole, or not at all
            m_cores[id].store(destroyed(), std::memory_order_relaxed);
        }
        core.destroy();  // the page map has forgotten it before a new pool can have the id
        std::scoped_lock const lock(m_mutex);
        m_cores[id].store(nullptr, std::memory_order_relaxed);
        m_lowest_free = std::min(m_lowest_free, id);
    }

    // The default pool's core, made at the first call and never destroyed. Throws std::bad_alloc.
    [[nodiscard]] pool_core& default_core() {
        if (pool_core* const core = find(k_default_pool_id)) [[likely]]
            return *core;
        std::scoped_lock const lock(m_mutex);
        pool_core* const core = find(k_default_pool_id);
        return core != nullptr ? *core : insert(k_default_pool_id, {.name = "default"}, sharing::shared);
    }

    // The calling thread's cache for the pool, made if it has none; null when it can have none: the thread has ended, the
    // system has no memory, or it does not offer the gate's barrier.
    [[nodiscard]] thread_cache* attach(pool_core& core) noexcept;

    // Room for the caches of threads that have yet to use a pool, so that they need nothing of the system. Throws
    // std::bad_alloc.
    static void reserve_caches();

private:
    static void on_thread_exit(void* state) noexcept;
    static void on_process_exit() noexcept {
        if (auto* const hook = g_exit_hook.load(std::memory_order_relaxed)) hook();
    }
    [[nodiscard]] static thread_cache** entry_for(thread_state& state, std::uint32_t id) noexcept;
    static void disown(thread_state& state, thread_cache& cache) noexcept;
    void free_closed_caches(thread_state& state) noexcept;
    static void give_back_large(thread_cache& cache) noexcept;

    [[nodiscard]] pool_core& insert(std::uint32_t id, pool_options const& options, sharing kind);

    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    // Not a core: the id is taken as long as one is being destroyed.
    [[nodiscard]] static pool_core* destroyed() noexcept {
        return reinterpret_cast<pool_core*>(alignof(pool_core));
    }

    template <class Function>
    void for_each_core(Function&& function) noexcept {
        for (std::uint32_t id = 0; id < m_end; ++id) {
            pool_core* const core = m_cores[id].load(std::memory_order_relaxed);
            if (core != nullptr && core != destroyed()) function(*core);
        }
    }

    detail::mutex m_mutex;
    std::uint32_t m_end = k_default_pool_id + 1;          // one past the highest id ever used
    std::uint32_t m_lowest_free = k_default_pool_id + 1;  // no id below it is free
    bool m_is_ready = false;                              // what the next two need was set up
    bool m_has_barrier = false;                           // the system offers the gate's barrier
    platform::thread_exit_hook m_exit_hook;
    std::array<std::atomic<pool_core*>, k_max_pools> m_cores{};
};

POOLED_EXPORT inline constinit registry g_registry;
static_assert(std::is_trivially_destructible_v<registry> && std::is_trivially_destructible_v<metadata_arena>,
              "both are in use until the process is gone");

// Requires the lock.
inline pool_core& registry::insert(std::uint32_t id, pool_options const& options, sharing kind) {
    if (!m_is_ready) {  // here and not in function-local statics: a fork waits for this lock
        platform::at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
        m_has_barrier = platform::enable_heavy_barrier();
        m_exit_hook.create(on_thread_exit);
#if POOLED_CHECKED
        g_thread_numbers.create_hook();
#endif
        // Static objects that are older than the first pool are destroyed after it runs, younger ones before.
        static_cast<void>(std::atexit(on_process_exit));
        m_is_ready = true;
    }
    pool_core& core = pool_core::create(options, kind, id);
    m_cores[id].store(&core, std::memory_order_release);  // release: pairs with the acquire in find()
    return core;
}

inline thread_cache** registry::entry_for(thread_state& state, std::uint32_t id) noexcept {
    if (id < k_far_slot) return &state.near[id];
    std::uint32_t const index = id - k_far_slot;
    if (index >= state.far_count) {
        std::uint32_t const count = std::max(index + 1, 2 * state.far_count + 64);
        auto** const far =
            static_cast<thread_cache**>(g_metadata.try_allocate(count * sizeof(thread_cache*)));
        if (far == nullptr) return nullptr;
        std::copy_n(state.far, state.far_count, far);
        std::fill(far + state.far_count, far + count, nullptr);
        if (state.far != nullptr) g_metadata.deallocate(state.far, state.far_count * sizeof(thread_cache*));
        state.far = far;
        state.far_count = count;
    }
    return &state.far[index];
}

inline thread_cache* registry::attach(pool_core& core) noexcept {
    thread_state& state = t_state;
    free_closed_caches(state);
    if (core.is_closed()) return nullptr;
    if (thread_cache* const cache = state.find(core.id())) return cache;
    if (state.ended || !m_has_barrier) return nullptr;
    if (!state.armed) state.armed = m_exit_hook.arm(&state);
    if (!state.armed) return nullptr;
    thread_cache** const entry = entry_for(state, core.id());
    void* const memory = entry == nullptr ? nullptr : g_metadata.try_allocate(sizeof(thread_cache));
    if (memory == nullptr) return nullptr;

    auto* const cache = ::new (memory) thread_cache;
    cache->pool_id = core.id();
    cache->owner = &state;
    {
        std::scoped_lock const lock(core.caches().mutex());
        if (core.is_closed()) {
            g_metadata.deallocate(memory, sizeof(thread_cache));
            return nullptr;
        }
        cache->core = &core;
        core.caches().link(*cache);
    }
    cache->next_owned = state.owned;
    if (state.owned != nullptr) state.owned->previous_owned = cache;
    state.owned = cache;
    *entry = cache;
    return cache;
}

inline void registry::reserve_caches() {
    static constexpr std::size_t k_caches = 8;
    g_metadata.reserve(sizeof(thread_cache), k_caches);
    for (std::uint32_t n = cache_set::k_first_capacity; n <= k_max_cached_blocks; n *= cache_set::k_growth)
        g_metadata.reserve(n * sizeof(void*), 2 * k_caches);
}

// Requires a cache that its pool no longer knows.
inline void registry::disown(thread_state& state, thread_cache& cache) noexcept {
    (cache.previous_owned != nullptr ? cache.previous_owned->next_owned : state.owned) = cache.next_owned;
    if (cache.next_owned != nullptr) cache.next_owned->previous_owned = cache.previous_owned;
    if (thread_cache** const entry = entry_for(state, cache.pool_id); *entry == &cache) *entry = nullptr;
    state.forget(&cache);
    cache.release();
    g_metadata.deallocate(&cache, sizeof(thread_cache));
}

inline void registry::free_closed_caches(thread_state& state) noexcept {
    if (state.closed.load(std::memory_order_relaxed) == nullptr) [[likely]]
        return;
    thread_cache* cache = nullptr;
    {
        std::scoped_lock const lock(m_mutex);  // whoever closes a pool is done with its caches
        cache = state.closed.exchange(nullptr, std::memory_order_relaxed);
    }
    while (cache != nullptr) {
        thread_cache* const next = cache->next_closed;
        disown(state, *cache);
        cache = next;
    }
}

// Without a lock: the heap may not keep the block, and calls upstream then. While it is out, its pool's core lives.
inline void registry::give_back_large(thread_cache& cache) noexcept {
    if (cache.large.empty() || !cache.gate.enter()) return;
    large_block* const b = cache.large.remove();
    cache.gate.leave();
    if (b == nullptr) return;
    pool_core& core = *g_registry.find(cache.pool_id);
    if (core.deallocate_set_aside(*b)) g_registry.destroy(core);
}

// Runs after the thread's thread_local destructors. What is freed on this thread still later takes the locked path.
inline void registry::on_thread_exit(void* argument) noexcept {
    auto& state = *static_cast<thread_state*>(argument);
    for (thread_cache* cache = state.owned; cache != nullptr; cache = cache->next_owned)
        give_back_large(*cache);
    state.ended = true;
    state.near.fill(nullptr);
    state.forget(state.recent);
    std::scoped_lock const lock(g_registry.m_mutex);  // no pool is closed meanwhile
    state.closed.store(nullptr, std::memory_order_relaxed);
    while (thread_cache* const cache = state.owned) {
        cache->gate.leave();  // the thread may have been cancelled inside
        if (pool_core* const core = cache->core) {
            std::scoped_lock const caches_lock(core->caches().mutex());
            core->retire(*cache);
        }
        disown(state, *cache);
    }
    if (state.far != nullptr) g_metadata.deallocate(state.far, state.far_count * sizeof(thread_cache*));
    state.far = nullptr;
    state.far_count = 0;
}

// Holds every lock and stops every thread, so that the child finds all of it whole.
inline void registry::before_fork() noexcept {
    g_registry.m_mutex.lock();
    g_registry.for_each_core([](pool_core& core) { core.caches().mutex().lock(); });
    auto const each_gate = [](auto&& visit) {
        g_registry.for_each_core([&](pool_core& core) { core.caches().for_each_other_gate(visit); });
    };
    stop_all(each_gate, platform::heavy_barrier, wait_until_idle);
    g_registry.for_each_core([](pool_core& core) {
        core.memory().lock_heaps();
        if (pool_extension* const above = core.extension()) above->lock();
    });
#if POOLED_CHECKED
    g_dead_pools.lock().lock();
#endif
    g_metadata.lock().lock();
}

inline void registry::after_fork_in_parent() noexcept {
    g_metadata.lock().unlock();
#if POOLED_CHECKED
    g_dead_pools.lock().unlock();
#endif
    g_registry.for_each_core([](pool_core& core) {
        if (pool_extension* const above = core.extension()) above->unlock();
        core.memory().unlock_heaps();
        core.caches().resume();
        core.caches().mutex().unlock();
    });
    g_registry.m_mutex.unlock();
}

// Only the thread that forked exists; what the others had cached is free for all.
inline void registry::after_fork_in_child() noexcept {
    after_fork_in_parent();
    g_registry.for_each_core([](pool_core& core) {
        core.memory().after_fork_in_child();
        std::scoped_lock const lock(core.caches().mutex());
        if (pool_extension* const above = core.extension()) above->after_fork_in_child();
        thread_cache* next = nullptr;
        for (thread_cache* cache = core.caches().first(); cache != nullptr; cache = next) {
            next = cache->next;
            if (cache->owner == nullptr || cache->owner == &t_state) continue;
            core.retire(*cache);
            g_metadata.deallocate(cache, sizeof(thread_cache));
        }
    });
}

}  // namespace pooled::detail
