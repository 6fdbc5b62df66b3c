// SPDX-License-Identifier: BSL-1.0
#pragma once

// Incremental teardown: a drop only defers its object, and later allocations on that thread destroy a few objects each. A thread
// that only drops, while another allocates, destroys some in each drop once many are deferred. An allocation that finds no memory
// drains, then waits for what other threads are destroying, unless they wait themselves.
//
//   drop ─▶ thread_deferred.batch ─▶ destroy_one       one for each thread and pool
//                ▲        │
//      a batch   │        ▼ collect: those of all threads
//                 m_kept
//
// Objects leave a batch one at a time, so every thread can take all but those that are being destroyed.
//
// A thread_deferred is changed by its owner inside its gate, or by others with the gate stopped, under m_mutex. No destructor
// runs inside a gate or under a lock of the library; a holder of m_mutex waits for no other lock except metadata's. A fibre must not
// change threads within a destructor that one of these functions runs.
// Invariant: deferred = sizes of the batches of all threads + those in m_kept. O(1), except collect: O(threads).

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/impl/instrument/malloc_backed.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/teardown/deferred_queue.hpp"
#include "pooled/impl/teardown/teardown.hpp"
#if POOLED_HAS_CODE
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/gate.hpp"
#include "pooled/detail/intrusive_list.hpp"
#include "pooled/impl/cache/cache_set.hpp"
#include "pooled/impl/os/fork_gate.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/os/platform.hpp"
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// A queue that passes between threads: the objects that one thread deferred in an incremental pool.
struct deferred_batch {
    deferred_queue queue;
    deferred_batch* next = nullptr;
};

// Destroys up to `budget` objects of a list of batches, including those that they alone kept alive, and frees the batches that are then
// empty. Returns the number of objects.
[[nodiscard]] POOLED_API std::size_t finish_batches(deferred_batch*& list, std::size_t budget) noexcept;

// A list of the objects that were deferred in an incremental pool, whichever thread dropped them; null when there are none. The
// caller then owns it.
[[nodiscard]] POOLED_API deferred_batch* take_deferred(pool_core& core) noexcept;

// Defers an object of a pool that is not immediate, or else destroys it.
POOLED_API void defer_or_finish(deferred d, void const* object, std::size_t object_bytes) noexcept;

[[nodiscard]] POOLED_ALWAYS_INLINE pool_core& core_of(void const* block) noexcept {
    return *g_registry.find(malloc_blocks::find_owned(block).pool_id());
}
[[nodiscard]] inline bool is_incremental(void const* block) noexcept {
    return core_of(block).is_incremental();
}

#if POOLED_HAS_CODE

class deferred_objects;

// The objects that one thread has deferred in one pool. Freed by its owner, or in a forked child.
struct thread_deferred {
    detail::gate<> gate;
    deferred_objects* pool = nullptr;
    deferred_batch* batch = nullptr;          // inside the gate
    observed<std::size_t> size;               // of the batch
    atomic<std::uint64_t> in_destruction{0};  // owner writes; more than one when a destructor allocates
    atomic<std::uint64_t> destroyed{0};       // owner writes
    atomic<bool> is_blocked{false};  // the owner waits for other threads, so they must not wait for it
    bool is_on_stack = false;
    void const* owner = nullptr;
    list_links<thread_deferred> owned;  // the owner's list: owner only
    list_links<thread_deferred> links;  // the pool's: its mutex
};
struct owned_deferred_links {
    static constexpr auto k_member = &thread_deferred::owned;
};

// Constant-initialised and trivially destructible, so it works until the thread has ended.
struct thread_deferrals {
    intrusive_list<thread_deferred, thread_deferred*, owned_deferred_links> owned;  // the last used first
    bool is_destroying =
        false;  // a deferred object is being destroyed: drops and allocations in its destructor destroy no other
    bool has_ended = false;
    unsigned reliefs =
        0;  // allocations that found no memory, nested in destructors that such allocations run
};
POOLED_STATE(thread_local thread_deferrals, t_deferrals, {});

// Lets the owner into its gate, unless the pool is closed; waits while another thread collects. Keeps forks out, because the owner
// may take the arena's lock inside, and so that a child finds all batches complete.
class deferred_pass {
public:
    POOLED_ALWAYS_INLINE explicit deferred_pass(thread_deferred& mine) noexcept : m_mine(mine) {
        g_fork_gate.enter();
        for (unsigned attempt = 0; !(m_is_in = mine.gate.enter()); platform::pause(attempt++))
            if (mine.gate.is_closed()) return;
    }
    POOLED_ALWAYS_INLINE ~deferred_pass() {
        if (m_is_in) m_mine.gate.leave();
        g_fork_gate.leave();
    }
    deferred_pass(deferred_pass const&) = delete;
    deferred_pass& operator=(deferred_pass const&) = delete;
    [[nodiscard]] explicit operator bool() const noexcept { return m_is_in; }

private:
    thread_deferred& m_mine;
    bool m_is_in;
};

class deferred_objects final : public pool_extension {
public:
    // Ends with on_destroy(). Throws std::bad_alloc.
    [[nodiscard]] static deferred_objects& make() {
        return *::new (g_metadata.allocate(sizeof(deferred_objects))) deferred_objects;
    }
    // The deferrals of an incremental pool, made at the first call. Throws std::bad_alloc.
    POOLED_NOINLINE static void attach_to(pool_core& core) {
        if (core.extension() != nullptr) return;
        install_hooks();
        g_metadata.reserve(sizeof(thread_deferred), 1);  // so that a thread's first drop makes no system call
        g_metadata.reserve(sizeof(deferred_batch), 1);
        deferred_objects& made = make();
        if (!core.exchange_extension(nullptr, &made)) made.on_destroy();
    }
    deferred_objects(deferred_objects const&) = delete;
    deferred_objects& operator=(deferred_objects const&) = delete;

    // The calling thread's thread_deferred for this pool; null: it has none.
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_deferred* own() noexcept {
        thread_deferred* const first = t_deferrals.owned.first();
        if (first != nullptr && first->pool == this) [[likely]]
            return first;
        return find_own();
    }

    // Returns the number of objects in the thread's batch; 0: the object must be destroyed now, because the thread or the pool is
    // ending, or there is no memory to record it.
    [[nodiscard]] std::size_t defer(deferred d, void const* object, std::size_t object_bytes) noexcept {
        thread_deferred* const mine = own_or_made();
        if (mine == nullptr) return 0;
        std::size_t size = 0;
        {
            deferred_pass const pass(*mine);
            if (!pass) return 0;
            if (mine->batch == nullptr)
                if (void* const memory = g_metadata.try_allocate(sizeof(deferred_batch)))
                    mine->batch = ::new (memory) deferred_batch;
            if (mine->batch == nullptr || !mine->batch->queue.push(d, object, object_bytes)) return 0;
            mine->size = size = mine->batch->queue.size();
        }
        if (std::size_t const budget = objects_per_drop(size); budget != 0) [[unlikely]]
            step(*mine, budget);
        return size;
    }

    // Owner only. False when its batch is empty.
    [[nodiscard]] static bool destroy_one(thread_deferred& mine) noexcept {
        if (mine.size == 0) return false;
        deferred next;
        {
            deferred_pass const pass(mine);
            if (!pass || mine.size == 0) return false;  // it was collected meanwhile
            // Counted as in destruction first, so look() sees it in one place at least. release: pairs with the acquires there.
            mine.in_destruction.store(mine.in_destruction.load(std::memory_order_relaxed) + 1,
                                      std::memory_order_relaxed);
            next = mine.batch->queue.pop();
            std::atomic_thread_fence(std::memory_order_release);
            mine.size = mine.batch->queue.size();
        }
        bool const was_destroying = std::exchange(t_deferrals.is_destroying, true);
        next.finish();
        t_deferrals.is_destroying = was_destroying;
        mine.destroyed.store(mine.destroyed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        mine.in_destruction.store(mine.in_destruction.load(std::memory_order_relaxed) - 1,
                                  std::memory_order_release);
        return true;
    }

    // A list of all deferred objects, whichever thread dropped them; null when there are none. The caller then owns it.
    [[nodiscard]] deferred_batch* take_all() noexcept {
        scoped_lock const lock(m_mutex);
        keep_all();
        return std::exchange(m_kept, observed<deferred_batch*>());
    }

    struct progress {
        std::uint64_t destroyed = 0;
        bool is_any_left = false;  // deferred, or being destroyed by a thread that is not waiting itself
    };
    // Reads the counts in the order in which an object passes through them: deferred, in destruction, destroyed. So an object that
    // was there when the caller began is seen in at least one of them.
    [[nodiscard]] progress look() noexcept {
        scoped_lock const lock(m_mutex);
        progress now{m_destroyed, m_kept != nullptr};
        for (thread_deferred const& each : m_threads)
            if (each.size != 0) now.is_any_left = true;
        std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the fence in destroy_one()
        for (thread_deferred const& each : m_threads) {
            // acquire: pairs with the releases in destroy_one() and set_blocked().
            if (each.in_destruction.load(std::memory_order_acquire) != 0 &&
                !each.is_blocked.load(std::memory_order_acquire))
                now.is_any_left = true;
            now.destroyed += each.destroyed.load(std::memory_order_acquire);
        }
        return now;
    }
    // The calling thread waits for others, so other threads must not wait for the objects that it is destroying, in any pool.
    static void set_blocked(bool is_blocked) noexcept {
        for (thread_deferred& each : t_deferrals.owned)
            each.is_blocked.store(is_blocked, std::memory_order_release);  // pairs with the acquire in look()
    }

    // The calling thread ends. Destructors may defer more, in any pool, until nothing is left.
    static void finish_thread() noexcept {
        thread_deferrals& mine = t_deferrals;
        mine.is_destroying = true;  // allocations in destructors then destroy nothing themselves
        for (thread_deferred* each = mine.owned.first(); each != nullptr;)
            each = destroy_one(*each) ? mine.owned.first() : mine.owned.after(*each);
        mine.has_ended = true;
        for (thread_deferred& each : mine.owned)
            if (each.in_destruction.load(std::memory_order_relaxed) ==
                0)  // otherwise a destructor called exit()
                each.pool->leave(each);
    }

    void on_allocate() noexcept override {
        thread_deferred* mine = own();
        if (mine == nullptr || mine->size == 0) {
            if (m_kept == nullptr) [[likely]]  // a hint
                return;
            mine = own_or_made();
            if (mine == nullptr || !collect(*mine)) return;
        }
        step(*mine, k_objects_per_allocation);
    }

    std::size_t drain(std::size_t budget) noexcept override {
        // A guest serves the call that made it, which may end while another fibre of the thread is still in a destructor.
        thread_deferred* const mine = own_or_made();
        if (mine != nullptr && !mine->is_on_stack) return drain_as(*mine, budget);
        thread_deferred guest;
        guest.is_on_stack = true;
        if (!enroll(guest)) return 0;
        std::size_t const done = drain_as(guest, budget);
        leave(guest);
        return done;
    }

    bool relieve(std::uint64_t& seen) noexcept override {
        if (t_deferrals.reliefs >= k_nested_reliefs) return false;
        for (unsigned attempt = 0;; ++attempt) {
            ++t_deferrals.reliefs;
            std::size_t const done = drain(k_objects_per_retry);
            --t_deferrals.reliefs;
            if (done != 0) return true;
            set_blocked(true);
            progress const now = look();
            bool const is_over = now.destroyed != seen || !now.is_any_left || fork_gate::is_passed();
            if (!is_over) platform::pause(attempt);
            set_blocked(false);
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
            scoped_lock const lock(m_mutex);
            stop_others();
            m_is_closed.store(true, std::memory_order_relaxed);
            for (thread_deferred& each : m_threads) {
                keep(each);
                each.gate.close();
            }
        }
        deferred_batch* rest = take_all();
        static_cast<void>(detail::finish_batches(rest, ~std::size_t{0}));
    }

    void on_destroy() noexcept override { release_reference(); }

    void after_fork_in_child() noexcept override {
        scoped_lock const lock(m_mutex);
        for (thread_deferred& each : m_threads) {
            if (each.owner == &t_deferrals) continue;
            remove(each);  // never the last reference: the pool has one
            --m_references;
        }
    }

private:
    // Objects destroyed at an allocation: more than one, so that their number decreases; few, so that it stays fast.
    static constexpr std::size_t k_objects_per_allocation = 4;
    // How deeply allocations may nest in destructors that such allocations run: the innermost reports exhaustion.
    static constexpr unsigned k_nested_reliefs = 8;
    static constexpr unsigned k_attempts_before_report = 200'000;  // 10 s and more

    // How many objects a drop destroys when `size` are deferred already: none up to 1024, then enough that a thread which only
    // drops structures of n objects has at most 64 n deferred; at most 128, so this holds for n up to 128.
    [[nodiscard]] static constexpr std::size_t objects_per_drop(std::size_t size) noexcept {
        return size <= 1024 ? 0 : detail::smaller<std::size_t>(size / 64, 128);
    }

    deferred_objects() noexcept = default;

    [[nodiscard]] thread_deferred* find_own() noexcept {
        for (thread_deferred& each : t_deferrals.owned)
            if (each.pool == this) {
                t_deferrals.owned.remove(each);
                t_deferrals.owned.push_front(each);
                return &each;
            }
        return nullptr;
    }
    // Null when the thread can have none, because it or the pool is ending, or memory has run out.
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_deferred* own_or_made() noexcept {
        thread_deferred* const mine = own();
        return mine != nullptr ? mine : make_own();
    }
    [[nodiscard]] POOLED_NOINLINE thread_deferred* make_own() noexcept {
        thread_deferrals& mine = t_deferrals;
        for (thread_deferred& each : mine.owned)
            if (each.gate.is_closed() && each.in_destruction.load(std::memory_order_relaxed) == 0)
                each.pool->leave(each);
        if (mine.has_ended || m_is_closed.load(std::memory_order_relaxed) || !platform::has_heavy_barrier())
            return nullptr;
        void* const memory = g_metadata.try_allocate(sizeof(thread_deferred));
        if (memory == nullptr) return nullptr;
        arm_guard();
        auto* const made = ::new (memory) thread_deferred;
        if (enroll(*made)) return made;
        g_metadata.deallocate(memory, sizeof(thread_deferred));
        return nullptr;
    }
    // What the thread has deferred is destroyed when its thread_local objects are: before older ones.
    static void arm_guard() noexcept {
        struct deferral_guard {
            ~deferral_guard() { finish_thread(); }
        };
        static thread_local deferral_guard const guard{};
        static_cast<void>(&guard);
    }
    // False when the pool is closed.
    [[nodiscard]] bool enroll(thread_deferred& mine) noexcept {
        mine.pool = this;
        mine.owner = &t_deferrals;
        {
            scoped_lock const lock(m_mutex);
            if (m_is_closed.load(std::memory_order_relaxed)) return false;
            m_threads.push_front(mine);
            ++m_references;
        }
        t_deferrals.owned.push_front(mine);
        return true;
    }
    // Owner only. Requires no destruction in progress.
    void leave(thread_deferred& mine) noexcept {
        t_deferrals.owned.remove(mine);
        {
            scoped_lock const lock(m_mutex);
            remove(mine);
        }
        release_reference();
    }
    // Requires m_mutex, and an owner that is the caller or has ended.
    void remove(thread_deferred& one) noexcept {
        keep(one);
        m_destroyed += one.destroyed.load(std::memory_order_relaxed);
        m_threads.remove(one);
        if (!one.is_on_stack) g_metadata.deallocate(&one, sizeof(thread_deferred));
    }
    // The last one frees the object.
    void release_reference() noexcept {
        bool is_last = false;
        {
            scoped_lock const lock(m_mutex);
            is_last = --m_references == 0;
        }
        if (is_last) g_metadata.deallocate(this, sizeof(deferred_objects));
    }

    // Owner only. Does nothing within the destructor of a deferred object, whose caller continues with the next objects.
    static void step(thread_deferred& mine, std::size_t budget) noexcept {
        if (t_deferrals.is_destroying) return;
        for (; budget != 0 && destroy_one(mine); --budget) {}
    }
    [[nodiscard]] std::size_t drain_as(thread_deferred& mine, std::size_t budget) noexcept {
        std::size_t done = 0;
        while (done != budget && (mine.size != 0 || collect(mine)))
            done += destroy_one(mine) ? 1 : 0;
        return done;
    }

    // Makes sure that `mine` has objects. False when there are none in the pool, or when it is closed.
    [[nodiscard]] bool collect(thread_deferred& mine) noexcept {
        scoped_lock const lock(m_mutex);
        if (m_kept == nullptr) keep_all();
        deferred_batch* const first = m_kept;
        if (first == nullptr || mine.gate.is_closed()) return false;
        m_kept = std::exchange(first->next, nullptr);
        // Only a holder of m_mutex stops gates.
        static_cast<void>(mine.gate.enter());
        if (mine.batch != nullptr) g_metadata.deallocate(mine.batch, sizeof(deferred_batch));
        mine.batch = first;
        mine.size = first->queue.size();
        mine.gate.leave();
        return true;
    }
    // Requires m_mutex, and a gate that is stopped, or whose owner is the caller or has ended.
    void keep(thread_deferred& other) noexcept {
        deferred_batch* const batch = std::exchange(other.batch, nullptr);
        other.size = 0;
        if (batch == nullptr) return;
        if (batch->queue.empty()) return g_metadata.deallocate(batch, sizeof(deferred_batch));
        batch->next = m_kept;
        m_kept = batch;
    }
    // Requires m_mutex. Moves the batches of all threads, except empty ones, to m_kept.
    void keep_all() noexcept {
        auto const has_any = [](thread_deferred const& each) { return each.size != 0; };
        if (!detail::any_of(m_threads, has_any)) return;
        stop_others();
        for (thread_deferred& each : m_threads) {
            if (has_any(each)) keep(each);
            if (!each.gate.is_closed()) each.gate.resume();
        }
    }
    // Requires m_mutex. The caller's own gate stays open, because the caller is not inside it.
    void stop_others() noexcept {
        auto const each_gate = [this](auto&& visit) {
            for (thread_deferred& each : m_threads)
                if (each.owner != &t_deferrals) visit(each.gate);
        };
        stop_all(each_gate, platform::heavy_barrier, wait_until_idle);
    }

    mutex m_mutex;
    intrusive_list<thread_deferred> m_threads;
    observed<deferred_batch*> m_kept;  // of threads that have ended, or collected by a drain
    std::size_t m_references = 1;      // the pool's, and one for each thread_deferred
    std::uint64_t m_destroyed = 0;     // by threads that have ended
    atomic<bool> m_is_closed{false};
};

// Out of line, because a fibre that runs it may move to another thread in a destructor.
[[nodiscard]] POOLED_NOINLINE inline deferred_queue* redirect_deferred(deferred_queue* to) noexcept {
    return std::exchange(t_teardown.redirect, to);
}

POOLED_CODE std::size_t finish_batches(deferred_batch*& list, std::size_t budget) noexcept {
    std::size_t done = 0;
    while (list != nullptr && done != budget) {
        deferred_queue& queue = list->queue;
        deferred_queue* const before = redirect_deferred(&queue);
        done += queue.finish(budget - done);
        static_cast<void>(redirect_deferred(before));
        if (!queue.empty()) break;
        deferred_batch* const empty = std::exchange(list, list->next);
        g_metadata.deallocate(empty, sizeof(deferred_batch));
    }
    return done;
}

POOLED_CODE deferred_batch* take_deferred(pool_core& core) noexcept {
    pool_extension* const extension = core.is_incremental() ? core.extension() : nullptr;
    return extension != nullptr ? static_cast<deferred_objects*>(extension)->take_all() : nullptr;
}

POOLED_CODE void defer_or_finish(deferred d, void const* object, std::size_t object_bytes) noexcept {
    pool_core& core = core_of(d.header());
    if (!core.is_incremental()) return detail::defer_to_outermost(d, object, object_bytes);
    if (deferred_queue* const redirect = t_teardown.redirect) {
        if (!redirect->push(d, object, object_bytes)) detail::finish_now(d);
        return;
    }
    auto* const deferred_here = static_cast<deferred_objects*>(core.extension());
    if (deferred_here == nullptr || deferred_here->defer(d, object, object_bytes) == 0) detail::finish_now(d);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
