// SPDX-License-Identifier: BSL-1.0
#pragma once

// A list of free addresses of any kind: each thread keeps some in its cache, the others are in a list behind a lock.
//
//   thread_cache::recycled (one per thread) ◀─ refill, flush: half a cache ─▶ list
//
// The memory behind the addresses is never touched. The caches are those of a pool_core, whose `recycled` nothing else may use; its
// owner forwards on_retire(). The lock is that of the core's caches.
//
// Access: a thread uses its own cache inside the gate or under the lock, and another thread's under the lock with all owners
// stopped (a steal). The list requires the lock. The caller provides the memory of the list, so that none is allocated under the
// lock: see capacity_for().
// Invariant: idle = list + Σ held of the caches <= capacity of the list
// O(1), but for a refill, a flush and a steal: O(threads + addresses moved).

#include "pooled/allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/geometry.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/pool/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class free_list {
public:
    using list = std::vector<void*, allocator<void*>>;

    explicit free_list(pool_core& core) noexcept : m_core(core), m_lock(core), m_index(core.slot()) {}

    class caches_lock {
    public:
        explicit caches_lock(pool_core& core) noexcept : m_core(core) {}
        void lock() noexcept { m_core.lock_caches(); }
        void unlock() noexcept { m_core.unlock_caches(); }

    private:
        pool_core& m_core;
    };
    [[nodiscard]] caches_lock& mutex() noexcept { return m_lock; }

    // The calling thread's cache, or null: it may have one that this does not find.
    [[nodiscard]] thread_cache* near_cache() const noexcept { return t_state.near_caches[m_index]; }
    // The calling thread's cache, made if it has none; null when it can have none. Without the lock.
    [[nodiscard]] thread_cache* attach() noexcept {
        thread_cache* const mine = t_state.near_caches[m_index];
        return mine != nullptr && mine->gate.is_open() ? mine : g_registry.attach(m_core);
    }

    // Null: the caller must take the slow path. A cache with at most `spare` addresses returns none.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* take_cached(std::uint32_t spare) noexcept {
        return take_from(t_state.near_caches[m_index], spare);
    }
    // False: the caller keeps the address. `is_stale` is read inside the gate: it may change while all are stopped.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool put_cached(void* p, bool const& is_stale) noexcept {
        return put_into(t_state.near_caches[m_index], p, is_stale);
    }
    // The same in a process with so many pools that those two functions do not find this pool's cache.
    [[nodiscard]] void* take_far(std::uint32_t spare) noexcept {
        far_pass const pass(m_core.id());
        return m_index == k_far_slot && pass ? take_from(t_state.find(m_core.id()), spare) : nullptr;
    }
    [[nodiscard]] bool put_far(void* p, bool const& is_stale) noexcept {
        far_pass const pass(m_core.id());
        return m_index == k_far_slot && pass && put_into(t_state.find(m_core.id()), p, is_stale);
    }

    // The capacity that the caller must reserve in a list, for move_to(), before it adds addresses up to `capacity`; 0: none. Without
    // the lock, by the one thread that adds.
    [[nodiscard]] std::size_t capacity_for(std::size_t capacity) const noexcept {
        return capacity <= m_list.capacity() ? 0 : detail::larger(capacity, 2 * m_list.capacity());
    }

    // The functions that follow require the lock. `mine` is the calling thread's cache, or null.

    // Takes over the reserved memory, and returns the old memory in exchange.
    void move_to(list& reserved) noexcept {
        if (reserved.capacity() == 0) return;
        reserved.assign(m_list.begin(), m_list.end());
        reserved.swap(m_list);
    }
    // `count` places for new addresses, of which the last is taken first.
    [[nodiscard]] void** add(std::size_t count) noexcept {
        m_list.resize(m_list.size() + count);
        return m_list.data() + (m_list.size() - count);
    }

    [[nodiscard]] std::size_t idle() noexcept {
        std::size_t sum = m_list.size();
        for_each_cache([&](thread_cache& each) { sum += each.recycled.held(); });
        return sum;
    }

    // Takes an address from the caller's cache, the list, or any other cache. Null: at one moment none was free.
    [[nodiscard]] void* pop(thread_cache* mine, std::size_t capacity) noexcept {
        if (void* const own = mine != nullptr ? mine->recycled.pop() : nullptr) {
            refill(mine, capacity);
            return own;
        }
        if (m_list.empty() && idle() != 0) {
            m_core.stop_caches();
            collect_all();
            m_core.resume_caches();
        }
        if (m_list.empty()) return nullptr;
        void* const last = m_list.back();
        m_list.pop_back();
        refill(mine, capacity);
        return last;
    }

    // Fills the caller's cache if it is empty. True: no other thread has a cache, and all free addresses are in this one.
    [[nodiscard]] bool gather(thread_cache* mine, std::size_t capacity) noexcept {
        refill(mine, capacity);
        bool const is_only_one =
            mine != nullptr && m_core.first_cache() == mine && mine->links.next == nullptr;
        return is_only_one && m_list.empty();
    }

    // Calls `then()` while no other thread uses its cache.
    template <class Then>
    void while_stopped(Then&& then) noexcept {
        m_core.stop_caches();
        then();
        m_core.resume_caches();
    }

    // The address that the caller would get next; null if it would come from another thread's cache.
    [[nodiscard]] void* peek(thread_cache* mine) noexcept {
        void* const own = mine != nullptr ? mine->recycled.pop() : nullptr;
        if (own == nullptr) return m_list.empty() ? nullptr : m_list.back();
        static_cast<void>(mine->recycled.push(own));
        return own;
    }

    void push(thread_cache* mine, void* p, std::size_t capacity) noexcept {
        if (!may_cache(mine, capacity)) return m_list.push_back(p);
        std::uint32_t const held = mine->recycled.held();
        if (held >= m_limit) flush(*mine, held - m_limit / 2);
        static_cast<void>(mine->recycled.push(p));
    }

    // Takes everything; `then(addresses)` is called while all owners are stopped.
    template <class Then>
    [[nodiscard]] list take_all(Then&& then) noexcept {
        m_core.stop_caches();
        collect_all();
        list all;
        all.swap(m_list);
        then(all.size());
        m_core.resume_caches();
        return all;
    }

    // Called when the cache's owner has ended: takes the cache's addresses and frees its memory.
    void retire(thread_cache& cache) noexcept {
        collect(cache);
        cache.recycled.release();
    }

private:
    // While there are only few for each thread, none are cached, because the lock is cheaper than a steal.
    static constexpr std::uint32_t k_most_cached = 256;
    static constexpr std::size_t k_least_share = 4;

    [[nodiscard]] POOLED_ALWAYS_INLINE static void* take_from(thread_cache* cache,
                                                              std::uint32_t spare) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return nullptr;
        void* const p = cache->recycled.pop_above(spare);
        cache->gate.leave();
        return p;
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE bool put_into(thread_cache* cache, void* p,
                                                     bool const& is_stale) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return false;
        bool const is_put = !is_stale && cache->recycled.push_below(m_limit, p);
        cache->gate.leave();
        return is_put;
    }

    // If the cache is empty, refills it with half a cache of the newest addresses; the newest is taken first.
    void refill(thread_cache* mine, std::size_t capacity) noexcept {
        if (m_list.empty() || !may_cache(mine, capacity) || mine->recycled.held() != 0) return;
        std::size_t const count = detail::smaller<std::size_t>((m_limit + 1) / 2, m_list.size());
        std::size_t const left = m_list.size() - count;
        detail::copy_n(m_list.data() + left, count, mine->recycled.fill(static_cast<std::uint32_t>(count)));
        m_list.resize(left);
    }

    // Whether the thread may cache addresses, if there are `capacity` in total.
    [[nodiscard]] bool may_cache(thread_cache* mine, std::size_t capacity) noexcept {
        std::size_t threads = 0;
        for_each_cache([&](thread_cache&) { ++threads; });
        std::size_t const share = threads < 2 ? k_most_cached : capacity / (k_least_share * threads);
        m_limit = static_cast<std::uint32_t>(detail::smaller<std::size_t>(share, k_most_cached));
        return mine != nullptr && m_limit != 0 &&
               (mine->recycled.capacity() != 0 || mine->recycled.reserve(k_most_cached));
    }

    void flush(thread_cache& cache, std::uint32_t count) noexcept {
        auto const oldest = cache.recycled.oldest(count);
        m_list.insert(m_list.end(), oldest.begin(), oldest.end());
        cache.recycled.drop_oldest(static_cast<std::uint32_t>(oldest.size()));
    }
    void collect(thread_cache& cache) noexcept {
        flush(cache, cache.recycled.capacity());
        if (void* const hot = cache.recycled.pop_hot()) m_list.push_back(hot);
    }
    template <class Visit>
    void for_each_cache(Visit&& visit) noexcept {
        for (thread_cache* each = m_core.first_cache(); each != nullptr; each = each->links.next)
            visit(*each);
    }
    // Requires stopped owners.
    void collect_all() noexcept {
        for_each_cache([this](thread_cache& each) { collect(each); });
    }

    pool_core& m_core;
    caches_lock m_lock;
    std::uint32_t const m_index;      // in thread_state::near_caches
    observed<std::uint32_t> m_limit;  // addresses in a cache
    alignas(k_cache_line) list m_list;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
