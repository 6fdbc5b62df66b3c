// SPDX-License-Identifier: BSL-1.0
#pragma once

// The objects of one pool that stay constructed between uses: which are idle and where, how many more may be built, and which threads
// wait for one. The list knows an object by its address and its node. Who has the list knows what it is, and builds it.
//
//   thread_cache::recycled (one per thread) ◀─ refill, flush: half a cache ─▶ m_idle       m_fresh: never acquired
//
// The list is in one of two modes.
//   cached    each thread keeps idle objects in its cache and takes no lock
//   central   the caches are empty and take none: under the lock it is known that no other object is idle, and a release goes to
//             the first waiter. Until that thread has woken, another one may take it
// A thread that finds nothing enters central mode before it takes a fresh object, gets leave to build some, or waits, unless no other
// thread has a cache. So no idle object stays in another cache, and no more objects are built than were in use at once. Entering
// costs a system call when there are other threads, so the list stays in that mode until k_central_hits acquisitions in a row found an
// idle object. Objects enter a cache only if their generation is m_cacheable, which none has in central mode.
//
// As long as no thread but one has a cache of the core, that one takes no lock: m_sole is its cache, whose gate it enters instead. Any
// other thread first takes the lock and stops that gate (section).
//
// A list with `grows_early` has its next objects built when the last idle one is acquired, by one thread at a time, and others that
// find none wait for it.
//
// Invariants: m_objects = m_outside + idle + fresh + being built <= bound       outside: in a thread's cache, or with a caller
//             in use = m_outside − Σ held of the caches
//             someone waits without a grant ⇒ central mode, nothing idle, m_objects == bound
//             m_sole != null ⇒ no other cache was ever used, or all others were retired
// impl/object/recycle_operations.hpp has what is not inlined.
// Any thread may call; a local one's for one thread at a time. No user code, no upstream is called under the lock, which is that of
// the core's caches. O(1), but for entering central mode, take_idle() and count(): O(threads + idle objects).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/recycle_node.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/object/wait_queue.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct recycle_limits {
    std::size_t bound;   // objects at most
    std::size_t growth;  // how many are built at a time; 0: `initial`, when there is none
    double growth_factor = 1;
    std::size_t initial = 0;
    bool grows_early = false;
    std::size_t node_at = 0;       // bytes from an object's address to its node
    std::uint32_t idle_count = 0;  // of a node in a thread's cache
};

struct object_counts {
    std::size_t capacity = 0;
    std::size_t idle = 0;
    std::size_t high_water = 0;  // unless the list grows early
    std::size_t waiting = 0;
    std::uint64_t built = 0;
    std::size_t steps = 0;  // of growth, unless they failed, since the last take_idle(disown)
};

class recycle_list : public pool_extension {
public:
    recycle_list(pool_core& core, recycle_limits const& limits) noexcept
        : m_core(core),
          m_index(core.slot()),
          m_limits(limits),
          m_cache_capacity(static_cast<std::uint32_t>(
              detail::clamp<std::size_t>(limits.bound / k_cache_share, 2, k_max_cached))) {
        update_spare();
        note_recycled();
    }

    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    [[nodiscard]] std::size_t bound() const noexcept { return m_limits.bound; }
    // How many objects are built at a time, but for growth_factor.
    [[nodiscard]] std::size_t growth() const noexcept {
        return detail::smaller(m_limits.growth, m_limits.bound);
    }
    // Objects of an earlier generation are destroyed when they are released.
    [[nodiscard]] std::uint32_t generation() const noexcept { return m_generation; }

    // An idle object that the calling thread has cached, or null. `Early`: of a list that grows early, the last one is left.
    template <sharing Sharing, bool Early = false>
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop() noexcept {
        if constexpr (Sharing == sharing::shared)
            return pop_from(t_state.near_caches[m_index], Early ? std::uint32_t{m_spare} : 0);
        else
            return m_core.local_cache().recycled.pop_above(0);
    }
    // False when the thread has no cache, or one that is full or may not be used, or when the object is of an earlier generation;
    // the caller then has it still. Otherwise the pool may no longer exist.
    template <sharing Sharing>
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push(void* p, recycle_node const& n) noexcept {
        if constexpr (Sharing == sharing::shared)
            return push_to(t_state.near_caches[m_index], p, n);
        else
            return n.generation == m_cacheable && m_core.local_cache().recycled.push_below(k_all, p);
    }

    // Called when pop() had no object. Empty: the bound is reached and, at one moment, no object was idle; `self`, unless null or
    // the pool is local, then waits. Of a list that grows early: an object, objects to build, both, or nothing.
    [[nodiscard]] POOLED_API grant take(waiter* self = nullptr) noexcept;
    // The same, but waits as long as `deadline` says.
    template <class DeadlinePolicy>
    [[nodiscard]] grant wait(DeadlinePolicy const& deadline) {
        waiter self;
        if (grant const g = take(&self)) return g;
        if (m_core.is_local()) return {};  // no other thread can release one
        for (;;) {
            bool const gives_up = !self.wait(deadline);
            if (settle(self, gives_up)) return self.granted();
        }
    }
    // Called when push() did not take the object. False: it is of an earlier generation. Otherwise the list may be gone.
    [[nodiscard]] POOLED_API bool put(void* p) noexcept;

    // How many objects the caller is to build, so that there are `count`; they count under the bound from now on.
    [[nodiscard]] POOLED_API std::size_t set_aside(std::size_t count) noexcept;
    // The end of what a grant or set_aside() asked for: so many were built, and `missing` are not. The first waiters get them, or may
    // build them. `back`, unless null, is an object that the caller does not want after all. If the list grows early: for the one
    // thread that builds.
    POOLED_API void add(recycle_stack&& built, std::size_t missing) noexcept;
    // Whether an object is counted in m_objects alone, or in m_outside, too.
    enum class counted : bool { as_built, as_used };
    // One was built that is in use from now on, possibly in place of a destroyed one that counted `as_used`.
    POOLED_API void add_used(void* p, counted before) noexcept;
    // An object is destroyed, or was not built after all; the first waiter may build one in its place. True when the pool's
    // handle was destroyed and this was the last object: the caller then destroys the list.
    [[nodiscard]] POOLED_API bool remove(counted how) noexcept;
    // The same, for an object in use of a list that disowns them: it counts as one of its generation.
    [[nodiscard]] POOLED_API bool lose(std::uint32_t generation) noexcept;

    // Takes all idle objects, wherever they are; from now on they are counted as built. Of the objects in use:
    enum class in_use {
        keep,     // nothing changes
        outdate,  // they are destroyed when they are released
        disown,   // the same, and they do not count any more, nor do the idle ones
        close,    // as outdate, for the last time: nothing is cached from now on
    };
    [[nodiscard]] POOLED_API recycle_stack take_idle(in_use what) noexcept;
    // The handle was destroyed; called after take_idle(close). True when no object is in use.
    [[nodiscard]] POOLED_API bool abandon() noexcept;

    [[nodiscard]] POOLED_API object_counts count() noexcept;
    // No object is idle, and none may be built.
    [[nodiscard]] POOLED_API bool is_used_up() noexcept;
    // Calls `look` on the object that this thread would get, unless that is in another thread's cache, under the lock.
    POOLED_API void inspect_next(void (*look)(recycle_list const&, void const* p)) noexcept;
    [[nodiscard]] POOLED_API bool is_valid() noexcept;

    void on_retire(thread_cache& cache) noexcept override { retire(cache); }
    void after_fork_in_child() noexcept override { forget_threads(); }

protected:
    ~recycle_list() = default;
    [[nodiscard]] recycle_node& node_of(void* p) const noexcept {
        return *reinterpret_cast<recycle_node*>(static_cast<std::byte*>(p) + m_limits.node_at);
    }
    // Null for null.
    [[nodiscard]] void* object_of(recycle_node* n) const noexcept {
        return n != nullptr ? reinterpret_cast<std::byte*>(n) - m_limits.node_at : nullptr;
    }

private:
    static constexpr std::uint32_t k_all = ~std::uint32_t{0};   // as many as the cache has space for
    static constexpr std::uint32_t k_none = ~std::uint32_t{0};  // the generation of no object
    // An acquisition from the central list takes some 15 ns more than one from a cache. After this many, the sum equals the cost of
    // entering central mode, 1 to 20 µs for a barrier on all threads: staying too long and leaving too early cost the same.
    static constexpr std::uint32_t k_central_hits = 1024;
    // A thread caches a small part of a bounded pool's objects, so that others seldom enter central mode for those.
    static constexpr std::size_t k_cache_share = 16;
    static constexpr std::size_t k_max_cached = 128;

    [[nodiscard]] static POOLED_ALWAYS_INLINE void* pop_from(thread_cache* cache,
                                                             std::uint32_t spare) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return nullptr;
        void* const p = cache->recycled.pop_above(spare);
        cache->gate.leave();
        return p;
    }
    // m_cacheable is read inside the gate: it changes while all are stopped, or to let more objects in.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_to(thread_cache* cache, void* p,
                                                    recycle_node const& n) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return false;
        bool const is_pushed = n.generation == m_cacheable && cache->recycled.push_below(k_all, p);
        cache->gate.leave();
        return is_pushed;
    }

    class section;
    POOLED_API void note_recycled() noexcept;
    POOLED_API void retire(thread_cache& cache) noexcept;
    POOLED_API void forget_threads() noexcept;
    POOLED_API bool settle(waiter& w, bool gives_up) noexcept;
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* attach() noexcept;
    [[nodiscard]] bool is_finished() const noexcept {
        return m_is_abandoned && m_objects == 0 && m_orphans == 0;
    }
    [[nodiscard]] bool is_central() const noexcept { return m_cacheable != m_generation; }
    [[nodiscard]] bool is_only(thread_cache const* mine) const noexcept;
    void choose_sole(thread_cache* mine) noexcept;
    [[nodiscard]] POOLED_ALWAYS_INLINE grant take_locked(thread_cache* mine, bool& must_wait) noexcept;
    void* taken(recycle_node* n) noexcept;
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_idle(thread_cache* mine) noexcept;
    void push_idle(void* p, thread_cache* mine) noexcept;
    void refill(class_cache& cache) noexcept;
    void flush(class_cache& cache, std::uint32_t n) noexcept;
    void collect(class_cache& cache) noexcept;
    template <class Visit>
    void for_each_cache(Visit&& visit) noexcept;
    void collect_all() noexcept;
    void enter_central_mode() noexcept;
    void next_generation() noexcept;
    void add_outside() noexcept;
    [[nodiscard]] bool grant_first_of(recycle_stack& built, std::size_t& missing, waiter*& to_wake) noexcept;
    [[nodiscard]] std::size_t held() noexcept;
    [[nodiscard]] std::size_t next_growth() const noexcept;
    void update_spare() noexcept {
        bool const may_grow =
            m_limits.growth != 0 ? m_objects < m_limits.bound : m_objects == 0 && m_limits.initial != 0;
        m_spare = m_limits.grows_early && may_grow ? 1 : 0;
    }

    pool_core& m_core;
    std::uint32_t const m_index;                        // in thread_state::near_caches
    observed<std::uint32_t> m_cacheable{k_generation};  // the generation, or k_none
    observed<std::uint32_t> m_generation{k_generation};
    observed<std::uint32_t> m_spare;  // how many objects a thread's cache keeps for take()
    static constexpr std::uint32_t k_generation = recycle_node::k_no_object + recycle_node::k_step;

    alignas(k_cache_line) recycle_limits const m_limits;
    std::uint32_t const m_cache_capacity;
    observed<thread_cache*> m_sole;
    bool m_is_abandoned = false;
    std::uint32_t m_hits = 0;  // acquisitions in a row that found an idle object
    observed<std::size_t> m_objects;
    observed<std::size_t> m_outside;
    observed<std::size_t> m_high_water;
    observed<std::uint64_t> m_built;  // ever
    std::size_t m_orphans = 0;        // disowned objects in use
    observed<std::size_t> m_steps;
    recycle_stack m_idle;
    recycle_stack m_fresh;
    wait_queue m_waiters;
    thread_state const* m_builder = nullptr;  // of a list that grows early
    std::size_t m_to_build = 0;               // by that thread
    bool m_is_awaited = false;
    std::atomic<std::uint32_t> m_builds{0};  // that ended
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
