// SPDX-License-Identifier: BSL-1.0
#pragma once

// The pools of the process by id, and the events that affect all of them: threads that begin to use a pool, threads that end, forks.
//
// A pool keeps its id until its core is destroyed, so an id found in the page map or in a thread's table is never that of a
// later pool. A thread's cache of a closed pool continues to exist, closed, until the thread's next slow call or its end.
//
// Each copy of the library's state (plugins/copies.hpp) has a registry. All use the default pool of the first copy that makes a pool, so
// inlined code that returns blocks to "the" default pool is correct in each copy. A core of another copy is foreign (pool/foreign.hpp).
//
// Any thread may call. find() is one load. The registry's lock is taken once for what a process has once; nobody else waits for it. After
// it: the locks of a pool (pool/memory.hpp).

#include "pooled/cache/thread_cache.hpp"
#include "pooled/options.hpp"
#include "pooled/os/fork_gate.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/plugins/copies.hpp"
#include "pooled/pool/core.hpp"
#if POOLED_HAS_CODE
#include "pooled/cache/cache_set.hpp"
#include "pooled/heap/checked_memory.hpp"
#include "pooled/heap/free_mark.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/os/metadata.hpp"
#endif

POOLED_BEGIN_DETAIL

inline constexpr char const* k_default_pool_name = "default";
static_assert(k_default_pool_id != k_no_pool_id && k_default_pool_id < k_first_claimed_pool_id);

// pool/concrete_core.hpp defines it. Only a source that makes a pool, or allocates, refers to it.
POOLED_HIDDEN extern memory_copy const k_copy_functions;

class registry {
public:
    // acquire: pairs with the release in add(); the constructed core is seen.
    [[nodiscard]] pool_core* find(std::uint32_t id) const noexcept {
        return m_cores[id].load(std::memory_order_acquire);
    }

    // A new core, under the lowest id that is free in the process. Throws std::bad_alloc when memory or ids (k_max_pools) run
    // out, and std::invalid_argument for options that make no sense.
    [[nodiscard]] POOLED_API pool_core& make(pool_options const& options, sharing kind);

    void lock() noexcept { m_mutex.lock(); }
    void unlock() noexcept { m_mutex.unlock(); }
    // The core with this id is about to be destroyed. A fork finds it complete, or not at all.
    void forget(std::uint32_t id) noexcept {
        fork_pass const pass;
        m_cores[id].store(nullptr, std::memory_order_relaxed);
        g_fork_gate.order();
    }
    // Returns memory that no pool needed for a period and collapses pages, also of pools that nobody calls. No lock is held meanwhile: only
    // who destroys the pool that is worked on waits. For one thread.
    POOLED_API void work_in_background() noexcept;
    // The pool with this id is about to be closed: nobody begins to work on it in the background. False: a thread still does.
    [[nodiscard]] bool end_work(std::uint32_t id) noexcept {
        m_has_work[id].store(false, std::memory_order_relaxed);
        std_atomics::full_barrier();                               // pairs with that in work_in_background()
        return m_worked_on.load(std::memory_order_acquire) != id;  // pairs with the release there
    }
    // Those of the calling thread whose pools were closed, without the lock.
    void free_closed_caches() noexcept;

    // The default pool's core, made at the first call and never destroyed. Throws std::bad_alloc.
    [[nodiscard]] pool_core& default_core() {
        if (pool_core* const core = find(k_default_pool_id)) [[likely]]
            return *core;
        bool is_new = false;
        return find_default_core({.name = k_default_pool_name}, is_new);
    }
    // As default_core(), made with `options` if it was not made before and no other copy's is used: `is_new` is then set.
    [[nodiscard]] POOLED_API pool_core& find_default_core(pool_options const& options, bool& is_new);

    // Whether another copy of the library made the core.
    [[nodiscard]] bool is_foreign(pool_core const& core) const noexcept { return &core.made_by() != this; }

    // The record of this copy, for other copies.
    [[nodiscard]] memory_copy const& as_copy() const noexcept { return m_copy; }
    // libpooled-new.so calls the first, and each file with the compiled library the second, before other code of theirs runs. A default
    // pool with no user but operator new is not for the copies of the library in other files, in which every call would be slow.
    void begin_as_new() noexcept {
        char const* none = nullptr;
        m_abi.compare_exchange_strong(none, POOLED_ABI_LAYOUT "_new", std::memory_order_relaxed);
    }
    POOLED_API void add_program() noexcept;

    // The core for addresses that the page map does not know, with the id of no pool. It is closed from the beginning, so that
    // it keeps no block. Throws std::bad_alloc.
    POOLED_API void make_unknown();

    // The calling thread's cache for the pool, made if it has none; null when it can have none now: the thread has ended, the system has no
    // memory or does not support the gate's barrier, or a thread that does not run has the lock of the pool's caches. An incremental pool
    // waits for that: what its users observe depends on the cache. Requires a core that is not foreign. `for_now`: also for a thread that
    // has ended, and without the barrier; the gate is then stopped.
    [[nodiscard]] POOLED_API thread_cache* attach(pool_core& core, bool for_now = false) noexcept;
    // Returns all caches of the calling thread, whose thread_state that is.
    static void end_thread(void* state) noexcept;

private:
    friend record_access;
    static bool return_large(thread_cache& cache) noexcept;
    static void return_small(thread_cache& cache) noexcept;
    [[nodiscard]] static bool end_caches(thread_state& state) noexcept;
    static void forget(thread_state& state, thread_cache& cache) noexcept;
    [[nodiscard]] thread_cache** entry_for(thread_state& state, std::uint32_t id, bool may_wait) noexcept;
    void free(far_array& one) noexcept;
    void free_ended() noexcept;
    static void disown(thread_state& state, thread_cache& cache) noexcept;

    void prepare();

    // The hooks of a fork.
    static void before_fork() noexcept;
    static void after_fork_in_child() noexcept;
    static void begin_anew() noexcept;

    // Requires a core that nobody else adds.
    pool_core& add(std::uint32_t id, pool_core& core) noexcept {
        fork_pass const pass;
        std::uint32_t end = m_end.load(std::memory_order_relaxed);
        while (end <= id && !m_end.compare_exchange_strong(end, id + 1, std::memory_order_relaxed)) {}
        g_fork_gate.order();                                  // a child finds it complete, or not at all
        m_cores[id].store(&core, std::memory_order_release);  // pairs with the acquire in find()
        m_has_work[id].store(!is_foreign(core) && !core.is_local(), std::memory_order_release);
        return core;
    }
    // Those that are not foreign. Requires a fork. O(highest id ever used).
    template <class Function>
    void for_each_core(Function&& function) noexcept {
        for (std::uint32_t id = 0; id < m_end.load(std::memory_order_relaxed); ++id)
            if (pool_core* const core = m_cores[id].load(std::memory_order_relaxed);
                core != nullptr && !is_foreign(*core))
                function(*core);
    }

    detail::mutex m_mutex;
    // All zero bytes until used: no page of a program's file.
    atomic<bool> m_is_ready{false};  // barrier, exit hook and record of this copy are set up
    intrusive_list<far_array> m_far_arrays;
    // Of threads that have ended; they are in m_far_arrays, too.
    push_list<far_array, far_array::next_of> m_ended;
    std::uintptr_t m_exit_key = 0;  // of end_thread()
    bool m_has_exit_key = false;
    memory_copy m_copy;
    atomic<char const*> m_abi{nullptr};               // of m_copy; null: not known yet
    atomic<std::uint32_t> m_end{0};                   // no core has a higher id
    atomic<std::uint32_t> m_worked_on{k_no_pool_id};  // by the background thread: that pool is not closed
    atomic<pool_core*> m_cores[k_max_pools]{};
    atomic<bool> m_has_work[k_max_pools]{};  // for that thread, whose acquire pairs with the release in add()
};

POOLED_STATE(registry, g_registry);
static_assert(std::is_trivially_destructible_v<registry> && std::is_trivially_destructible_v<metadata_arena>);

#if POOLED_HAS_CODE

POOLED_CODE void registry::add_program() noexcept {
    m_abi.store(POOLED_ABI_LAYOUT, std::memory_order_relaxed);
    if (m_copy.abi != nullptr) m_copy.abi = POOLED_ABI_LAYOUT;
}

POOLED_CODE pool_core& registry::make(pool_options const& options, sharing kind) {
    prepare();
    // An allocation from an incremental pool does more than the fast path, so these pools have no near slot.
    bool const is_far = kind == sharing::shared && options.teardown == teardown::incremental;
    std::uint32_t const id = detail::directory().claim_pool_id(is_far ? k_far_slot : k_first_claimed_pool_id);
    if (id == k_max_pools) POOLED_THROW(std::bad_alloc());
    POOLED_TRY { return add(id, pool_core::create(options, kind, id, *this)); }
    POOLED_CATCH(...) {
        detail::directory().release_pool_id(id);
        POOLED_RETHROW;
    }
}

POOLED_CODE void registry::work_in_background() noexcept {
    for (std::uint32_t id = 0; id < m_end.load(std::memory_order_relaxed); ++id) {
        m_worked_on.store(id, std::memory_order_relaxed);
        std_atomics::full_barrier();  // pairs with that in end_work(): one of the two threads sees the other
        if (m_has_work[id].load(std::memory_order_acquire)) find(id)->memory().work_in_background();
        m_worked_on.store(k_no_pool_id, std::memory_order_release);
    }
}

POOLED_CODE void registry::make_unknown() {
    prepare();
    scoped_lock const own(m_mutex);
    if (find(k_no_pool_id) != nullptr) return;
    pool_core& unknown = pool_core::create({.name = "?"}, sharing::local, k_no_pool_id, *this);
    add(k_no_pool_id, unknown).local_cache().gate.close();
}

// Not function-local statics, because a fork waits for the lock. The loader's own lock comes first in the order.
inline void registry::prepare() {
    // acquire: pairs with the release below.
    if (m_is_ready.load(std::memory_order_acquire)) [[likely]]
        return;
    copy_directory& all = detail::directory();
    // Before the lock is taken: a forked child would find it held.
    if (!detail::register_fork_handlers(false)) POOLED_THROW(std::bad_alloc());
    scoped_lock const own(m_mutex);
    if (m_is_ready.load(std::memory_order_relaxed)) return;
    static_cast<void>(platform::has_heavy_barrier());  // asks the system, also for a fork
    m_has_exit_key = platform::make_exit_key(m_exit_key, end_thread);
    if constexpr (k_hardened) free_mark::choose();
    g_pool_names = [](std::uint32_t id) noexcept {
        pool_core const* const core = g_registry.find(id);
        return core != nullptr ? core->name() : "?";
    };
    g_local_users.make_key();
    auto const retire_dead = [](thread_cache& cache) noexcept {
        bool const is_retired = cache.core->retire(cache);
        if (is_retired) g_metadata.deallocate(&cache, sizeof(thread_cache));
        return is_retired;
    };
    g_retire_dead.store(retire_dead, std::memory_order_relaxed);
    // Static objects that are older than the first pool are destroyed after this runs, younger ones before.
    static_cast<void>(std::atexit([] {
        if (auto* const hook = g_exit_hook.load(std::memory_order_relaxed)) hook();
    }));
    m_copy = k_copy_functions;
    char const* const abi = m_abi.load(std::memory_order_relaxed);
    m_copy.abi = abi != nullptr ? abi : POOLED_ABI_LAYOUT;
    static constexpr fork_hooks k_hooks{before_fork, after_fork_in_child, begin_anew};
    g_fork_hooks.store(&k_hooks, std::memory_order_release);  // pairs with the acquire in fork_handlers
    g_fork_gate.order();
    all.add(m_copy);
    m_is_ready.store(true, std::memory_order_release);
}

POOLED_CODE pool_core& registry::find_default_core(pool_options const& options, bool& is_new) {
    prepare();
    memory_copy const& first = detail::directory().oldest_of(m_copy.abi);
    auto* const foreign = &first != &m_copy ? static_cast<pool_core*>(first.default_core()) : nullptr;
    scoped_lock const own(m_mutex);
    if (pool_core* const core = find(k_default_pool_id)) return *core;
    is_new = foreign == nullptr;
    return add(k_default_pool_id,
               is_new ? pool_core::create(options, sharing::shared, k_default_pool_id, *this) : *foreign);
}

// Where the calling thread, which has `state`, keeps its cache of the pool `id`. Null: no memory, or another thread has the lock and does
// not run.
inline thread_cache** registry::entry_for(thread_state& state, std::uint32_t id, bool may_wait) noexcept {
    if (thread_cache** const entry = state.entry(id)) return entry;
    try_scoped_lock const own(m_mutex, may_wait);
    far_array* const old = state.far_caches;
    std::uint32_t const old_count = old != nullptr ? old->count : 0;
    std::uint32_t const count = detail::larger(id - k_far_slot + 1, 2 * old_count + 64);
    void* const memory = own ? g_metadata.try_allocate_zeroed(far_array::bytes(count)) : nullptr;
    if (memory == nullptr) return nullptr;
    free_ended();
    auto* const grown = ::new (memory) far_array{&state, count, {}, nullptr};
    if (old != nullptr) detail::copy_n(old->caches(), old_count, grown->caches());
    m_far_arrays.push_front(*grown);
    if (old != nullptr) free(*old);
    state.far_caches = grown;
    return state.entry(id);
}

// These two require the lock.
inline void registry::free(far_array& one) noexcept {
    m_far_arrays.remove(one);
    g_metadata.deallocate(&one, far_array::bytes(one.count));
}
inline void registry::free_ended() noexcept {
    decltype(m_ended)::for_each(m_ended.take_all(), [this](far_array& one) { free(one); });
}

POOLED_CODE thread_cache* registry::attach(pool_core& core, bool for_now) noexcept {
    thread_state& state = t_state();
    state.use_own_gate();
    if (!state.closed.empty()) [[unlikely]]
        free_closed_caches();
    if (core.is_closed()) return nullptr;
    if (thread_cache* const cache = state.find(core.id())) {
        if (cache->gate.is_stopped_for_fork()) core.caches().resume_after_fork(*cache);
        // Inside, the fork has ended, or the thread was let in.
        if (fork_pass const pass; state.far_gate.is_stopped_for_fork()) state.far_gate.resume();
        return cache;
    }
    bool const is_refused = platform::is_barrier_refused();
    if (!platform::has_heavy_barrier() || (!for_now && (state.ended || is_refused))) return nullptr;
    if (!state.armed) state.armed = m_has_exit_key && platform::set_exit_argument(m_exit_key, &state);
    if (!state.armed) return nullptr;
    bool const may_wait = core.extension() != nullptr && !core.caches().has_recycled();
    thread_cache** const entry = entry_for(state, core.id(), may_wait);
    void* const memory = entry == nullptr ? nullptr : g_metadata.try_allocate(sizeof(thread_cache));
    if (memory == nullptr) return nullptr;

    auto* const cache = ::new (memory) thread_cache;
    cache->pool_id = core.id();
    cache->owner = &state;
    {
        try_scoped_lock const lock(core.caches(), may_wait);
        if (!lock || core.is_closed()) {
            g_metadata.deallocate(memory, sizeof(thread_cache));
            return nullptr;
        }
        cache->core = &core;
        core.caches().link(*cache);
        if (is_refused) cache->gate.stop();
        g_fork_gate.own_flag();
    }
    state.owned.push_front(*cache);
    state.set(entry, cache);
    return cache;
}

// The thread does not find its cache any more.
inline void registry::forget(thread_state& state, thread_cache& cache) noexcept {
    state.owned.remove(cache);
    if (thread_cache** const entry = state.entry(cache.pool_id); entry != nullptr && *entry == &cache)
        state.set(entry, nullptr);
    state.forget(&cache);
}
// Requires a cache that is no longer linked to its pool.
inline void registry::disown(thread_state& state, thread_cache& cache) noexcept {
    forget(state, cache);
    cache.release();
    g_metadata.deallocate(&cache, sizeof(thread_cache));
}

inline void registry::free_closed_caches() noexcept {
    thread_state& state = t_state();
    decltype(state.closed)::for_each(state.closed.take_all(), [&state](thread_cache& cache) {
        // acquire, in is_closed(): the thread that closes the pool has finished with its cache.
        cache.gate.is_closed() ? disown(state, cache) : state.closed.push(cache);
    });
}

// Returns a large block that the owner has cached, under no lock: the heap may return memory to upstream, which may use pools. The
// block keeps its core alive. False: none; or the pool is bounded, and a search for the last free block would not find one that is in no cache.
inline bool registry::return_large(thread_cache& cache) noexcept {
    void* block = nullptr;
    class_index c = k_first_large;
    {
        far_pass const pass(cache.pool_id);
        if (!pass || !cache.gate.enter()) return false;
        bool const is_bounded = cache.core->memory().from().is_bounded();
        while (!is_bounded && c < k_class_count && (block = cache.pop(c)) == nullptr)
            ++c;
        cache.gate.leave();
    }
    if (block == nullptr) return false;
    g_registry.find(cache.pool_id)->deallocate_past_cache(c, block, nullptr);
    return true;
}

// Returns the other blocks that the owner has cached and the memory of its arrays, under the locks of the classes alone: threads that end at
// once would wait for one another. A pool is not closed while an owner is inside a gate that it found open; nobody who waits for that has
// a lock, and a fork waits until the owner has left the fork gate, too.
inline void registry::return_small(thread_cache& cache) noexcept {
    fork_pass const pass;
    cache.gate.announce();
    if (cache.gate.is_open()) cache.core->caches().retire_classes(cache);
    cache.gate.leave();
}

// Leaves the caches of the calling thread, which is about to end, to their pools. No pool is closed while a thread has announced itself in a
// gate that is not closing. False: must wait for a thread that closes a pool, or for a fork.
inline bool registry::end_caches(thread_state& state) noexcept {
    while (thread_cache* const cache = state.owned.first()) {
        fork_pass const pass;
        cache->gate.announce();
        // First: a gate that is closing may be closed at the next look.
        if (cache->gate.is_closing()) {
            cache->gate.leave();
            return false;
        }
        // acquire, in is_closed(): the thread that closes the pool has finished with its cache.
        if (cache->gate.is_closed()) {
            disown(state, *cache);
        } else {
            forget(state, *cache);
            cache->core->caches().leave(*cache);
        }
    }
    static_cast<void>(state.closed.take_all());
    if (state.far_caches == nullptr) return true;
    fork_pass const pass;
    g_registry.m_ended.push(*std::exchange(state.far_caches, nullptr));
    if (try_scoped_lock const own(g_registry.m_mutex); own) g_registry.free_ended();
    return true;
}

// Runs after the thread's thread_local destructors. Blocks that this thread frees even later take the path with locks.
inline void registry::end_thread(void* argument) noexcept {
    auto& state = *static_cast<thread_state*>(argument);
    // A thread that was cancelled inside its gates first leaves them: others wait for that, holding a lock that is needed here.
    state.far_gate.leave();
    for (thread_cache& cache : state.owned)
        cache.gate.leave();
    for (thread_cache* cache = state.owned.first();
         cache != nullptr;)  // closed caches may be freed meanwhile
        cache = return_large(*cache) ? state.owned.first() : state.owned.after(*cache);
    for (thread_cache& cache : state.owned)
        return_small(cache);
    state.ended = true;
    for (thread_cache*& slot : state.near_caches)
        state.set(&slot, nullptr);
    state.forget(state.recent);
    for (unsigned attempt = 0; !end_caches(state); ++attempt)
        platform::pause(attempt);
    fork_gate::release_flag();
}

// Stops every other thread outside its caches and all critical sections, so that the child finds every structure consistent.
// Owners resume their gates themselves. The thread that forks may still use pools, in fork handlers of the program.
// O(threads · near pools + pools).
inline void registry::before_fork() noexcept {
    if (g_fork_gate.has_given_up()) return;  // other threads may be changing all of this
    g_registry.free_ended();
    g_registry.for_each_core([](pool_core& core) { core.caches().settle(); });
    auto const each_gate = [](auto&& visit) {
        for (far_array& each : g_registry.m_far_arrays)
            if (each.owner != &t_state()) visit(each.owner->far_gate, false);
        g_registry.for_each_core([&](pool_core& core) {
            bool const is_held = core.caches().is_held();
            if (core.id() < k_far_slot)
                core.caches().for_each_other_gate([&](gate& one) { visit(one, is_held); });
        });
    };
    each_gate([](gate& one, bool) { one.stop_for_fork(); });
    platform::heavy_barrier();
    each_gate([](gate const& one, bool) { g_fork_gate.await([&] { return one.is_idle(); }); });
    // Whoever finds a gate stopped for a fork takes it that the owner is outside.
    if (g_fork_gate.has_given_up())
        each_gate([](gate& one, bool is_held) {
            if (one.is_stopped_for_fork() && !one.is_idle()) one.give_up_fork(is_held);
        });
}

// Only the thread that forked exists, and threads that a handler has started since, which wait until the fork ends. The next
// thread that uses the list of a pool's caches frees what the parent's other threads had cached.
inline void registry::after_fork_in_child() noexcept {
    for (far_array& each : g_registry.m_far_arrays)
        if (each.owner != &t_state()) g_registry.free(each);
    g_registry.m_worked_on.store(k_no_pool_id, std::memory_order_relaxed);
    g_registry.for_each_core([](pool_core& core) {
        core.memory().after_fork_in_child();
        if (pool_extension* const above = core.extension()) above->after_fork_in_child();
    });
    g_fork_survivor.store(&t_state(), std::memory_order_relaxed);
    g_forks_survived.add(1);
}

// In a child whose other threads may have been changing anything when their process was copied (os/fork_gate.hpp). What this thread may
// refer to was complete before: cores, their extensions, blocks in use and the records of their slabs, and, if their gates are open, its
// caches. All else is constructed again in its place, under no lock, and what it had is lost. Blocks of before may be freed: then threads
// cache them, but they return to no slab. A bound counts from 0, so that the child may go on allocating. The cores last for ever.
inline void registry::begin_anew() noexcept {
    g_forks_lost.add(1);
    ::new (static_cast<void*>(&g_metadata)) metadata_arena;
    ::new (static_cast<void*>(&g_registry.m_mutex)) detail::mutex;
    g_registry.m_far_arrays = {};
    static_cast<void>(g_registry.m_ended.take_all());
    g_registry.m_worked_on.store(k_no_pool_id, std::memory_order_relaxed);
    t_state().forget_caches();
    g_dead_cores.begin_anew();
    g_registry.for_each_core([](pool_core& core) {
        core.memory().begin_anew(core.id(), core.is_local());
        pool_extension* const above = core.extension();
        if (above != nullptr && !core.is_local()) above->begin_anew();
    });
    if (auto* const hook = g_anew_hook.load(std::memory_order_relaxed)) hook();
    g_fork_gate.recover();
}
#endif

POOLED_END_DETAIL
