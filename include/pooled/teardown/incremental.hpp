// SPDX-License-Identifier: BSL-1.0
#pragma once

// teardown::incremental, as options.hpp says. An allocation that finds no memory drains, then waits for what other threads are destroying,
// unless they wait themselves.
//
//   drop ─▶ thread_cache::deferred ─▶ destroy_one       one for each thread and pool
//                ▲        │
//      a queue   │        ▼ keep_all: those of all threads
//                 m_kept           of threads that have ended, too
//
// Objects leave a queue one at a time, so every thread can take all but those that are being destroyed.
//
// A thread's part is changed by that thread inside the gate of its cache, or under the lock of the pool's caches by a thread that has
// stopped the gate; m_kept under that lock. No destructor runs inside a gate or under a lock of the library. A fibre must not change
// threads within a destructor that one of these functions runs. O(1), except keep_all: O(threads).

#include "pooled/instrument/malloc_backed.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/teardown/deferred_queue.hpp"
#include "pooled/teardown/teardown.hpp"
#if POOLED_HAS_CODE
#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/inspect/own_record.hpp"
#include "pooled/os/fork_gate.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/foreign.hpp"
#endif

POOLED_BEGIN_DETAIL

// Destroys up to `budget` objects of a list of queues, including those that they alone kept alive, and frees the queues that are then
// empty. Returns the number of objects.
[[nodiscard]] POOLED_API std::size_t finish_queues(deferred_queue*& list, std::size_t budget) noexcept;

// Before an object is made in a pool that is not immediate: whether it will be deferred. Only the copy of the library that made
// the pool can defer; objects that another copy makes in it are destroyed immediately. Throws std::bad_alloc.
[[nodiscard]] POOLED_API bool prepare_deferral(pool_core& core);

// Defers an object of a pool that is not immediate, or else destroys it.
POOLED_API void defer_or_finish(deferred d, void const* object, std::size_t object_bytes) noexcept;

[[nodiscard]] POOLED_ALWAYS_INLINE pool_core& core_of(void const* block) noexcept {
    return *g_registry.find(malloc_blocks::find_owned(block).pool_id());
}
[[nodiscard]] inline bool is_incremental(void const* p) noexcept { return core_of(p).is_incremental(); }

#if POOLED_HAS_CODE

// A drain in progress, on the stack of its caller.
class deferred_objects;
struct pool_drain {
    deferred_objects* of;  // null: a destructor that it ran has destroyed the pool
    list_links<pool_drain> links;
};

// Constant-initialised and trivially destructible, so it works until the thread has ended.
struct thread_deferrals {
    // A deferred object is being destroyed: drops and allocations in its destructor destroy no other.
    bool is_destroying = false;
    bool is_armed = false;   // finish_thread() will run
    bool has_ended = false;  // it has run: the thread defers nothing any more, unless it drains
    unsigned reliefs = 0;    // that allocations without memory run, each in a destructor of the one before
    intrusive_list<pool_drain> drains;  // a fibre's may end before one that began later
};
POOLED_THREAD_STATE(thread_deferrals, t_deferrals, {});

class deferred_objects final : public pool_extension {
public:
    explicit deferred_objects(pool_core& core) noexcept;

    // False: the object must be destroyed now, because the thread or the pool is ending, or there is no memory to record it.
    [[nodiscard]] bool defer(deferred d, void const* object, std::size_t object_bytes) noexcept {
        thread_cache* mine = own_or_made();
        // Before the object is recorded: until then it keeps the pool, which a destructor or another thread may destroy.
        if (mine != nullptr && mine->deferred.size > k_kept_objects) [[unlikely]] {
            step(mine, objects_per_drop(mine->deferred.size));
            mine = own_or_made();
        }
        if (mine == nullptr) return false;
        section const own(*this, *mine);
        thread_deferred& to = mine->deferred;
        if (m_is_closed || (to.queue == nullptr && !make_queue(to))) return false;
        if (!to.queue->push(d, object, object_bytes)) return false;
        to.size = to.queue->size();
        return true;
    }

    [[nodiscard]] deferred_queue* take_deferred() noexcept override {
        scoped_lock const lock(m_core.caches());
        if (is_any_deferred()) keep_all();
        return std::exchange(m_kept, observed<deferred_queue*>());
    }

    struct progress {
        std::uint64_t destroyed = 0;
        bool is_any_left = false;  // deferred, or being destroyed by a thread that is not waiting itself
    };
    // Reads the counts in the order in which an object passes through them: deferred, in destruction, destroyed. So an object that
    // was there when the caller began is seen in at least one of them.
    [[nodiscard]] progress look() noexcept {
        scoped_lock const lock(m_core.caches());
        progress now{m_destroyed, m_kept != nullptr || is_any_deferred()};
        std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the fence in take_one()
        m_core.caches().for_each([&](thread_cache const& each) {
            thread_deferred const& one = each.deferred;
            if (one.begun != one.ended && !each.owner->is_waiting) now.is_any_left = true;
            now.destroyed += one.ended;
        });
        std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the fence in end_one()
        return now;
    }

    // The calling thread ends. Destructors may defer more, in any pool, until nothing is left.
    static void finish_thread() noexcept {
        t_deferrals().is_destroying = true;  // allocations in destructors then destroy nothing themselves
        t_deferrals().drains = {};           // a destructor that a drain ran may have called exit()
        for (bool is_any = true; std::exchange(is_any, false);)
            for (thread_cache* each = t_state().owned.first(); each != nullptr;) {
                deferred next;
                deferred_objects* of = nullptr;  // the object keeps its pool
                bool is_taken = false;
                // The pool is not closed meanwhile. When it begins to be, on_close() has taken all that was deferred.
                if (fork_pass const pass; each->deferred.size != 0) {
                    each->gate.announce();
                    if (!each->gate.is_closing() && !each->gate.is_closed())
                        of = static_cast<deferred_objects*>(each->core->extension());
                    if (of == nullptr)
                        each->gate.leave();
                    else
                        each->core->caches().as_outsider([&] {
                            each->gate.leave();
                            is_taken = of->take_one(*each, next);
                        });
                }
                is_any |= is_taken;
                each = is_taken ? of->destroy(next) : t_state().owned.after(*each);
            }
        t_deferrals().has_ended = true;
        t_deferrals().is_armed = false;
    }

    void on_allocate() noexcept override {
        thread_cache* mine = own();
        if (mine == nullptr || mine->deferred.size == 0) {
            if (m_kept == nullptr) [[likely]]  // a hint
                return;
            mine = collect();
        }
        step(mine, k_objects_per_allocation);
    }

    std::size_t drain(std::size_t budget) noexcept override {
        std::size_t done = 0;
        thread_cache* mine = own();
        pool_drain self{this, {}};
        t_deferrals().drains.push_front(self);
        while (done != budget && self.of != nullptr) {
            deferred next;
            if (mine == nullptr || !take_one(*mine, next)) {
                if (mine = collect(); mine != nullptr) continue;
                if (!take_kept(next)) break;
            }
            mine = destroy(next);
            ++done;
        }
        t_deferrals().drains.remove(self);
        if (t_deferrals().drains.empty() && t_state().ended) g_registry.end_thread(&t_state());
        return done;
    }

    bool relieve(std::uint64_t& seen) noexcept override {
        if (t_deferrals().reliefs >= k_nested_reliefs) return false;
        for (unsigned attempt = 0;; ++attempt) {
            ++t_deferrals().reliefs;
            std::size_t const done = drain(k_objects_per_retry);
            --t_deferrals().reliefs;
            if (done != 0) return true;
            // Other threads must not wait for the objects that this one is destroying, in any pool.
            t_state().is_waiting = true;
            progress const now = look();
            bool const is_over = now.destroyed != seen || !now.is_any_left || fork_gate::is_passed();
            if (!is_over) platform::pause(attempt);
            t_state().is_waiting = false;
            if (is_over) return std::exchange(seen, now.destroyed) != now.destroyed;
            POOLED_EXPENSIVE_CHECK(
                attempt < k_attempts_before_report,
                "pooled: an allocation from an exhausted incremental pool has waited long for a "
                "destructor that another thread runs; does that destructor wait for a lock which is "
                "held around this allocation?");
        }
    }

    // Destroys all deferred objects; later ones are not deferred any more.
    void on_close() noexcept override {
        drain(~std::size_t{0});
        {
            scoped_lock const lock(m_core.caches());
            m_core.caches().stop_every();
            m_is_closed = true;
            keep_all();
        }
        for (pool_drain& each : t_deferrals().drains)  // those around the destructor that destroys the pool
            if (each.of == this) each.of = nullptr;
        deferred_queue* rest = take_deferred();
        static_cast<void>(detail::finish_queues(rest, ~std::size_t{0}));
    }
    void on_destroy() noexcept override { g_metadata.deallocate(this, sizeof(deferred_objects)); }
    // What was deferred is never destroyed there.
    void begin_anew() noexcept override {
        m_kept = static_cast<deferred_queue*>(nullptr);
        m_destroyed = 0;
    }
    void on_retire(thread_cache& cache) noexcept override {
        keep(cache.deferred);
        m_destroyed += cache.deferred.ended;
    }

private:
    friend record_access;
    // Objects destroyed at an allocation: more than one, so that their number decreases; few, so that it stays fast.
    static constexpr std::size_t k_objects_per_allocation = 4;
    // How deeply allocations may nest in destructors that such allocations run: the innermost reports exhaustion.
    static constexpr unsigned k_nested_reliefs = 8;
    static constexpr unsigned k_attempts_before_report = 200'000;  // 10 s and more

    // How many objects a drop destroys when `size` are deferred already: none up to k_kept_objects, then enough that a thread which only
    // drops structures of n objects has at most 64 n deferred; at most 128, so this holds for n up to 128.
    static constexpr std::size_t k_kept_objects = 1024;
    [[nodiscard]] static constexpr std::size_t objects_per_drop(std::size_t size) noexcept {
        return detail::smaller<std::size_t>(size / 64, 128);
    }

    // Only the caller uses its part. Keeps forks out, because the caller may take the arena's lock inside, and so that a child finds all
    // queues complete.
    class section {
    public:
        POOLED_ALWAYS_INLINE section(deferred_objects& all, thread_cache& mine) noexcept
            : m_all(all), m_gate(mine.gate), m_is_in_gate(m_gate.enter()) {
            if (!m_is_in_gate) lock();
        }
        POOLED_ALWAYS_INLINE ~section() { m_is_in_gate ? m_gate.leave() : unlock(); }
        section& operator=(section&&) = delete;

    private:
        POOLED_NOINLINE void lock() noexcept { m_all.m_core.caches().lock(); }
        POOLED_NOINLINE void unlock() const noexcept { m_all.m_core.caches().unlock(); }

        fork_pass m_pass;
        deferred_objects& m_all;
        detail::gate& m_gate;
        bool m_is_in_gate;
    };

    // The calling thread's cache of the pool, or null.
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* own() noexcept {
        return m_core.is_local() ? &m_core.local_cache() : t_state().find(m_core.id());
    }
    // Null when the thread can have none, because it or the pool is ending, or memory has run out.
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* own_or_made() noexcept {
        thread_cache* const mine = own();
        bool const is_usable = mine != nullptr && mine->gate.is_open() && t_deferrals().is_armed;
        return is_usable || m_core.is_local() ? mine : make_own();
    }
    [[nodiscard]] POOLED_NOINLINE thread_cache* make_own() noexcept {
        if (t_deferrals().has_ended && t_deferrals().drains.empty()) return nullptr;
        thread_cache* const mine = g_registry.attach(m_core, !t_deferrals().drains.empty());
        if (mine != nullptr && !t_deferrals().has_ended) {
            // What the thread has deferred is destroyed when its thread_local objects are: before older ones.
            struct deferral_guard {
                ~deferral_guard() { finish_thread(); }
            };
            static thread_local deferral_guard const guard{};
            static_cast<void>(&guard);
            t_deferrals().is_armed = true;
        }
        return mine;
    }

    [[nodiscard]] POOLED_NOINLINE static bool make_queue(thread_deferred& to) noexcept {
        void* const memory = g_metadata.try_allocate(sizeof(deferred_queue));
        if (memory != nullptr) to.queue = ::new (memory) deferred_queue;
        return memory != nullptr;
    }

    // Does nothing within the destructor of a deferred object, whose caller continues with the next objects.
    POOLED_NOINLINE void step(thread_cache* mine, std::size_t budget) noexcept {
        if (t_deferrals().is_destroying) return;
        for (deferred next; budget != 0 && mine != nullptr && take_one(*mine, next); --budget)
            mine = destroy(next);
    }
    // False when the thread's part is empty.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool take_one(thread_cache& mine, deferred& next) noexcept {
        thread_deferred& from = mine.deferred;
        if (from.size == 0) return false;
        section const own(*this, mine);
        if (from.size == 0) return false;  // it was taken meanwhile
        // Counted as in destruction first, so look() sees it in one place at least. A local pool is for one thread.
        if (!m_core.is_local()) from.begun.add(1);
        next = from.queue->pop();
        std::atomic_thread_fence(std::memory_order_release);  // pairs with the fence in look()
        from.size = from.queue->size();
        return true;
    }
    // Returns the thread's cache; null: a destructor has destroyed the pool. (A local pool's cache is then gone.)
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* destroy(deferred next) noexcept {
        thread_cache* const local = m_core.is_local() ? &m_core.local_cache() : nullptr;
        std::uint32_t const id = m_core.id();
        bool const was_destroying = std::exchange(t_deferrals().is_destroying, true);
        next.finish();
        t_deferrals().is_destroying = was_destroying;
        if (local != nullptr) return local;
        thread_cache* const mine = t_state().find(id);
        if (mine != nullptr && mine->deferred.begun != mine->deferred.ended) {
            std::atomic_thread_fence(std::memory_order_release);  // pairs with the fence in look()
            mine->deferred.ended.add(1);
        }
        return mine;
    }

    // Gives objects to the calling thread, which has none. Null when there are none in the pool; otherwise the thread's cache.
    [[nodiscard]] thread_cache* collect() noexcept {
        thread_cache* const mine = own_or_made();
        scoped_lock const lock(m_core.caches());
        if (m_kept == nullptr && is_any_deferred()) keep_all();
        deferred_queue* const first = m_kept;
        if (first == nullptr || mine == nullptr) return nullptr;
        m_kept = std::exchange(first->next_queue, nullptr);
        keep(mine->deferred);
        mine->deferred.queue = first;
        mine->deferred.size = first->size();
        return mine;
    }

    // After collect() returned null: for a thread without memory for a cache. False when there are no objects.
    [[nodiscard]] bool take_kept(deferred& next) noexcept {
        if (m_kept == nullptr) [[likely]]  // a hint
            return false;
        scoped_lock const lock(m_core.caches());
        deferred_queue* const first = m_kept;
        if (first == nullptr) return false;
        next = first->pop();
        if (!first->empty()) return true;
        m_kept = first->next_queue;
        g_metadata.deallocate(first, sizeof(deferred_queue));
        return true;
    }

    // The functions that follow require the lock of the caches.
    [[nodiscard]] bool is_any_deferred() noexcept {
        bool is_any = false;
        m_core.caches().for_each([&](thread_cache const& each) { is_any |= each.deferred.size != 0; });
        return is_any;
    }
    // Moves the queues of all threads to m_kept, but for those that are inside their gates.
    void keep_all() noexcept {
        m_core.caches().stop();
        m_core.caches().for_each_stopped([this](thread_cache& each) { keep(each.deferred); });
        m_core.caches().resume();
    }
    // Requires a stopped owner, or one that is the caller or has ended.
    void keep(thread_deferred& other) noexcept {
        deferred_queue* const queue = std::exchange(other.queue, nullptr);
        other.size = 0;
        if (queue == nullptr) return;
        if (queue->empty()) return g_metadata.deallocate(queue, sizeof(deferred_queue));
        queue->next_queue = m_kept;
        m_kept = queue;
    }

    pool_core& m_core;
    observed<deferred_queue*> m_kept;  // none of them is empty
    std::uint64_t m_destroyed = 0;     // by threads that have ended
    observed<bool> m_is_closed;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
template <>
struct record_access::of<deferred_objects> {
    using queue = deferred_queue;
    static constexpr inspect::deferred_layout k_layout{.kept = POOLED_OFFSET(deferred_objects, m_kept),
                                                       .next_queue = POOLED_OFFSET(queue, next_queue),
                                                       .window_first = POOLED_OFFSET(queue, m_first),
                                                       .window_size = POOLED_OFFSET(queue, m_size),
                                                       .window = queue::k_window,
                                                       .window_words = POOLED_OFFSET(queue, m_window),
                                                       .top = POOLED_OFFSET(queue, m_top),
                                                       .below = POOLED_OFFSET(queue::segment, below),
                                                       .count = POOLED_OFFSET(queue::segment, count),
                                                       .words = POOLED_OFFSET(queue::segment, words),
                                                       .most_words = queue::segment::k_words};
};
#pragma GCC diagnostic pop

inline deferred_objects::deferred_objects(pool_core& core) noexcept
    : pool_extension(&record_access::of<deferred_objects>::k_layout), m_core(core) {}

// Out of line, because a fibre that runs it may move to another thread in a destructor.
[[nodiscard]] POOLED_NOINLINE inline deferred_queue* redirect_deferred(deferred_queue* to) noexcept {
    return std::exchange(t_teardown().redirect, to);
}

POOLED_CODE std::size_t finish_queues(deferred_queue*& list, std::size_t budget) noexcept {
    std::size_t done = 0;
    while (list != nullptr && done != budget) {
        deferred_queue* const first = list;
        deferred_queue* const before = redirect_deferred(first);
        done += first->finish(budget - done);
        static_cast<void>(redirect_deferred(before));
        if (!first->empty()) break;
        list = first->next_queue;
        g_metadata.deallocate(first, sizeof(deferred_queue));
    }
    return done;
}

POOLED_CODE bool prepare_deferral(pool_core& core) {
    if (detail::is_foreign(core)) return false;
    if (!core.is_incremental() || core.extension() != nullptr) return true;
    install_hooks();
    g_metadata.reserve(sizeof(deferred_queue), 1);  // so that a thread's first drop makes no system call
    auto* const made = ::new (g_metadata.allocate(sizeof(deferred_objects))) deferred_objects(core);
    if (!core.exchange_extension(nullptr, made)) made->on_destroy();
    return true;
}

POOLED_CODE void defer_or_finish(deferred d, void const* object, std::size_t object_bytes) noexcept {
    pool_core& core = core_of(d.header());
    if (!core.is_incremental()) return detail::defer_to_outermost(d, object, object_bytes);
    if (deferred_queue* const redirect = t_teardown().redirect) {
        if (!redirect->push(d, object, object_bytes)) detail::finish_now(d);
        return;
    }
    auto* const deferred_here = static_cast<deferred_objects*>(core.extension());
    if (deferred_here == nullptr || !deferred_here->defer(d, object, object_bytes)) detail::finish_now(d);
}

#endif

POOLED_END_DETAIL
