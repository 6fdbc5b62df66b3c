// SPDX-License-Identifier: BSL-1.0
#pragma once

// All caches of one pool, and the central free lists behind them: which threads have a cache, and the operations on all of them.
//
//   thread_cache ─┐
//   thread_cache ─┼─ class c ─▶ central c ─▶ slab_heap
//   thread_cache ─┘
//
// Locks, in the order in which they may be taken: mutex(), those of the central free lists in ascending order, those
// below. Functions require mutex() unless noted.
// Invariant: held_by_others(c) + held by the caller <= outside of central c.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/cache/central.hpp"
#include "pooled/cache/class_cache.hpp"
#include "pooled/cache/gate.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/large_heap.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Waits until the owner has left the gate. Inside, the owner waits for no lock that the caller or a fork keeps from it, so this takes
// a few instructions, or its next time slice.
inline void wait_until_idle(gate<> const& one) noexcept {
    for (unsigned attempt = 0; !one.is_idle(); ++attempt)
        platform::pause(attempt);
}

// A forked child has only one of its parent's threads. The caches of the others are retired when a thread next uses the list of
// a pool's caches. Written only in the child, before any other thread runs there.
POOLED_STATE(std::atomic<thread_state const*>, g_fork_survivor, {nullptr});
POOLED_STATE(observed<std::uint32_t>, g_forks_survived, {});
POOLED_STATE(std::atomic<void (*)(thread_cache&) noexcept>, g_retire_dead, {nullptr});

class cache_set {
public:
    // A thread that rarely uses a class has a small array for it: 16 addresses, then 64, then 256, or the class's maximum.
    static constexpr std::uint32_t k_first_capacity = 16;
    static constexpr std::uint32_t k_growth = 4;

    cache_set(central::context const& pool, large_heap& large) noexcept
        : m_mutex(*this, pool.is_shared), m_large(large), m_forks_survived(g_forks_survived) {
        for (class_index c = 0; c < k_class_count; ++c)
            std::construct_at(&(*this)[c], pool, c);
    }
    cache_set(cache_set const&) = delete;
    cache_set& operator=(cache_set const&) = delete;

    // The set, locked, and with only those caches whose owners exist.
    class caches_mutex {
    public:
        explicit caches_mutex(cache_set& caches, bool is_shared) noexcept
            : m_mutex(is_shared), m_caches(caches) {}
        void lock() noexcept {
            m_mutex.lock();
            m_caches.forget_dead();
        }
        void unlock() noexcept { m_mutex.unlock(); }

    private:
        optional_mutex m_mutex;
        cache_set& m_caches;
    };
    [[nodiscard]] caches_mutex& mutex() noexcept { return m_mutex; }

    // Retires the caches of threads that do not exist in this forked child.
    void forget_dead() noexcept {
        if (m_forks_survived == g_forks_survived) [[likely]]
            return;
        m_forks_survived = g_forks_survived;
        thread_state const* const survivor = g_fork_survivor.load(std::memory_order_relaxed);
        for (thread_cache *cache = m_first, *next = nullptr; cache != nullptr; cache = next) {
            next = cache->next;
            if (cache->owner != nullptr && cache->owner != survivor)
                g_retire_dead.load(std::memory_order_relaxed)(*cache);
        }
    }

    // Without a lock.
    [[nodiscard]] central& operator[](class_index c) noexcept {
        return *std::launder(reinterpret_cast<central*>(m_central.data() + c * sizeof(central)));
    }

    // A block for the owner of `cache`, or for a thread without one (null), from its cache or the central free list. Null
    // when there is none, and the heap has no free slab. Without a lock; O(blocks moved).
    [[nodiscard]] void* allocate(class_index c, thread_cache* cache) noexcept {
        central& list = (*this)[c];
        scoped_lock const lock(list);
        if (cache == nullptr) return list.take_one();
        class_cache& mine = cache->classes[c];
        if (void* const block = mine.pop()) return block;  // the owner was stopped
        grow(mine, c);
        return list.refill(mine);
    }

    // Takes a block back. False when the pool is closed: the caller has to count it. Without a lock; O(blocks moved).
    [[nodiscard]] bool deallocate(class_index c, thread_cache* cache, void* block) noexcept {
        central& list = (*this)[c];
        scoped_lock const lock(list);
        if (cache == nullptr || list.is_closed()) {
            list.flush({&block, 1});
            return !list.is_closed();
        }
        class_cache& mine = cache->classes[c];
        if (mine.push(block)) return true;  // the owner was stopped
        if (list.is_drained()) {
            list.collect(mine);
            mine.release();
        } else if (!grow(mine, c)) {
            list.flush_half(mine);
        }
        if (!mine.push(block)) list.flush({&block, 1});
        return true;
    }

    // Returns blocks that the calling owner of `cache` did not need lately: each of a few blocks can keep a slab from other
    // classes. Without a lock; O(classes + blocks moved).
    void flush_unused(thread_cache& cache) noexcept {
        for (class_index c = 0; c < k_class_count; ++c) {
            if (cache.classes[c].least_held() == 0) continue;
            scoped_lock const lock((*this)[c]);
            if (!(*this)[c].is_closed()) (*this)[c].flush_unused(cache.classes[c]);
        }
    }

    void link(thread_cache& cache) noexcept {
        if (m_is_held) cache.gate.stop();
        cache.previous = nullptr;
        cache.next = m_first;
        if (m_first != nullptr) m_first->previous = &cache;
        m_first = &cache;
    }
    void unlink(thread_cache& cache) noexcept {
        (cache.previous != nullptr ? cache.previous->next : m_first) = cache.next;
        if (cache.next != nullptr) cache.next->previous = cache.previous;
        cache.next = cache.previous = nullptr;
    }
    [[nodiscard]] thread_cache* first() const noexcept { return m_first; }

    template <class Visit>
    void for_each(Visit&& visit) noexcept {
        for (thread_cache* cache = m_first; cache != nullptr; cache = cache->next)
            visit(*cache);
    }
    // The gates of all owners except the caller; a local pool's owner is the caller.
    template <class Visit>
    void for_each_other_gate(Visit&& visit) noexcept {
        for_each([&](thread_cache& cache) {
            if (cache.owner != nullptr && cache.owner != &t_state) visit(cache.gate);
        });
    }

    // From stop() to resume(), only the caller uses its cache. O(threads).
    void stop() noexcept {
        stop_all([this](auto&& visit) { for_each_other_gate(visit); }, platform::heavy_barrier,
                 wait_until_idle);
    }
    void resume() noexcept {
        if (m_is_held || platform::is_barrier_refused()) return;
        bool const is_fork = fork_gate::is_passed();  // within one, its stopped gates stay stopped
        for_each([is_fork](thread_cache& cache) {
            if (!is_fork || !cache.gate.is_stopped_for_fork()) cache.gate.resume();
        });
    }
    // For the owner of a cache that a fork has stopped. Takes the lock.
    void resume_after_fork(thread_cache& cache) noexcept {
        scoped_lock const lock(m_mutex);
        if (!m_is_held && !fork_gate::is_passed() && !platform::is_barrier_refused() &&
            cache.gate.is_stopped_for_fork())
            cache.gate.resume();
    }

    // The same without the lock: until let_go(), no thread uses its cache, including new threads and the caller.
    void hold() noexcept {
        stop();
        m_is_held = true;
        for_each([](thread_cache& cache) { cache.gate.stop(); });
    }
    void let_go() noexcept {
        m_is_held = false;
        resume();
    }

    // Moves all cached blocks of a class to its central free list. False when the caches of other threads held none.
    // O(threads + blocks moved).
    bool steal(class_index c) noexcept {
        if (held_by_others(c) == 0) return false;
        stop();
        {
            scoped_lock const lock((*this)[c]);
            collect(c);
        }
        resume();
        return true;
    }

    // Moves the large blocks that other threads keep to their heap, if one of them may serve a request for `bytes`; else
    // false. O(threads).
    bool steal_large(std::size_t bytes) noexcept {
        bool any = false;
        for_each([&](thread_cache& cache) {
            any = any || (cache.owner != nullptr && cache.owner != &t_state && cache.large.may_serve(bytes));
        });
        if (!any) return false;
        stop();
        collect_large();
        resume();
        return true;
    }

    // The same for all classes and large blocks; calls `then()` while all classes are locked, so that no block can move.
    template <class Then>
    auto steal_all(Then&& then) noexcept {
        stop();
        lock_classes();
        for (class_index c = 0; c < k_class_count; ++c)
            collect(c);
        collect_large();
        auto const result = then();
        unlock_classes();
        resume();
        return result;
    }

    // Ends all blocks of the size classes, including those in use. Returns the chunks, which the heap must deallocate.
    [[nodiscard]] chunk* discard(slab_heap& heap, upstream::call& under_way) noexcept {
        return steal_all([&] {
            for (class_index c = 0; c < k_class_count; ++c)
                (*this)[c].discard();
            return heap.detach_all(under_way);
        });
    }

    // Empties the caches whose owners took no slow path since the last call: they are idle, or need only their hot blocks.
    void steal_from_idle() noexcept {
        auto const for_each_idle = [this](auto&& visit) {
            for_each([&](thread_cache& cache) {
                if (cache.owner != &t_state && cache.owner != nullptr &&
                    cache.slow_calls_seen == cache.slow_calls)
                    visit(cache);
            });
        };
        thread_cache* idle = nullptr;
        for_each_idle([&](thread_cache& cache) { idle = holds_any(cache) ? &cache : idle; });
        if (idle != nullptr) {
            stop();
            for_each_idle([this](thread_cache& cache) {
                for (class_index c = 0; c < k_class_count; ++c) {
                    if (cache.classes[c].held() == 0) continue;
                    scoped_lock const lock((*this)[c]);
                    (*this)[c].collect(cache.classes[c]);
                }
                collect_large(cache);
            });
            resume();
        }
        for_each([](thread_cache& cache) { cache.slow_calls_seen = cache.slow_calls; });
    }

    // The cache's owner has ended, or is the caller, which is about to end.
    void retire(thread_cache& cache) noexcept {
        for (class_index c = 0; c < k_class_count; ++c) {
            class_cache& one = cache.classes[c];
            if (one.capacity() == 0 && one.held() == 0 && one.net_taken() == 0) continue;
            scoped_lock const lock((*this)[c]);
            (*this)[c].retire(one);
        }
        collect_large(cache);
        unlink(cache);
    }

    // Afterwards, no owner enters its cache again, and each will free it. Requires stopped caches, and the registry's lock.
    void abandon_all() noexcept {
        while (thread_cache* const cache = m_first) {
            unlink(*cache);
            cache->core = nullptr;
            if (thread_state* const owner = cache->owner) {
                cache->next_closed = owner->closed.load(std::memory_order_relaxed);
                owner->closed.store(cache, std::memory_order_relaxed);
            }
            cache->gate.close();
        }
    }

    // Requires stopped caches and the lock of the class.
    void collect(class_index c) noexcept {
        for_each([&](thread_cache& cache) {
            if (cache.classes[c].held() != 0) (*this)[c].collect(cache.classes[c]);
        });
    }

    // Requires stopped caches.
    void collect_large() noexcept {
        for_each([this](thread_cache& cache) { collect_large(cache); });
    }
    void collect_large(thread_cache& cache) noexcept {
        if (large_block* const b = cache.large.remove()) m_large.take_back(*b);
    }

    [[nodiscard]] std::uint64_t held_by_others(class_index c) const noexcept {
        std::uint64_t held = 0;
        for (thread_cache const* cache = m_first; cache != nullptr; cache = cache->next)
            if (cache->owner != nullptr && cache->owner != &t_state) held += cache->classes[c].held();
        return held;
    }

    void lock_classes() noexcept {
        for (class_index c = 0; c < k_class_count; ++c)
            (*this)[c].lock();
    }
    void unlock_classes() noexcept {
        for (class_index c = k_class_count; c-- != 0;)
            (*this)[c].unlock();
    }

private:
    // False when the array has its full size, or when there is no memory for a larger one.
    static bool grow(class_cache& cache, class_index c) noexcept {
        std::uint32_t const most = k_geometry[c].cache_blocks;
        if (cache.capacity() == most) return false;
        return cache.reserve(detail::min(most, detail::max(k_first_capacity, k_growth * cache.capacity())));
    }

    [[nodiscard]] static bool holds_any(thread_cache const& cache) noexcept {
        return !cache.large.empty() ||
               detail::any_of(cache.classes, [](class_cache const& one) { return one.held() != 0; });
    }

    caches_mutex m_mutex;
    large_heap& m_large;
    std::uint32_t m_forks_survived;
    bool m_is_held = false;
    std_atomics::plain<thread_cache*> m_first = nullptr;
    // Not an array of central: compilers inline its constructor once for each class, which took GCC 12 139 s under
    // -fsanitize=address,undefined.
    alignas(central) std::array<std::byte, k_class_count * sizeof(central)> m_central;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
