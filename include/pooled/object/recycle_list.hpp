// SPDX-License-Identifier: BSL-1.0
#pragma once

// The objects of one pool that stay constructed between uses: which are idle and where, how many more may be built, and which threads
// wait for one. Who derives from the list knows what an object is: the list has it built and destroyed by virtual functions.
//
//   thread_cache::recycled (one per thread) ◀─ refill, flush: half a cache ─▶ m_idle       m_fresh: never acquired
//
// docs/object-pool.md describes its two modes, cached and central. Objects enter a cache only if their generation is m_cacheable, which none
// has in central mode. A thread that may build objects does not wait for one that was preempted inside its gate: it builds, and the list
// stays as it is.
//
// Nor does a thread wait for the lock while its holder does not run: it leaves a released object in m_left, takes one from there, or builds
// one. Whoever has the lock next settles that, or has it now. A thread that waits in the queue needs the lock, as does one that would
// report that there is none, or that belongs to another copy of the library, which has other metadata.
//
// Invariants: m_objects = existing() + being built <= bound
//             existing() = outside() + idle + fresh; outside: in a thread's cache, with a caller, or in m_left
//             in use = outside() − Σ held of the caches, when m_left is settled
//             m_left_size >= objects in m_left, or taken from there to be put back
//             someone waits ⇒ central mode; without an offer ⇒ all that is available has been offered to others
//             a cache has more space than its share (k_cache_share) ⇒ its thread was the only one when it got that
// Any thread may call; a local one's for one thread at a time. No user code, no upstream is called under the lock, which is that of
// the core's caches. recycle_list_slow.hpp has what no cache serves. O(1), but for entering central mode, discard() and count(): O(threads
// + idle objects).

#include "pooled/cache/class_cache.hpp"
#include "pooled/cache/deferred_blocks.hpp"
#include "pooled/cache/gate.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/object/recycle_stack.hpp"
#include "pooled/object/wait_queue.hpp"
#include "pooled/options.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/registry.hpp"
#if POOLED_HAS_CODE
#include "pooled/cache/cache_set.hpp"
#include "pooled/inspect/own_record.hpp"
#include "pooled/os/fork_gate.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/pool/foreign.hpp"
#endif

#include <memory>

POOLED_BEGIN_DETAIL

struct recycle_limits {
    std::size_t bound;   // objects at most
    std::size_t growth;  // how many are built at a time; 0: who derives from the list builds them
    double growth_factor = 1;
    std::size_t object_bytes = 0;
    std::size_t node_at = 0;       // bytes from an object's address to its node
    std::uint32_t idle_count = 0;  // of a node in a thread's cache
};
static_assert(sizeof(wait_queue) == 5 * sizeof(void*));

class recycle_list : public pool_extension {
public:
    POOLED_API recycle_list(pool_core& core, recycle_limits const& limits) noexcept;

    // A Derived(core, limits, arguments...), which must not throw, in a block of a core of its own: the core lasts until the list ends,
    // and ends with that block if it is closed by then. Throws std::bad_alloc, and what upstream and building `initial` objects throw.
    template <class Derived, sharing Sharing, class... Arguments>
    [[nodiscard]] static Derived& make(pool_options const& options, recycle_limits const& limits,
                                       std::size_t initial, Arguments&&... arguments) {
        pool_core& core = g_registry.make(options, Sharing);
        void* memory = nullptr;
        POOLED_TRY {
            memory =
                detail::allocate_bytes_or_throw(in_pool<Sharing>(core), sizeof(Derived), alignof(Derived));
        }
        POOLED_CATCH(...) {
            core.close();
            POOLED_RETHROW;
        }
        auto& made = *::new (memory) Derived(core, limits, std::forward<Arguments>(arguments)...);
        core.exchange_extension(nullptr, std::addressof(made));
        POOLED_TRY { made.recycle_list::reserve(initial); }
        POOLED_CATCH(...) {
            made.close();
            POOLED_RETHROW;
        }
        return made;
    }

    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    [[nodiscard]] std::size_t bound() const noexcept { return m_limits.bound; }
    // Objects of an earlier generation are destroyed when they are released.
    [[nodiscard]] std::uint32_t generation() const noexcept { return m_generation; }

    // An idle object that the calling thread has cached, or null.
    template <sharing Sharing>
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop() noexcept {
        if constexpr (Sharing == sharing::shared)
            return pop_from(POOLED_THREAD_GET_AT(t_state, near_caches, m_index));
        else
            return m_core.local_cache().recycled.pop();
    }
    // False when the thread has no cache, or one that is full or may not be used, or when the object is of an earlier generation;
    // the caller then has it still. Otherwise the pool may no longer exist.
    template <sharing Sharing>
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push(void* p, recycle_node const& n) noexcept {
        if constexpr (Sharing == sharing::shared)
            return push_to(POOLED_THREAD_GET_AT(t_state, near_caches, m_index), p, n);
        else
            return n.generation == m_cacheable && m_core.local_cache().recycled.push(p);
    }

    // The result of a request: an object, or why there is none. is_used_up: the bound was reached and, at one moment, no object was
    // idle. must_wait: the same, and the waiter is in the queue.
    enum class outcome : unsigned char { is_served, is_used_up, must_wait, is_out_of_memory };
    struct found {
        void* object = nullptr;
        outcome how = outcome::is_served;
    };
    // Called when pop() had no object. Finds one or builds some, and throws what that throws; the list is then as before. A waiter may
    // have to wait, unless it `gives_up`, or the list is local.
    [[nodiscard]] POOLED_API found take(waiter* self = nullptr, bool gives_up = false);
    // The same, but waits as long as `deadline` says.
    template <class Deadline>
    [[nodiscard]] found wait(Deadline const& deadline) {
        waiter self;
        found result = take(&self);
        while (result.how == outcome::must_wait)
            result = take(&self, !self.wait(deadline));
        return result;
    }
    // Called when push() did not take the object, which is destroyed if it is of an earlier generation. The list may be gone then.
    POOLED_API void put(void* p) noexcept;
    // An object in use, of that generation, was destroyed; the first waiter may build one in its place. The list may be gone then.
    POOLED_API void remove(std::uint32_t generation) noexcept;
    // An object in use was built anew in its place.
    POOLED_API void renew(void* p) noexcept;

    // Builds objects until there are `count`: all, or none. Throws std::bad_alloc, and what upstream and building one throw.
    POOLED_API void reserve(std::size_t count);
    // Destroys the idle objects, wherever they are, and returns their number; unless objects in use are to go, too, those in a cache
    // whose owner is inside its gate stay. Of the objects in use:
    enum class in_use {
        keep,     // nothing changes
        outdate,  // they are destroyed when they are released
        forget,   // the same, and until then they do not count
        close,    // the same, for the last time: nothing is cached from now on
    };
    POOLED_API std::size_t discard(in_use what) noexcept;
    // The pool's handle is destroyed: the list ends with its last object.
    POOLED_API void close() noexcept;

    // All but the name and the memory.
    [[nodiscard]] POOLED_API object_pool_stats count() noexcept;
    [[nodiscard]] POOLED_API bool is_valid() noexcept;

    void on_retire(thread_cache& cache) noexcept override { retire(cache); }
    void after_fork_in_child() noexcept override { m_waiters.clear(); }  // they do not exist there
    void begin_anew() noexcept override { forget_objects(); }

protected:
    ~recycle_list() = default;
    // Objects that are idle from now on, of a list whose growth is 0.
    POOLED_API void add_idle(recycle_stack& built) noexcept;
    // Until there are `count`, or memory has run out. Throws what building an object throws; what upstream throws, std::bad_alloc only if
    // `all` are needed.
    virtual void build_objects(recycle_stack& built, std::size_t count, bool all) = 0;
    virtual void destroy_one(void* p) noexcept = 0;
    // Calls destroy() on the list, to which no other thread can refer.
    virtual void end() noexcept = 0;
    template <sharing Sharing, class Derived>
    static void destroy(Derived& one) noexcept {
        pool_core& core = one.m_core;
        core.exchange_extension(std::addressof(one), nullptr);
        one.~Derived();
        detail::deallocate_bytes(in_pool<Sharing>(core), std::addressof(one), sizeof(Derived),
                                 alignof(Derived));
    }

private:
    friend record_access;
    static constexpr std::uint32_t k_none = ~std::uint32_t{0};  // the generation of no object
    // An acquisition from the central list takes some 15 ns more than one from a cache: so many cost as much as entering central mode, a
    // barrier on all threads of 1 to 20 µs.
    static constexpr std::uint32_t k_central_hits = 1024;
    // A thread that is not the only one caches so much of a bounded pool.
    static constexpr std::size_t k_cache_share = 16;
    static constexpr std::uint32_t k_max_cached = 128;
    // The only thread caches so many. The second one collects all of them under the lock: 4,096 took 0.13 ms, and once 2.2.
    static constexpr std::uint32_t k_max_alone = 1024;

    [[nodiscard]] static POOLED_ALWAYS_INLINE void* pop_from(thread_cache* cache) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return nullptr;
        void* const p = cache->recycled.pop();
        cache->gate.leave();
        return p;
    }
    // m_cacheable is read inside the gate: it changes while all are stopped, or to let more objects in.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_to(thread_cache* cache, void* p,
                                                    recycle_node const& n) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return false;
        bool const is_pushed = n.generation == m_cacheable && cache->recycled.push(p);
        cache->gate.leave();
        return is_pushed;
    }

    // What a thread got under the lock: an object, permission to build some, which count under the bound from now on, or nothing.
    struct grant {
        void* object = nullptr;
        std::size_t to_build = 0;
        bool needs_central_mode = false;  // first: an object may be idle in another thread's cache
    };
    POOLED_API void retire(thread_cache& cache) noexcept;
    POOLED_API void forget_objects() noexcept;
    // Whether an object in use does not count any more.
    [[nodiscard]] bool is_forgotten(std::uint32_t generation) const noexcept {
        return static_cast<std::int32_t>(generation - m_first_counted) < 0;
    }
    [[nodiscard]] recycle_node& node_of(void* p) const noexcept {
        return *reinterpret_cast<recycle_node*>(static_cast<std::byte*>(p) + m_limits.node_at);
    }
    // Null for null.
    [[nodiscard]] void* object_of(recycle_node* n) const noexcept {
        return n != nullptr ? reinterpret_cast<std::byte*>(n) - m_limits.node_at : nullptr;
    }
    [[nodiscard]] bool is_central() const noexcept { return m_cacheable != m_generation; }

#if POOLED_HAS_CODE
    // A critical section. Requires the lock, and frees it. What it made available is offered to a waiter at its end.
    class section {
    public:
        explicit section(recycle_list& list) noexcept : m_list(list) {}
        POOLED_ALWAYS_INLINE ~section() {
            waiter* const to_wake =
                m_list.m_waiters.empty() ? nullptr : m_list.m_waiters.offer(m_list.available());
            m_list.m_core.caches().unlock();
            waiter::wake(to_wake);
        }
        section& operator=(section&&) = delete;

    private:
        recycle_list& m_list;
    };

    // The calling thread's cache, made if it has none; null when it can have none. One of a foreign core grows in its own copy only.
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* attach() noexcept {
        thread_cache* const mine = t_state().near_caches[m_index];
        if (mine != nullptr && mine->gate.is_open()) return mine;
        if (m_core.is_local()) return &m_core.local_cache();
        if (!detail::is_foreign(m_core) && m_core.caches().is_at_bound()) m_core.memory().try_leave_bound();
        return detail::is_foreign(m_core) ? nullptr : g_registry.attach(m_core);
    }

    // The functions that follow require a section.

    // No other thread has a cache.
    [[nodiscard]] bool is_only(thread_cache const* mine) const noexcept {
        return m_core.caches().first() == mine && (mine == nullptr || mine->links.next == nullptr);
    }
    [[nodiscard]] std::uint32_t cache_capacity(std::size_t share, std::uint32_t most) const noexcept {
        return static_cast<std::uint32_t>(detail::clamp<std::size_t>(m_limits.bound / share, 2, most));
    }
    // False: the cache already has as much space as it may have, or there is no memory; or the core is foreign, and its copy of the
    // library has the arena of its caches' arrays.
    bool grow(thread_cache& mine) noexcept {
        if (detail::is_foreign(m_core)) return false;
        std::uint32_t const now = mine.recycled.capacity();
        std::uint32_t const most = is_only(&mine)
                                       ? cache_capacity(1, detail::clamp(2 * now, k_max_cached, k_max_alone))
                                       : cache_capacity(k_cache_share, k_max_cached);
        return now < most && mine.recycled.reserve(most);
    }
    // Objects are outside that never were before.
    void note_high_water() noexcept {
        m_high_water = detail::larger<std::size_t>(m_high_water, outside() + m_idle.size());
    }
    // The object that was popped from a stack; null for null.
    void* taken(recycle_node* n) noexcept {
        if (n != nullptr) n->set(m_limits.idle_count, m_generation);
        return object_of(n);
    }
    void flush(class_cache& cache, std::uint32_t n) noexcept;
    void collect(class_cache& cache) noexcept;
    // Collects those that are stopped.
    void collect_all() noexcept {
        m_core.caches().for_each_stopped([this](thread_cache& cache) { collect(cache.recycled); });
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE std::size_t held() noexcept {
        std::size_t sum = 0;
        m_core.caches().for_each([&sum](thread_cache const& cache) { sum += cache.recycled.held(); });
        return sum;
    }
    // An idle object of the caller's cache or the list; null when there is none. An empty cache is refilled: what is at the list's front is
    // also the first to leave the cache.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_idle(thread_cache* mine) noexcept;
    void refill(thread_cache& mine) noexcept;
    void push_idle(void* p, thread_cache* mine) noexcept;
    // Unless an owner is inside its gate, or a thread in apart(); what the other caches hold is idle then.
    void try_central_mode() noexcept;
    // Of so many objects. The product may be larger than any size: it is compared as it is.
    [[nodiscard]] POOLED_ALWAYS_INLINE std::size_t next_growth(std::size_t objects) const noexcept;
    void begin_generation() noexcept {
        std::uint32_t const next = m_generation + recycle_node::k_step;
        m_generation = next != recycle_node::k_no_object ? next : k_generation;
    }
    // How many threads that wait may look for an object: as many as objects are there, or may be built.
    [[nodiscard]] POOLED_ALWAYS_INLINE std::size_t available() const noexcept {
        return m_idle.size() + m_fresh.size() + (m_limits.bound - objects());
    }
    // Empty: no object is idle in the list (in central mode: anywhere), none may be built, or what there is was offered to others.
    [[nodiscard]] POOLED_ALWAYS_INLINE grant take_locked(thread_cache* mine, waiter const* self) noexcept;

    void add_to_caches() noexcept {
        m_core.caches().add_recycled(this,
                                     [](void* list) noexcept { static_cast<recycle_list*>(list)->settle(); });
    }
    // The caches call it: what other threads did without the lock becomes part of the list.
    void settle() noexcept;
    // Afterwards each owner is outside its gate, and each thread outside apart(), until resume(). Gives up the lock while it waits.
    void stop_every() noexcept {
        for (unsigned attempt = 0;; m_core.caches().wait_unlocked(attempt++)) {
            m_core.caches().stop_every();
            m_is_barred.store(true, std::memory_order_relaxed);
            if (m_core.caches().are_all_outside()) return;
            m_is_barred.store(false, std::memory_order_relaxed);
        }
    }
    void resume() noexcept {
        m_is_barred.store(false, std::memory_order_release);  // pairs with the acquire in apart()
        m_core.caches().resume();
    }
    // An object may be idle in another thread's cache, or in its hands.
    [[nodiscard]] bool is_elsewhere(thread_cache const* mine) const noexcept {
        return m_left_size.load(std::memory_order_relaxed) != 0 || (!is_central() && !is_only(mine));
    }

    // These are called in no section.

    [[nodiscard]] std::size_t objects() const noexcept { return m_objects.load(std::memory_order_relaxed); }
    [[nodiscard]] std::size_t existing() const noexcept {
        return m_references.load(std::memory_order_relaxed) - m_others;
    }
    void count_built(std::size_t count) noexcept {
        m_built.fetch_add(count, std::memory_order_relaxed);
        m_references.fetch_add(count, std::memory_order_relaxed);
    }
    // Clamped, because another thread may have changed only one of them.
    [[nodiscard]] std::size_t outside() const noexcept {
        return saturating_subtract(existing(), m_idle.size() + m_fresh.size());
    }
    // Counts as many objects more as `more(objects)` says, and returns that.
    template <class More>
    [[nodiscard]] POOLED_ALWAYS_INLINE std::size_t claim(More&& more) noexcept;
    void unclaim(std::size_t count) noexcept {
        if (count != 0) m_objects.fetch_sub(detail::smaller(count, objects()), std::memory_order_relaxed);
    }
    // acq_rel: what others did happens before the end, in which exchange_extension() waits for the thread that has the lock.
    void drop_references(std::size_t count) noexcept {
        if (m_references.fetch_sub(count, std::memory_order_acq_rel) == count) end();
    }
    // Takes the lock. False: it did not, because another thread has it and does not run, and `apart()` did without.
    template <class Apart>
    [[nodiscard]] POOLED_ALWAYS_INLINE bool lock_or(Apart&& apart);
    // What take(), put() and add() do while another thread has the lock, and does not run. Null, false: it must wait.
    [[nodiscard]] void* take_apart();
    [[nodiscard]] bool put_apart(void* p) noexcept;
    [[nodiscard]] bool add_apart(recycle_stack& built, void** taken_one) noexcept;
    // Called in apart(). False: there is no memory.
    [[nodiscard]] bool leave(void* p) noexcept;
    // The result of work(), an outsider of the caches, which the lock's holder settles. Whoever changes what work() reads waits for the end
    // of that. False, too, when m_is_barred.
    template <class Work>
    bool apart(Work&& work) noexcept {
        bool is_done = false;
        m_core.caches().as_outsider([&] {
            // acquire: pairs with the release that ends the bar.
            if (m_is_barred.load(std::memory_order_acquire)) return;
            is_done = work();
            m_core.caches().tell_holder();  // what was left may have been in no list meanwhile
        });
        return is_done;
    }
    // Builds `count` objects, which the list counts already, in no section. When memory has run out, returns none, or those that were built
    // until then, unless it needs all.
    [[nodiscard]] POOLED_ALWAYS_INLINE recycle_stack build(std::size_t count, bool all);
    // The end of a growth: so many were built, and `missing` are not. The caller may take one.
    [[nodiscard]] void* add(recycle_stack& built, std::size_t missing, bool takes_one) noexcept;
    std::size_t destroy_all(recycle_stack& objects) noexcept;
#endif

    pool_core& m_core;
    std::uint32_t const m_index;                        // in thread_state::near_caches
    observed<std::uint32_t> m_cacheable{k_generation};  // the generation, or k_none
    observed<std::uint32_t> m_generation{k_generation};
    static constexpr std::uint32_t k_generation = recycle_node::k_no_object + recycle_node::k_step;

    alignas(k_cache_line) recycle_limits const m_limits;
    // Two cache lines with all that most acquisitions and releases under the lock write: threads that wait for one another pass these on.
    alignas(k_cache_line) wait_queue m_waiters;
    atomic<std::size_t> m_objects{0};
    std::uint32_t m_hits = 0;  // acquisitions in a row that found an idle object
    recycle_stack m_idle;

    recycle_stack m_fresh;
    observed<std::size_t> m_high_water;
    atomic<std::uint64_t> m_built{0};     // ever
    atomic<std::size_t> m_references{1};  // objects that exist, and m_others. The last one ends the list
    observed<std::size_t> m_others{1};    // objects that were forgotten, and the pool's handle
    atomic<std::size_t> m_others_gone{0};
    std::uint32_t m_first_counted = k_generation;  // the oldest generation of objects that are not forgotten
    deferred_list m_left;                          // of this generation, or never acquired
    atomic<std::size_t> m_left_size{0};
    atomic<bool> m_is_barred{false};  // under the lock alone
};

POOLED_END_DETAIL
