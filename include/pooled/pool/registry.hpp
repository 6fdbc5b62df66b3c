// SPDX-License-Identifier: BSL-1.0
#pragma once

// The pools of the process by id, and what must happen to all of them at once: when a thread ends, and around fork.
//
// A pool keeps its id until its core is gone, so an id found in the address map or in a thread's table is never that of
// a later pool. A thread's cache of a closed pool stays, closed, until the thread notices or ends.
//
// Any thread may call. find() is one load; everything else takes the registry's lock.

#include "pooled/base/geometry.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/core.hpp"

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
    // (k_max_pools) run out.
    [[nodiscard]] pool_core& make(pool_options const& options, sharing kind);

    // Requires a core that nobody can reach any more; its id is free again.
    void remove(pool_core& core) noexcept;

    // The default pool's core, made at the first call and never destroyed. Throws std::bad_alloc.
    [[nodiscard]] pool_core& default_core();

    // The calling thread's cache for the pool, made if it has none; null when it can have none: the thread has ended, the
    // system has no memory, or it cannot run the gate's barrier.
    [[nodiscard]] thread_cache* attach(pool_core& core) noexcept;

    [[nodiscard]] mutex& lock() noexcept { return m_mutex; }

private:
    static void on_thread_exit(void* state) noexcept;
    static void on_process_exit() noexcept;
    [[nodiscard]] bool try_retire_first(thread_state& state) noexcept;
    [[nodiscard]] bool arm_exit_hook(thread_state& state) const noexcept;
    [[nodiscard]] static thread_cache** entry_for(thread_state& state, std::uint32_t id) noexcept;
    static void forget(thread_state& state, thread_cache& cache) noexcept;

    [[nodiscard]] pool_core& insert(std::uint32_t id, pool_options const& options, sharing kind);

    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    [[nodiscard]] bool try_lock_cores(std::uint32_t& locked) noexcept;
    void unlock_cores(std::uint32_t locked) noexcept;

    template <class Function>
    void for_each_core(Function&& function) noexcept {
        for (std::uint32_t id = 0; id < m_end; ++id)
            if (pool_core* const core = m_cores[id].load(std::memory_order_relaxed)) function(*core);
    }

    mutex m_mutex;
    std::uint32_t m_end = k_default_pool_id + 1;          // one past the highest id ever used
    std::uint32_t m_lowest_free = k_default_pool_id + 1;  // no id below it is free
    bool m_is_ready = false;                              // what the next two need was set up
    bool m_has_barrier = false;                           // the gate's barrier can be had
    platform::thread_exit_hook m_exit_hook;
    std::array<std::atomic<pool_core*>, k_max_pools> m_cores{};
};

POOLED_EXPORT inline constinit registry g_registry;
static_assert(std::is_trivially_destructible_v<registry> && std::is_trivially_destructible_v<metadata_arena>,
              "both are in use until the process is gone");

inline pool_core& registry::make(pool_options const& options, sharing kind) {
    std::scoped_lock const lock(m_mutex);
    // An incremental pool's allocations have more to do than the fast path: they go out of line, where the
    // pool's extension is called.
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

inline void registry::remove(pool_core& core) noexcept {
    std::scoped_lock const lock(m_mutex);
    m_cores[core.id()].store(nullptr, std::memory_order_relaxed);
    m_lowest_free = std::min(m_lowest_free, core.id());
}

inline pool_core& registry::default_core() {
    if (pool_core* const core = find(k_default_pool_id)) [[likely]]
        return *core;
    std::scoped_lock const lock(m_mutex);
    pool_core* const core = find(k_default_pool_id);
    return core != nullptr ? *core : insert(k_default_pool_id, {.name = "default"}, sharing::shared);
}

// Requires the lock.
inline pool_core& registry::insert(std::uint32_t id, pool_options const& options, sharing kind) {
    if (!m_is_ready) {  // here and not in function-local statics: a fork waits for this lock
        platform::at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
        m_has_barrier = platform::enable_heavy_barrier();
        m_exit_hook.create(on_thread_exit);
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
    if (core.m_closed.load(std::memory_order_relaxed))
        return nullptr;  // a hint; looked at again under the lock
    thread_state& state = t_state;
    if (thread_cache* const cache = state.find(core.id())) {
        if (!cache->door.is_closed()) return cache;
        forget(state, *cache);
    }
    if (state.ended || !m_has_barrier || !arm_exit_hook(state)) return nullptr;
    thread_cache** const entry = entry_for(state, core.id());
    void* const memory = entry == nullptr ? nullptr : g_metadata.try_allocate(sizeof(thread_cache));
    if (memory == nullptr) return nullptr;

    auto* const cache = ::new (memory) thread_cache;
    cache->pool_id = core.id();
    cache->owner = &state;
    {
        std::scoped_lock const lock(core.m_mutex);
        if (core.m_closed.load(std::memory_order_relaxed)) {  // written under this lock
            g_metadata.deallocate(memory, sizeof(thread_cache));
            return nullptr;
        }
        cache->core = &core;
        core.link(*cache);
    }
    cache->next_owned = state.owned;
    state.owned = cache;
    *entry = cache;
    return cache;
}

// Requires a closed cache of this thread: its pool has already emptied and unlinked it.
inline void registry::forget(thread_state& state, thread_cache& cache) noexcept {
    thread_cache** link = &state.owned;
    while (*link != &cache)
        link = &(*link)->next_owned;
    *link = cache.next_owned;
    *entry_for(state, cache.pool_id) = nullptr;
    state.forget(&cache);
    g_metadata.deallocate(&cache, sizeof(thread_cache));
}

}  // namespace pooled::detail
