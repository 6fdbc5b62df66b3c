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
// As long as one thread alone uses the list, it takes no lock: m_sole is its cache, whose gate it enters instead. Any other
// thread first takes the lock and stops that gate (section).
//
// A list with `grows_early` has its next objects built when the last idle one is acquired, by one thread at a time, and others that
// find none wait for it.
//
// Invariants: m_objects = m_outside + idle + fresh + being built <= bound       outside: in a thread's cache, or with a caller
//             in use = m_outside − Σ held of the caches
//             someone waits without a grant ⇒ central mode, nothing idle, m_objects == bound
//             m_sole != null ⇒ no other cache was ever used, or all others were retired
// Any thread may call; a local one's for one thread at a time. No user code, no upstream is called under the lock, which is that of
// the core's caches. O(1), but for entering central mode, take_idle(), close() and count(): O(threads + idle objects).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/recycle_node.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/object/wait_queue.hpp"
#include "pooled/impl/os/fork_gate.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/impl/pool/registry.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

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
    POOLED_API void add(recycle_stack&& built, std::size_t missing, void* back = nullptr) noexcept;
    // Whether an object is counted in m_objects alone, or in m_outside, too.
    enum class counted : bool { as_built, as_used };
    // One was built that is in use from now on, possibly in place of a destroyed one that counted `as_used`.
    POOLED_API void add_used(void* p, counted before) noexcept;
    // An object is destroyed, or was not built after all; the first waiter may build one in its place. True when the pool's
    // handle was destroyed and this was the last object: the caller then destroys the list.
    [[nodiscard]] POOLED_API bool remove(counted how) noexcept;
    // An object in use is destroyed, which counts if it is of this generation.
    POOLED_API void lose(std::uint32_t generation) noexcept;

    // Takes all idle objects, wherever they are; from now on they are counted as built. `outdate`: the other objects are
    // destroyed when they are released; `disown`: they do not count any more either, nor do the idle ones, and nobody builds until add().
    enum class in_use { keep, outdate, disown };
    [[nodiscard]] POOLED_API recycle_stack take_idle(in_use what) noexcept;
    // take_idle(outdate) for the last time: nothing is cached from now on.
    [[nodiscard]] POOLED_API recycle_stack close() noexcept;
    // The handle was destroyed; called after close(). True when no object is in use.
    [[nodiscard]] POOLED_API bool abandon() noexcept;

    [[nodiscard]] POOLED_API object_counts count() noexcept;
    // No object is idle, and none may be built.
    [[nodiscard]] POOLED_API bool is_used_up() noexcept;
    // Calls `look` on the object that this thread would get, unless that is in another thread's cache, under the lock.
    POOLED_API void inspect_next(void (*look)(recycle_list const&, void const* p)) noexcept;
    [[nodiscard]] POOLED_API bool is_valid() noexcept;

    POOLED_VIRTUAL void on_retire(thread_cache& cache) noexcept override;
    POOLED_VIRTUAL void after_fork_in_child() noexcept override;

protected:
    ~recycle_list() = default;
    // In a forked child: whether a thread was building that does not exist there; nobody is now.
    [[nodiscard]] POOLED_API bool forget_builder() noexcept;

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
    POOLED_API bool settle(waiter& w, bool gives_up) noexcept;
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* attach() noexcept;
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
    [[nodiscard]] recycle_stack take_all_idle() noexcept;
    void next_generation() noexcept;
    void add_outside() noexcept;
    [[nodiscard]] bool grant_first_of(recycle_stack& built, std::size_t& missing, waiter*& to_wake) noexcept;
    [[nodiscard]] std::uint32_t await_build() noexcept {
        m_is_awaited = true;
        return m_builds.load(std::memory_order_relaxed);
    }
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
    recycle_stack m_idle;
    recycle_stack m_fresh;
    wait_queue m_waiters;
    thread_state const* m_builder = nullptr;  // of a list that grows early
    std::size_t m_to_build = 0;               // by that thread
    bool m_is_awaited = false;
    std::atomic<std::uint32_t> m_builds{0};  // that ended
};

#if POOLED_HAS_CODE

// A critical section.
class recycle_list::section {
public:
    POOLED_ALWAYS_INLINE explicit section(recycle_list& list) noexcept : m_list(list) {
        if (thread_cache* const sole = list.m_sole; sole == nullptr || !enter(*sole)) lock();
    }
    ~section() {
        if (m_gate != nullptr)
            m_gate->leave();
        else
            m_list.m_core.caches().mutex().unlock();
    }
    section(section const&) = delete;
    section& operator=(section const&) = delete;

private:
    POOLED_ALWAYS_INLINE bool enter(thread_cache& sole) noexcept {
        if (t_state.near_caches[m_list.m_index] != &sole || !sole.gate.enter()) return false;
        m_gate = &sole.gate;
        if (m_list.m_sole == &sole) return true;  // again: another thread may have ended it
        sole.gate.leave();
        m_gate = nullptr;
        return false;
    }
    POOLED_NOINLINE void lock() noexcept {
        m_list.m_core.caches().mutex().lock();
        if (m_list.m_sole == nullptr) return;
        m_list.m_core.caches().stop();
        m_list.m_sole = nullptr;
        m_list.m_core.caches().resume();
    }

    recycle_list& m_list;
    detail::gate<>* m_gate = nullptr;
};

POOLED_CODE void recycle_list::note_recycled() noexcept { m_core.caches().add_recycled(); }

// The calling thread's cache, made if it has none; null when it can have none. One of a foreign core grows in its own copy only.
POOLED_ALWAYS_INLINE thread_cache* recycle_list::attach() noexcept {
    thread_cache* const mine = t_state.near_caches[m_index];
    if (mine != nullptr && mine->gate.is_open()) return mine;
    if (m_core.is_local()) return &m_core.local_cache();
    return detail::is_foreign(m_core) ? nullptr : g_registry.attach(m_core);
}

// The functions that follow require a section.

// No thread has another cache, or has ever used it.
inline bool recycle_list::is_only(thread_cache const* mine) const noexcept {
    if (m_sole != nullptr) return true;
    return m_core.caches().first() == mine && (mine == nullptr || mine->links.next == nullptr);
}
// The cache gets its memory here: in the gate, a thread takes no lock.
inline void recycle_list::choose_sole(thread_cache* mine) noexcept {
    if (m_sole != nullptr || mine == nullptr || mine != t_state.near_caches[m_index] || !is_only(mine))
        return;
    if (mine->recycled.capacity() != 0 || mine->recycled.reserve(m_cache_capacity)) m_sole = mine;
}

inline void recycle_list::add_outside() noexcept {
    m_outside.add(1);
    m_high_water = detail::larger<std::size_t>(m_high_water, m_outside + m_idle.size());
}
// The object that was popped from a stack; null for null.
inline void* recycle_list::taken(recycle_node* n) noexcept {
    if (n != nullptr) n->set(m_limits.idle_count, m_generation);
    return object_of(n);
}

inline void recycle_list::flush(class_cache& cache, std::uint32_t n) noexcept {
    auto const oldest = cache.oldest(n);
    for (void* const one : oldest)
        m_idle.push(node_of(one));
    m_outside.subtract(oldest.size());
    cache.drop_oldest(static_cast<std::uint32_t>(oldest.size()));
}
inline void recycle_list::collect(class_cache& cache) noexcept {
    flush(cache, m_cache_capacity);
    if (void* const hot = cache.pop_hot()) {
        m_idle.push(node_of(hot));
        m_outside.subtract(1);
    }
}
// All that may hold objects.
template <class Visit>
void recycle_list::for_each_cache(Visit&& visit) noexcept {
    if (thread_cache* const sole = m_sole) return visit(sole->recycled);
    m_core.caches().for_each([&](thread_cache& cache) { visit(cache.recycled); });
}
inline void recycle_list::collect_all() noexcept {
    for_each_cache([this](class_cache& cache) { collect(cache); });
}
inline std::size_t recycle_list::held() noexcept {
    std::size_t sum = 0;
    for_each_cache([&sum](class_cache const& cache) { sum += cache.held(); });
    return sum;
}

// An idle object of the caller's cache or the list; null when there is none. An empty cache is refilled: what is at the list's front is
// also the first to leave the cache.
POOLED_ALWAYS_INLINE void* recycle_list::pop_idle(thread_cache* mine) noexcept {
    bool const caches = mine != nullptr && !is_central();
    if (caches)
        if (void* const cached = mine->recycled.pop()) return cached;
    void* const p = taken(m_idle.pop());
    if (p == nullptr) return nullptr;
    m_outside.add(1);
    if (caches && m_idle.size() != 0) refill(mine->recycled);
    return p;
}
inline void recycle_list::refill(class_cache& cache) noexcept {
    if (m_cache_capacity <= 2 || (cache.capacity() == 0 && !cache.reserve(m_cache_capacity))) return;
    auto const count =
        static_cast<std::uint32_t>(detail::smaller<std::size_t>(m_cache_capacity / 2 - 1, m_idle.size()));
    void** const array = cache.fill(count);
    std::uint32_t const generation = m_generation;
    for (std::uint32_t i = count; i-- != 0;) {
        recycle_node* const n = m_idle.pop();
        n->set(m_limits.idle_count, generation);
        array[i] = object_of(n);
    }
    m_outside.add(count);
}

inline void recycle_list::push_idle(void* p, thread_cache* mine) noexcept {
    if (mine != nullptr && !is_central()) {
        class_cache& cache = mine->recycled;
        if (cache.push(p)) return;
        if (cache.capacity() != 0) flush(cache, m_cache_capacity / 2);
        if (cache.capacity() != 0 || cache.reserve(m_cache_capacity))
            if (cache.push(p)) return;
    }
    m_idle.push(node_of(p));
    m_outside.subtract(1);
}

inline void recycle_list::enter_central_mode() noexcept {
    if (m_sole == nullptr) m_core.caches().stop();
    m_cacheable = k_none;
    m_hits = 0;
    collect_all();
    if (m_sole == nullptr) m_core.caches().resume();
}

// The product may be larger than any size: it is compared as it is.
inline std::size_t recycle_list::next_growth() const noexcept {
    std::size_t const left = m_limits.bound - m_objects;
    if (m_limits.growth == 0) return m_objects == 0 ? detail::smaller(left, m_limits.initial) : 0;
    if (!(m_limits.growth_factor > 1)) return detail::smaller(left, m_limits.growth);
    double const more = static_cast<double>(m_objects) * (m_limits.growth_factor - 1);
    if (more >= static_cast<double>(left)) return left;
    return detail::smaller(left, detail::larger(m_limits.growth, static_cast<std::size_t>(more)));
}

// Empty: no object is idle in the list (in central mode: anywhere), none may be built, and no waiter may be overtaken. `must_wait`: for
// the thread that builds.
POOLED_ALWAYS_INLINE grant recycle_list::take_locked(thread_cache* mine, bool& must_wait) noexcept {
    void* p = pop_idle(mine);
    if (p == nullptr && !is_central() && !is_only(mine)) {
        enter_central_mode();
        p = pop_idle(mine);
    }
    if (p != nullptr) {
        if (is_central() && ++m_hits >= k_central_hits) m_cacheable = m_generation;
        if (!m_limits.grows_early || m_idle.size() != 0 || held() != 0) return {p};
    } else {
        m_hits = 0;
        p = taken(m_fresh.pop());
        if (p != nullptr) {
            add_outside();
            return {p};
        }
    }
    if (m_builder != nullptr) {
        // Not in a constructor, nor in a fork, which the builder waits for.
        must_wait = p == nullptr && m_builder != &t_state && !fork_gate::is_passed();
        return {p};
    }
    std::size_t const count = next_growth();
    if (p == nullptr && count == 0) return m_waiters.take_back();
    if (m_limits.grows_early && count != 0) {
        m_builder = &t_state;
        m_to_build = count;
    }
    m_objects.add(count);
    return {p, count};
}

POOLED_CODE grant recycle_list::take(waiter* self) noexcept {
    if (m_index == k_far_slot) {
        far_pass const pass(m_core.id());
        if (pass)
            if (void* const p = pop_from(t_state.find(m_core.id()), m_spare)) return {p};
    }
    thread_cache* const mine = attach();
    for (;;) {
        std::uint32_t builds = 0;
        {
            section const own(*this);
            bool must_wait = false;
            grant const g = take_locked(mine, must_wait);
            if (!g && !must_wait && self != nullptr && !m_core.is_local()) {
                if (!is_central()) enter_central_mode();  // the caches are empty: they stay so
                m_waiters.push(*self);
            }
            choose_sole(mine);
            if (!must_wait) return g;
            builds = await_build();
        }
        m_builds.wait(builds, std::memory_order_relaxed);
    }
}

POOLED_CODE bool recycle_list::settle(waiter& w, bool gives_up) noexcept {
    section const own(*this);
    return m_waiters.settle(w, gives_up);
}

POOLED_CODE bool recycle_list::put(void* p) noexcept {
    recycle_node const& n = node_of(p);
    if (m_index == k_far_slot) {
        far_pass const pass(m_core.id());
        if (pass && push_to(t_state.find(m_core.id()), p, n)) return true;
    }
    thread_cache* const mine = attach();
    waiter* to_wake = nullptr;
    {
        section const own(*this);
        if (n.generation != m_generation) return false;
        if (!m_waiters.grant_first({p}, to_wake)) {
            push_idle(p, mine);
            choose_sole(mine);
        }
    }
    waiter::wake(to_wake);
    return true;
}

POOLED_CODE std::size_t recycle_list::set_aside(std::size_t count) noexcept {
    section const own(*this);
    if (count <= m_objects) return 0;
    std::size_t const more = count - m_objects;
    m_objects = count;
    if (m_limits.grows_early) {
        m_builder = &t_state;
        m_to_build = more;
    }
    return more;
}

POOLED_CODE void recycle_list::add_used(void* p, counted before) noexcept {
    section const own(*this);
    node_of(p).set(m_limits.idle_count, m_generation);
    m_built.add(1);
    if (before == counted::as_built) add_outside();
}

POOLED_CODE void recycle_list::add(recycle_stack&& built, std::size_t missing, void* back) noexcept {
    bool is_awaited = false;
    for (bool is_done = false; !is_done;) {
        waiter* to_wake = nullptr;
        {
            section const own(*this);
            is_done = !grant_first_of(built, missing, to_wake);
            if (is_done) {
                m_built.add(built.size());
                m_objects.subtract(missing);
                recycle_stack& to = m_limits.grows_early ? m_idle : m_fresh;
                if (to.size() == 0) to.take_over(built);
                while (recycle_node* const n = built.pop())
                    to.push(*n);
                if (back != nullptr) push_idle(back, t_state.near_caches[m_index]);
                m_builder = nullptr;
                is_awaited = std::exchange(m_is_awaited, false);
                update_spare();
                if (is_awaited)
                    m_builds.store(m_builds.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            }
        }
        waiter::wake(to_wake);
    }
    if (is_awaited) m_builds.notify_all();
}

// False when no thread waits, or nothing is left.
inline bool recycle_list::grant_first_of(recycle_stack& built, std::size_t& missing,
                                         waiter*& to_wake) noexcept {
    if (m_waiters.empty()) return false;
    if (void* const p = taken(built.pop())) {
        add_outside();
        m_built.add(1);
        return m_waiters.grant_first({p}, to_wake);
    }
    if (missing == 0) return false;
    --missing;  // it counts the waiter's object
    return m_waiters.grant_first({nullptr, 1}, to_wake);
}

POOLED_CODE bool recycle_list::remove(counted how) noexcept {
    waiter* to_wake = nullptr;
    bool is_last = false;
    {
        section const own(*this);
        if (how == counted::as_used) m_outside.subtract(1);
        if (!m_waiters.grant_first({nullptr, 1}, to_wake)) m_objects.subtract(1);  // it counts the waiter's
        is_last = m_is_abandoned && m_objects == 0;
    }
    waiter::wake(to_wake);
    return is_last;
}

POOLED_CODE void recycle_list::lose(std::uint32_t of_generation) noexcept {
    section const own(*this);
    if (of_generation != m_generation) return;
    m_outside.subtract(1);
    m_objects.subtract(1);
    update_spare();
}

// Requires stopped caches, or no use of any other.
inline recycle_stack recycle_list::take_all_idle() noexcept {
    collect_all();
    recycle_stack all(std::move(m_idle));
    while (recycle_node* const n = m_fresh.pop())
        all.push(*n);
    return all;
}
inline void recycle_list::next_generation() noexcept {
    std::uint32_t const next = m_generation + recycle_node::k_step;
    m_generation = next != recycle_node::k_no_object ? next : k_generation;
}

POOLED_CODE recycle_stack recycle_list::take_idle(in_use what) noexcept {
    for (;;) {
        std::uint32_t builds = 0;
        {
            scoped_lock const lock(m_core.caches().mutex());
            m_core.caches().stop();
            m_sole = nullptr;
            bool const must_wait = what == in_use::disown && m_builder != nullptr;
            bool const was_central = is_central();
            recycle_stack all;
            if (!must_wait) {
                if (what != in_use::keep) next_generation();
                if (!was_central) m_cacheable = m_generation;
                recycle_stack taken_out = take_all_idle();
                all.take_over(taken_out);
                if (what == in_use::disown) {
                    m_outside = m_objects = 0;
                    m_builder = &t_state;
                    m_to_build = 0;
                }
            }
            m_core.caches().resume();
            if (!must_wait) return all;
            POOLED_CHECK(m_builder != &t_state,
                         "pooled: a pool was cleared by the constructor of one of its objects");
            builds = await_build();
        }
        m_builds.wait(builds, std::memory_order_relaxed);
    }
}

POOLED_CODE recycle_stack recycle_list::close() noexcept {
    scoped_lock const lock(m_core.caches().mutex());
    m_core.caches().stop();
    m_sole = nullptr;
    next_generation();
    m_cacheable = k_none;
    recycle_stack all = take_all_idle();
    m_core.caches().for_each([](thread_cache& cache) { cache.recycled.release(); });
    m_core.caches().resume();
    return all;
}

POOLED_CODE bool recycle_list::abandon() noexcept {
    section const own(*this);
    m_is_abandoned = true;
    return m_objects == 0;
}

// Reads without stopping the owners: an object may be counted in two places at that moment.
POOLED_CODE object_counts recycle_list::count() noexcept {
    scoped_lock const lock(m_core.caches().mutex());
    std::size_t const kept = m_idle.size() + m_fresh.size();
    return {.capacity = m_outside + kept,
            .idle = kept + detail::smaller<std::size_t>(held(), m_outside),
            .high_water = m_high_water,
            .waiting = m_waiters.size(),
            .built = m_built};
}
POOLED_CODE bool recycle_list::is_used_up() noexcept {
    scoped_lock const lock(m_core.caches().mutex());
    return m_idle.size() + m_fresh.size() + held() == 0 && next_growth() == 0;
}

POOLED_CODE void recycle_list::inspect_next(void (*look)(recycle_list const&, void const* p)) noexcept {
    thread_cache* const mine = attach();
    section const own(*this);
    POOLED_CHECK(m_idle.is_sound(), "pooled: an idle object was overwritten");
    void* const next = pop_idle(mine);
    if (next == nullptr) return;
    look(*this, next);
    push_idle(next, mine);
}

POOLED_CODE bool recycle_list::is_valid() noexcept {
    if (!m_core.is_valid()) return false;
    scoped_lock const lock(m_core.caches().mutex());
    m_core.caches().stop();
    std::size_t const cached = held();
    std::size_t const kept = m_idle.size() + m_fresh.size();
    bool const is_waiting_right = is_central() && kept + cached == 0 && m_objects == m_limits.bound;
    bool const valid = m_idle.is_valid() && m_fresh.is_valid() && cached <= m_outside &&
                       m_outside + kept <= m_objects && m_objects <= m_limits.bound &&
                       (m_limits.grows_early || m_outside + m_idle.size() <= m_high_water) &&
                       (!is_central() || cached == 0) && (m_waiters.empty() || is_waiting_right);
    m_core.caches().resume();
    return valid;
}

// The caches' lock is held.
void recycle_list::on_retire(thread_cache& cache) noexcept {
    if (m_sole == &cache) m_sole = nullptr;
    collect(cache.recycled);
    cache.recycled.release();
}
void recycle_list::after_fork_in_child() noexcept { m_waiters.clear(); }
POOLED_CODE bool recycle_list::forget_builder() noexcept {
    if (m_builder == nullptr || m_builder == &t_state) return false;
    m_builder = nullptr;
    m_objects.subtract(m_to_build);
    update_spare();
    return true;
}
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
