// SPDX-License-Identifier: BSL-1.0
#pragma once

// The objects of one pool that stay constructed between uses: which are idle and where, how many more may be built, and which threads
// wait for one. Who derives from the list knows what an object is: the list has it built and destroyed by virtual functions.
//
//   thread_cache::recycled (one per thread) ◀─ refill, flush: half a cache ─▶ m_idle       m_fresh: never acquired
//
// The list is in one of two modes.
//   cached    each thread keeps idle objects in its cache and takes no lock
//   central   the caches are empty and take none: under the lock it is known that no other object is idle, and a released object is
//             offered to the first waiter
// A thread that finds nothing enters central mode before it takes a fresh object, builds some, or waits, unless no other thread has a
// cache. So no idle object stays in another cache, and no more objects are built than were in use at once. Entering costs a system
// call when there are other threads, so the list stays in that mode until k_central_hits acquisitions in a row found an idle object.
// Objects enter a cache only if their generation is m_cacheable, which none has in central mode.
//
// As long as no thread but one has a cache of the core, that one takes no lock: m_sole is its cache, whose gate it enters instead. Any
// other thread first takes the lock and stops that gate (section).
//
// A list with `grows_early` has its next objects built when the last idle one is acquired, by one thread at a time. Others that find
// none wait for that thread, and for nothing else. When its objects are outdated, it forgets those in use.
//
// Invariants: m_objects = m_outside + idle + fresh + being built <= bound       outside: in a thread's cache, or with a caller
//             in use = m_outside − Σ held of the caches
//             someone waits ⇒ central mode; without an offer ⇒ all that is available has been offered to others
//             m_sole != null ⇒ no other cache was ever used, or all others were retired
// impl/object/recycle_operations.hpp has what is not inlined.
// Any thread may call; a local one's for one thread at a time. No user code, no upstream is called under the lock, which is that of
// the core's caches. O(1), but for entering central mode, discard() and count(): O(threads + idle objects).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/instrument/tracked.hpp"
#include "pooled/impl/object/wait_queue.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/options.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The eight bytes by which a recycled object is known. A link points into the object it links to, so tools that look for leaks follow
// it. Generations are multiples of k_step. For threads that own the object.
//
//   in use, or in a thread's cache   | generation | count |     count: for the object's handles
//   in a stack                       | link, with k_linked in its lowest bits |
struct alignas(8) recycle_node {
    static constexpr std::uint32_t k_no_object = 0;  // a generation
    static constexpr std::uint32_t k_step = 8;       // from one to the next

    std::uint32_t generation = k_no_object;
    atomic<std::uint32_t> count{0};

    void set(std::uint32_t count_now, std::uint32_t generation_now) noexcept {
        generation = generation_now;
        count.store(count_now, std::memory_order_relaxed);
    }
    [[nodiscard]] bool is_linked() const noexcept {
        return generation % k_step == k_linked &&
               count.load(std::memory_order_relaxed) >> k_address_bits == 0;
    }
    // Addresses have at most 56 bits. Compiled to one store, and one load: no other thread uses the count meanwhile.
    void link(recycle_node const* next) noexcept {
        std::uint64_t const word = address_of(next) | k_linked;
        halves const both{static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
        std::memcpy(static_cast<void*>(this), &both, sizeof(both));
    }
    [[nodiscard]] recycle_node* next() const noexcept {
        halves both;
        std::memcpy(&both, static_cast<void const*>(this), sizeof(both));
        std::uint64_t const word = std::uint64_t{both.high} << 32 | both.low;
        return reinterpret_cast<recycle_node*>(static_cast<std::uintptr_t>(word - k_linked));
    }

private:
    static constexpr std::uint32_t k_linked = 5;
    static constexpr unsigned k_address_bits = 24;  // of the upper half
    struct halves {
        std::uint32_t low;
        std::uint32_t high;
    };
};
static_assert(sizeof(recycle_node) == recycle_node::k_step && alignof(recycle_node) == recycle_node::k_step);

// Last in, first out. An object is linked to the one that was pushed eight before it: what is popped eight pops later is prefetched,
// as from an array. Requires a lock, or one thread; size() may be read at any time. O(1).
class recycle_stack {
public:
    [[nodiscard]] std::size_t size() const noexcept { return m_size; }

    POOLED_ALWAYS_INLINE void push(recycle_node& n) noexcept {
        std::size_t const size = m_size;
        n.link(std::exchange(m_tops[size % k_ways], &n));
        m_size = size + 1;
    }
    // The object pushed last, which the caller must set(); null when there is none.
    [[nodiscard]] POOLED_ALWAYS_INLINE recycle_node* pop() noexcept {
        std::size_t const size = m_size;
        if (size == 0) return nullptr;
        m_size = size - 1;
        recycle_node*& top = m_tops[(size - 1) % k_ways];
        recycle_node* const n = top;
        top = n->next();
        __builtin_prefetch(top, 1);
        return n;
    }

    // That its newest object was not overwritten.
    [[nodiscard]] bool is_sound() const noexcept {
        return m_size == 0 || m_tops[(m_size - 1) % k_ways]->is_linked();
    }
    // Walks the stack: for tests.
    [[nodiscard]] bool is_valid() const noexcept {
        std::array<recycle_node*, k_ways> tops = m_tops;
        for (std::size_t left = m_size; left-- != 0; tops[left % k_ways] = tops[left % k_ways]->next())
            if (tops[left % k_ways] == nullptr || !tops[left % k_ways]->is_linked()) return false;
        return true;
    }

private:
    static constexpr std::size_t k_ways = 8;

    observed<std::size_t> m_size;
    // [i]: the newest of those that were pushed when size % k_ways was i. Meaningless where there is none.
    std::array<recycle_node*, k_ways> m_tops{};
};

struct recycle_limits {
    std::size_t bound;   // objects at most
    std::size_t growth;  // how many are built at a time; 0: `initial`, when there is none
    double growth_factor = 1;
    std::size_t initial = 0;
    bool grows_early = false;
    std::size_t object_bytes = 0;
    std::size_t node_at = 0;       // bytes from an object's address to its node
    std::uint32_t idle_count = 0;  // of a node in a thread's cache
};
static_assert(sizeof(recycle_limits) == k_cache_line && sizeof(wait_queue) == 5 * sizeof(void*));

struct object_counts {
    std::size_t capacity = 0;
    std::size_t idle = 0;
    std::size_t high_water = 0;  // unless the list grows early
    std::size_t waiting = 0;
    std::uint64_t built = 0;
    std::size_t steps = 0;  // of growth, unless they failed, since the objects were outdated
};

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
            [[maybe_unused]] tracking::for_itself const block{};
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
            return pop_from(t_state().near_caches[m_index], Early ? std::uint32_t{m_spare} : 0);
        else
            return m_core.local_cache().recycled.pop_above(0);
    }
    // False when the thread has no cache, or one that is full or may not be used, or when the object is of an earlier generation;
    // the caller then has it still. Otherwise the pool may no longer exist.
    template <sharing Sharing>
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push(void* p, recycle_node const& n) noexcept {
        if constexpr (Sharing == sharing::shared)
            return push_to(t_state().near_caches[m_index], p, n);
        else
            return n.generation == m_cacheable && m_core.local_cache().recycled.push_below(k_all, p);
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
    // Destroys all idle objects, wherever they are, and returns their number. Of the objects in use:
    enum class in_use {
        keep,     // nothing changes
        outdate,  // they are destroyed when they are released
        close,    // the same, for the last time: nothing is cached from now on
    };
    POOLED_API std::size_t discard(in_use what) noexcept;
    // The pool's handle is destroyed: the list ends with its last object.
    POOLED_API void close() noexcept;

    [[nodiscard]] POOLED_API object_counts count() noexcept;
    // No object is idle, and none may be built, or there was no memory for the last one.
    [[nodiscard]] POOLED_API bool is_used_up() noexcept;
    // Calls `look` on the object that this thread would get, unless that is in another thread's cache, under the lock.
    POOLED_API void inspect_next(void (*look)(recycle_list const&, void const* p)) noexcept;
    [[nodiscard]] POOLED_API bool is_valid() noexcept;

    void on_retire(thread_cache& cache) noexcept override { retire(cache); }
    void after_fork_in_child() noexcept override { forget_threads(); }

protected:
    ~recycle_list() = default;
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

    // What a thread got under the lock: an object, permission to build some, which count under the bound from now on, both, or nothing.
    struct grant {
        void* object = nullptr;
        std::size_t to_build = 0;
    };
    class section;
    POOLED_API void retire(thread_cache& cache) noexcept;
    POOLED_API void forget_threads() noexcept;
    [[nodiscard]] recycle_node& node_of(void* p) const noexcept {
        return *reinterpret_cast<recycle_node*>(static_cast<std::byte*>(p) + m_limits.node_at);
    }
    // Null for null.
    [[nodiscard]] void* object_of(recycle_node* n) const noexcept {
        return n != nullptr ? reinterpret_cast<std::byte*>(n) - m_limits.node_at : nullptr;
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* attach() noexcept;
    [[nodiscard]] bool is_central() const noexcept { return m_cacheable != m_generation; }
    [[nodiscard]] bool is_only(thread_cache const* mine) const noexcept;
    void choose_sole(thread_cache* mine) noexcept;
    [[nodiscard]] POOLED_ALWAYS_INLINE grant take_locked(thread_cache* mine, waiter const* self) noexcept;
    [[nodiscard]] bool may_wait() const noexcept;
    [[nodiscard]] POOLED_ALWAYS_INLINE recycle_stack build(std::size_t count, bool all, void* own);
    [[nodiscard]] void* add(recycle_stack& built, std::size_t missing, bool takes_one) noexcept;
    std::size_t destroy_all(recycle_stack& objects) noexcept;
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
    void add_outside() noexcept;
    [[nodiscard]] std::size_t held() noexcept;
    [[nodiscard]] std::size_t available() const noexcept;
    [[nodiscard]] std::size_t next_growth() const noexcept;
    void begin_step(std::size_t count) noexcept;
    void update_spare() noexcept;

    pool_core& m_core;
    std::uint32_t const m_index;                        // in thread_state::near_caches
    observed<std::uint32_t> m_cacheable{k_generation};  // the generation, or k_none
    observed<std::uint32_t> m_generation{k_generation};
    observed<std::uint32_t> m_spare;  // how many objects a thread's cache keeps for take()
    static constexpr std::uint32_t k_generation = recycle_node::k_no_object + recycle_node::k_step;

    alignas(k_cache_line) recycle_limits const m_limits;
    // Two cache lines with all that most acquisitions and releases under the lock write: threads that wait for one another pass these on.
    wait_queue m_waiters;
    observed<std::size_t> m_objects;
    observed<std::size_t> m_outside;
    std::uint32_t m_hits = 0;  // acquisitions in a row that found an idle object
    std::uint32_t const m_cache_capacity;
    recycle_stack m_idle;

    recycle_stack m_fresh;
    observed<thread_cache*> m_sole;
    observed<bool> m_is_short;  // the last growth failed because memory ran out
    observed<std::size_t> m_high_water;
    observed<std::uint64_t> m_built;  // ever
    std::size_t m_others = 1;         // objects in use that were forgotten, and the pool's handle
    observed<std::size_t> m_steps;
    thread_state const* m_builder = nullptr;  // of a list that grows early
    std::size_t m_to_build = 0;               // by that thread
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
