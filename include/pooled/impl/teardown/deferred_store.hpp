// SPDX-License-Identifier: BSL-1.0
#pragma once

// deferred_store: the deferred objects of one incremental pool, in a batch for each thread that dropped some.
//
//   push ─▶ thread_deferred.batch ─▶ destroy_one
//                ▲        │
//      a batch   │        ▼ collect: those of all threads
//                 m_kept
//
// Objects leave a batch one at a time, so every thread can take all but those that are being destroyed.
//
// A thread_deferred is changed by its owner inside its gate, or by others with the gate stopped, under m_mutex. No destructor
// runs inside a gate or under a lock; a holder of m_mutex waits for no other lock except metadata's.
// Invariant: deferred = sizes of the batches of all threads + those in m_kept. O(1), except collect: O(threads).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/gate.hpp"
#include "pooled/impl/cache/cache_set.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/teardown/deferred_queue.hpp"
#include "pooled/impl/teardown/teardown.hpp"
#include "pooled/impl/teardown/thread_deferred.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class deferred_store {
public:
    // `memory` of `bytes`, which contains this object, is freed with the last reference.
    deferred_store(void* memory, std::size_t bytes) noexcept : m_memory(memory), m_bytes(bytes) {}
    deferred_store(deferred_store const&) = delete;
    deferred_store& operator=(deferred_store const&) = delete;

    // The calling thread's thread_deferred for this pool; null: it has none.
    [[nodiscard]] thread_deferred* own() noexcept;
    // As own(), made if necessary; null when it can have none, because the thread or the pool is ending, or memory has run out.
    [[nodiscard]] thread_deferred* own_or_made() noexcept;

    // Owner only. Returns the number of objects in its batch; 0: the object was not deferred.
    [[nodiscard]] std::size_t push(thread_deferred& mine, deferred d, void const* object,
                                   std::size_t object_bytes) noexcept;
    // Owner only. False when its batch is empty.
    [[nodiscard]] static bool destroy_one(thread_deferred& mine) noexcept;

    // Makes sure that `mine` has objects or, if it is null, that m_kept has some. False when there are none in the pool.
    [[nodiscard]] bool collect(thread_deferred* mine) noexcept;
    [[nodiscard]] bool has_kept() const noexcept { return m_kept != nullptr; }  // a hint
    // For a thread that can have no batch of its own. False when m_kept has none.
    [[nodiscard]] bool destroy_one_kept() noexcept;

    // A list of all deferred objects, whichever thread dropped them; null when there are none. The caller then owns it.
    [[nodiscard]] deferred_batch* take_all() noexcept;

    // From now on, nothing can be deferred; batches with objects move to m_kept.
    void close() noexcept;
    void release_reference() noexcept;

    struct progress {
        std::uint64_t destroyed = 0;
        bool is_any_left = false;  // deferred, or being destroyed by a thread that is not waiting itself
    };
    [[nodiscard]] progress look() noexcept;
    // The calling thread waits for others, so other threads must not wait for the objects that it is destroying, in any pool.
    static void set_blocked(bool is_blocked) noexcept;

    void after_fork_in_child() noexcept;

    // The calling thread ends.
    static void finish_thread() noexcept;

private:
    [[nodiscard]] thread_deferred* find_own() noexcept;
    [[nodiscard]] thread_deferred* make_own() noexcept;
    static void free_closed(thread_deferrals& mine) noexcept;
    void keep(thread_deferred& other) noexcept;
    void keep_all() noexcept;
    void stop_others() noexcept;
    void resume_others() noexcept;
    void leave(thread_deferred& mine) noexcept;

    mutex m_mutex;
    intrusive_list<thread_deferred> m_threads;
    observed<deferred_batch*> m_kept;    // of threads that have ended, or collected by a drain
    std::size_t m_references = 1;        // the pool's, and one for each thread_deferred
    std::uint64_t m_destroyed = 0;       // by threads that have ended, or have no thread_deferred
    std::uint64_t m_in_destruction = 0;  // by threads that have no thread_deferred
    std::atomic<bool> m_is_closed{false};
    void* m_memory;
    std::size_t m_bytes;
};

#if POOLED_HAS_CODE
// Destroys what the thread has deferred when its thread_local objects are destroyed: before older ones.
POOLED_API void arm_deferral_guard(thread_deferrals& mine) noexcept;
struct deferral_guard {
    ~deferral_guard() { deferred_store::finish_thread(); }
};
POOLED_CODE void arm_deferral_guard(thread_deferrals& mine) noexcept {
    static thread_local deferral_guard const guard{};
    static_cast<void>(&guard);
    mine.is_armed = true;
}

POOLED_ALWAYS_INLINE thread_deferred* deferred_store::own() noexcept {
    thread_deferred* const recent = t_deferrals.recent;
    if (recent != nullptr && recent->pool == this) [[likely]]
        return recent;
    return find_own();
}

inline thread_deferred* deferred_store::find_own() noexcept {
    thread_deferrals& mine = t_deferrals;
    for (thread_deferred& each : mine.owned)
        if (each.pool == this) return mine.recent = &each;
    return nullptr;
}

POOLED_ALWAYS_INLINE thread_deferred* deferred_store::own_or_made() noexcept {
    thread_deferred* const mine = own();
    return mine != nullptr ? mine : make_own();
}

POOLED_NOINLINE inline thread_deferred* deferred_store::make_own() noexcept {
    thread_deferrals& mine = t_deferrals;
    free_closed(mine);
    if (mine.has_ended || m_is_closed.load(std::memory_order_relaxed) || !platform::has_heavy_barrier())
        return nullptr;
    void* const memory = g_metadata.try_allocate(sizeof(thread_deferred));
    if (memory == nullptr) return nullptr;
    if (!mine.is_armed) arm_deferral_guard(mine);
    auto* const made = ::new (memory) thread_deferred;
    made->pool = this;
    made->owner = &mine;
    {
        scoped_lock const lock(m_mutex);
        if (m_is_closed.load(std::memory_order_relaxed)) {
            g_metadata.deallocate(memory, sizeof(thread_deferred));
            return nullptr;
        }
        m_threads.push_front(*made);
        ++m_references;
    }
    mine.owned.push_front(*made);
    return mine.recent = made;
}

inline std::size_t deferred_store::push(thread_deferred& mine, deferred d, void const* object,
                                        std::size_t object_bytes) noexcept {
    deferred_pass const pass(mine);
    if (!pass) return 0;
    if (mine.batch == nullptr)
        if (void* const memory = g_metadata.try_allocate(sizeof(deferred_batch)))
            mine.batch = ::new (memory) deferred_batch;
    if (mine.batch == nullptr || !mine.batch->queue.push(d, object, object_bytes)) return 0;
    return mine.size = mine.batch->queue.size();
}

inline bool deferred_store::destroy_one(thread_deferred& mine) noexcept {
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

inline bool deferred_store::collect(thread_deferred* mine) noexcept {
    scoped_lock const lock(m_mutex);
    if (m_kept == nullptr) keep_all();
    deferred_batch* const first = m_kept;
    if (first == nullptr) return false;
    if (mine == nullptr || mine->gate.is_closed()) return true;
    m_kept = std::exchange(first->next, nullptr);
    // Only a holder of m_mutex stops gates.
    static_cast<void>(mine->gate.enter());
    if (mine->batch != nullptr) g_metadata.deallocate(mine->batch, sizeof(deferred_batch));
    mine->batch = first;
    mine->size = first->queue.size();
    mine->gate.leave();
    return true;
}

inline bool deferred_store::destroy_one_kept() noexcept {
    deferred next;
    {
        scoped_lock const lock(m_mutex);
        deferred_batch* const first = m_kept;
        if (first == nullptr) return false;
        next = first->queue.pop();
        if (first->queue.empty()) {
            m_kept = first->next;
            g_metadata.deallocate(first, sizeof(deferred_batch));
        }
        ++m_in_destruction;
    }
    ++t_deferrals.kept_in_destruction;
    detail::finish_now(next);
    --t_deferrals.kept_in_destruction;
    scoped_lock const lock(m_mutex);
    --m_in_destruction;
    ++m_destroyed;
    return true;
}

// Requires m_mutex, and a gate that is stopped, or whose owner is the caller or has ended.
inline void deferred_store::keep(thread_deferred& other) noexcept {
    deferred_batch* const batch = std::exchange(other.batch, nullptr);
    other.size = 0;
    if (batch == nullptr) return;
    if (batch->queue.empty()) return g_metadata.deallocate(batch, sizeof(deferred_batch));
    batch->next = m_kept;
    m_kept = batch;
}

// Requires m_mutex. Moves the batches of all threads, except empty ones, to m_kept.
inline void deferred_store::keep_all() noexcept {
    auto const has_any = [](thread_deferred const& each) { return each.size != 0; };
    if (!detail::any_of(m_threads, has_any)) return;
    stop_others();
    for (thread_deferred& each : m_threads)
        if (has_any(each)) keep(each);
    resume_others();
}

// Requires m_mutex. The caller's own gate stays open, because the caller is not inside it.
inline void deferred_store::stop_others() noexcept {
    auto const each_gate = [this](auto&& visit) {
        for (thread_deferred& each : m_threads)
            if (each.owner != &t_deferrals) visit(each.gate);
    };
    stop_all(each_gate, platform::heavy_barrier, wait_until_idle);
}

inline void deferred_store::resume_others() noexcept {
    for (thread_deferred& each : m_threads)
        if (!each.gate.is_closed()) each.gate.resume();
}

inline deferred_batch* deferred_store::take_all() noexcept {
    scoped_lock const lock(m_mutex);
    keep_all();
    return std::exchange(m_kept, observed<deferred_batch*>());
}

// Reads the counts in the order in which an object passes through them: deferred, in destruction, destroyed. So an object that
// was there when the caller began is seen in at least one of them.
inline deferred_store::progress deferred_store::look() noexcept {
    scoped_lock const lock(m_mutex);
    progress now{m_destroyed, m_kept != nullptr || m_in_destruction != 0};
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

inline void deferred_store::set_blocked(bool is_blocked) noexcept {
    for (thread_deferred& each : t_deferrals.owned)
        each.is_blocked.store(is_blocked, std::memory_order_release);  // pairs with the acquire in look()
}

inline void deferred_store::close() noexcept {
    scoped_lock const lock(m_mutex);
    stop_others();
    m_is_closed.store(true, std::memory_order_relaxed);
    for (thread_deferred& each : m_threads) {
        keep(each);
        each.gate.close();
    }
}

inline void deferred_store::release_reference() noexcept {
    bool is_last = false;
    {
        scoped_lock const lock(m_mutex);
        is_last = --m_references == 0;
    }
    if (is_last) g_metadata.deallocate(m_memory, m_bytes);
}

// Owner only. Requires no destruction in progress.
inline void deferred_store::leave(thread_deferred& mine) noexcept {
    t_deferrals.owned.remove(mine);
    {
        scoped_lock const lock(m_mutex);
        keep(mine);
        m_destroyed += mine.destroyed.load(std::memory_order_relaxed);
        m_threads.remove(mine);
    }
    g_metadata.deallocate(&mine, sizeof(thread_deferred));
    release_reference();
}

inline void deferred_store::free_closed(thread_deferrals& mine) noexcept {
    for (thread_deferred& each : mine.owned) {
        if (!each.gate.is_closed() || each.in_destruction.load(std::memory_order_relaxed) != 0) continue;
        if (mine.recent == &each) mine.recent = nullptr;
        each.pool->leave(each);
    }
}

// Destructors may defer more, in any pool, until nothing is left.
inline void deferred_store::finish_thread() noexcept {
    thread_deferrals& mine = t_deferrals;
    mine.is_destroying = true;  // allocations in destructors then destroy nothing themselves
    for (thread_deferred* each = mine.owned.first(); each != nullptr;)
        each = destroy_one(*each) ? mine.owned.first() : mine.owned.after(*each);
    mine.has_ended = true;
    mine.recent = nullptr;
    for (thread_deferred& each : mine.owned)
        if (each.in_destruction.load(std::memory_order_relaxed) == 0)  // otherwise a destructor called exit()
            each.pool->leave(each);
}

inline void deferred_store::after_fork_in_child() noexcept {
    scoped_lock const lock(m_mutex);
    m_in_destruction = 0;
    for (thread_deferred& each : m_threads) {
        if (each.owner == &t_deferrals) continue;
        keep(each);
        m_destroyed += each.destroyed.load(std::memory_order_relaxed);
        m_threads.remove(each);
        --m_references;  // not the last one: the pool has a reference
        g_metadata.deallocate(&each, sizeof(thread_deferred));
    }
}
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
