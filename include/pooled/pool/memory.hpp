// SPDX-License-Identifier: BSL-1.0
#pragma once

// The memory of a pool and the threads' caches of it: it serves the calls that a thread's own cache could not.
//
//   thread's cache ◀─▶ cache_set: central free list of a class ◀─ slabs ─▶ slab_heap ◀─ chunks ─▶ upstream
//
// A pool that found no memory is *at its bound* (cache/at_bound.hpp), where another failure is found out in O(1). It leaves that mode once
// it has served some thousand requests in a row, which cost as much as entering it again.
//
// Locks, in the order in which they may be taken: that of the caches, those of the central free lists in ascending order, that
// of the heap, that of the metadata arena. Upstream's resource, which may be a pool and use this one, is called
// without any.
// Any thread may call.

#include "pooled/cache/at_bound.hpp"
#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/defer.hpp"
#include "pooled/cache/steal.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/options.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/pool/memory_release.hpp"
#include "pooled/stats.hpp"

#include <exception>

POOLED_BEGIN_DETAIL

class pool_memory {
public:
    pool_memory(pool_options const& options, std::uint32_t pool_id, bool is_shared) noexcept
        : m_upstream(options.upstream, options.max_bytes, options.huge_pages),
          m_slabs({.pool_id = pool_id,
                   .is_shared = is_shared,
                   .has_small_slabs = options.max_bytes != 0 && options.max_bytes < k_small_pool_bytes,
                   .chunk_bytes = options.chunk_bytes != 0 ? round_up(options.chunk_bytes, k_granule_bytes)
                                                           : default_chunk_bytes(options.max_bytes),
                   .starts_small = options.chunk_bytes == 0 && options.max_bytes == 0},
                  m_upstream),
          m_caches(m_slabs, pool_id, is_shared),
          m_release(m_upstream, m_slabs, m_caches, options.release_unused_after),
          m_options(options) {}

    [[nodiscard]] cache_set& caches() noexcept { return m_caches; }
    [[nodiscard]] upstream const& from() const noexcept { return m_upstream; }

    // A block for the owner of `cache` (null: a thread without a cache), which has none of the class. Null when the bound is reached and, at
    // one moment, there was no free block anywhere; throws what upstream throws.
    [[nodiscard]] void* allocate(block_request const& what, thread_cache* cache) {
        class_index const c = what.c;
        if (c != k_exact && is_exact(c, what.bytes))
            return allocate({k_exact, what.bytes, what.align}, cache);
        count_call(cache);
        if (c == k_exact) {
            if (what.bytes > k_size_max / 4 || what.align > k_size_max / 4) POOLED_NO_MEMORY;
            if (what.bytes > m_upstream.max_bytes()) return nullptr;
            cache = nullptr;
        }
        if (c >= k_first_large && cache != nullptr)
            if (void* const block = m_caches.take_handed(c, *cache)) return block;
        void* const block = allocate_or_grow(what, cache);
        if (c >= k_first_large && block != nullptr) {
            // What came from other threads without the lock was not left free until now.
            std::size_t const refilled = cache != nullptr ? cache->classes[c].held() : 0;
            std::size_t const taken = round_up(what.block_bytes(), k_granule_bytes) * (1 + refilled);
            m_caches.note_freed(static_cast<std::int64_t>(m_caches.end_handed(c) - taken), cache);
        }
        // Entering that mode takes a barrier on all threads, 5 to 30 µs, and a look at each cache; a request in it some 30 ns more.
        if (m_caches.is_at_bound() && m_caches[c].served() / k_served > m_caches.count() / 8 &&
            !try_leave_bound())
            m_caches[c].end_served();
        return block;
    }

    // False: another thread has a lock, and perhaps does not run, or is still inside.
    bool try_leave_bound() noexcept {
        try_scoped_lock const lock(m_caches);
        return !lock || m_searches != 0 || m_caches.leave_bound();
    }
    // `c`: that of the block's slab. True: the pool is closed, and that was its last reference.
    [[nodiscard]] bool deallocate(class_index c, thread_cache* cache, void* block) noexcept {
        count_call(cache);
        if (c >= k_first_large) return deallocate_large(c, cache, block);
        return !m_caches.deallocate(c, cache, block) && drop_references();
    }

    // Afterwards, `count` blocks of the classes `a` and `b` together can be allocated without a call to upstream. False when
    // the bound does not allow it. Those of `b` are asked for with the same bytes and alignment. Strong guarantee. O(spans).
    [[nodiscard]] bool reserve(block_request a, class_index b, std::size_t count);

    // Returns all free memory: chunks to upstream, the pages of free blocks to the system. Returns the number
    // of bytes. O(threads + slabs + cached blocks).
    std::size_t trim() noexcept { return m_release.trim(); }
    void work_in_background() noexcept { m_release.work_in_background(); }

    // Returns all slabs to upstream, including those with blocks in use. O(threads + slabs + cached blocks).
    void discard() noexcept {
        upstream::call under_way(m_upstream);
        intrusive_list<chunk> all;
        auto const detach = [&] {
            scoped_lock const lock(m_caches);
            m_caches.stop_every();
            return m_caches.with_all([&] {
                m_caches.collect_all();
                bool const is_done = m_caches.bar_slots() && !m_caches.are_slots_draining() &&
                                     m_slabs.detach_all(all, under_way);
                for (class_index c = 0; is_done && c < cache_set::k_lists; ++c)
                    m_caches[c].discard();
                m_caches.end_bar();
                return is_done;
            });
        };
        for (unsigned turn = 0; !detach(); ++turn)
            platform::pause(turn);
        m_slabs.return_chunks(all, under_way, slab_heap::refused::abandon);
    }

    // Afterwards, no thread uses a cache, and deallocations are counted. Requires that the caches are stopped for good, and their lock.
    // False: another thread has a lock, and does not run.
    [[nodiscard]] bool close() noexcept;
    // Drops references to a closed pool: that of its handle, or those of blocks and calls. True: those were the last. acq_rel: what every
    // thread did to its block happens before the pool is destroyed.
    [[nodiscard]] bool drop_references(std::uint64_t count = 1) noexcept {
        return m_references.fetch_sub(count, std::memory_order_acq_rel) == count;
    }

    void fill(pool_stats& sum) noexcept;
    [[nodiscard]] bool is_valid() noexcept;

    // Called in a forked child.
    void after_fork_in_child() noexcept {
        m_upstream.forget_calls();
        m_slabs.forget_others();
        m_searches = 0;
    }
    // registry::begin_anew() calls it in a child. Only the calling thread uses a local pool.
    void begin_anew(std::uint32_t pool_id, bool is_local) noexcept {
        if (is_local) return;
        pool_options const options = m_options;
        auto& anew = *::new (static_cast<void*>(this)) pool_memory(options, pool_id, true);
        anew.m_references.store(std::uint64_t{1} << 62, std::memory_order_relaxed);
    }

private:
    friend record_access;
    // Once in some calls, looks for memory that nobody needs.
    void count_call(thread_cache* cache) noexcept {
        std::uint32_t const calls = cache != nullptr ? cache->slow_calls + 1 : 0;
        if (cache != nullptr) cache->slow_calls = calls;
        if (m_release.is_call_due(calls)) [[unlikely]]
            m_release.on_slow_call(calls);
    }
    // What is left over of memory that came for a large block is left free, as if blocks had been there.
    [[nodiscard]] bool grow(block_request const& what, bool& has_failed) {
        std::size_t const bytes = m_slabs.grow(what, &has_failed);
        m_release.note_grown(bytes);
        if (what.c >= k_first_large) m_caches.note_freed(static_cast<std::int64_t>(bytes), nullptr);
        return bytes != 0;
    }

    // Whether a large request gets a span of its own: no class serves it, or the pool is bounded and the class is larger.
    [[nodiscard]] bool is_exact(class_index c, std::size_t bytes) const noexcept {
        return c == k_exact || (c >= k_first_large && m_upstream.is_bounded() &&
                                round_up(bytes, k_granule_bytes) < k_geometry[c].block_bytes);
    }

    // A failure of upstream is treated like a bound.
    [[nodiscard]] void* allocate_or_grow(block_request const& what, thread_cache* cache) {
        std::size_t const bytes = what.block_bytes();
        for (;;) {
            std::uint32_t const epoch = m_caches.bound_epoch();
            std::uint64_t const before = m_upstream.calls_ended();
            if (void* const block = m_caches.allocate(what, cache)) return block;
            if (m_caches.is_at_bound() && epoch == m_caches.bound_epoch() &&
                !m_upstream.may_give_soon(bytes, before) && m_slabs.empty_bytes() == 0)
                return nullptr;
            bool has_failed = false;
            POOLED_TRY {
                if (find_more(what, cache, has_failed)) continue;
            }
            POOLED_CATCH(std::exception const&) {  // not the unwinding of a cancelled thread
                if (void* const block = search(what, cache)) return block;
                POOLED_RETHROW;
            }
            return search(what, cache);
        }
    }
    // Whether another attempt may succeed. Blocks of the class that other threads have cached are used before any upstream is called, but for a
    // few large ones. `has_failed`: as of slab_heap::grow().
    [[nodiscard]] bool find_more(block_request const& what, thread_cache* cache, bool& has_failed) {
        if (what.c != k_exact && (steal(what.c) || find_slab(what.c, cache))) return true;
        return grow(what, has_failed);
    }
    // Searches at the bound. Null: there was no free block in any cache or list, no free span, and no memory in transit from or to upstream, at
    // one moment.
    [[nodiscard]] POOLED_NOINLINE void* search(block_request const& what, thread_cache* cache) {
        bound_search at_bound{*this};
        scoped_lock const searching(at_bound);
        // A release that the system refuses ends a call, which is not to be taken for another thread's.
        for (bool may_release = true;;) {
            std::uint64_t const before = m_upstream.calls_ended();
            if (void* const block = m_caches.allocate(what, cache)) return block;
            // A block that is longer than the free spans needs its own chunk.
            bool const has_empty = may_release && m_slabs.empty_bytes() != 0;
            bool const released = has_empty && m_slabs.release_chunks(k_size_max, true) != 0;
            may_release = may_release && (released || !has_empty);
            bool has_failed = false;
            if (find_more(what, cache, has_failed)) continue;
            if (has_failed) return nullptr;
            if (!released && !m_upstream.wait_for_call(before)) return nullptr;
        }
    }
    // From lock() to unlock(), the pool is at its bound: a local pool's cache is empty, and a shared pool's caches are not used.
    struct bound_search {
        pool_memory& of;

        void lock() noexcept {
            scoped_lock const own(of.m_caches);
            ++of.m_searches;
            of.m_caches.enter_bound();
        }
        void unlock() noexcept {
            scoped_lock const own(of.m_caches);
            if (of.m_searches != 0) --of.m_searches;
            if (of.m_searches == 0 && of.m_caches.has_recycled()) of.m_caches.leave_bound();
        }
    };
    static constexpr std::uint32_t k_served = 1024;  // requests in a row

    // Less is not worth a barrier on all threads, after which their owners take locks.
    static constexpr std::size_t k_least_stolen = k_slab_bytes;
    // Looks into the caches of other threads, which takes as long as there are threads: not each time when there are many. O(1), amortised.
    [[nodiscard]] bool steal(class_index c) noexcept {
        std::uint32_t const crowd = m_caches.count() / 64;
        if (m_caches.is_at_bound() || (crowd != 0 && m_caches[c].count_miss() % (crowd + 1) != 0))
            return false;
        std::size_t const least = least_stolen(c);
        try_scoped_lock const lock(m_caches);  // whoever has it may have been preempted
        return lock && m_caches.steal(c, least);
    }
    // Two threads that hand large blocks over would stop each other for each few of them, as long as these are just enough: who needs one takes
    // memory of the system while the others keep less than a quarter of what is outside, unless all that is needed was reserved.
    [[nodiscard]] std::size_t least_stolen(class_index c) noexcept {
        bool const may_grow = c >= k_first_large && m_upstream.is_system() && !m_upstream.is_bounded() &&
                              !m_slabs.has_reservations();
        std::size_t const outside = may_grow ? m_caches[c].outside() * k_geometry[c].block_bytes : 0;
        return detail::larger(k_least_stolen, outside / 4);
    }
    // Cached blocks of other classes may be the only reason why slabs are in use: blocks that were freed in random order lie in
    // as many slabs. Without this, 16 phases of 32 MiB held 170 MiB. The caller's cache returns the blocks that it did not need
    // lately, and so do the central lists; if slabs are reserved for the class, all caches return all blocks.
    [[nodiscard]] bool find_slab(class_index c, thread_cache* cache) noexcept {
        if (m_caches.is_at_bound()) return m_caches[c].has_free_slab(true);
        if (cache != nullptr) m_caches.flush_unused(*cache);
        m_caches.drain_recent();
        if (m_caches[c].has_free_slab()) return true;
        if (!m_slabs.is_reserved_for(c)) return false;
        try_scoped_lock const lock(m_caches);
        if (!lock) return false;
        m_caches.steal_each();
        // What the holder of a lock has who does not run is not waited for.
        return (m_caches[c].free() != 0 && !m_caches[c].is_stalled()) || m_caches[c].has_free_slab();
    }
    [[nodiscard]] bool deallocate_large(class_index c, thread_cache* cache, void* block) noexcept;

    upstream m_upstream;
    slab_heap m_slabs;
    cache_set m_caches;
    memory_release m_release;
    // One of the pool's handle; once it is closed, one of each block in use; and those of calls that must go on after their block is free.
    atomic<std::uint64_t> m_references{1};
    std::uint32_t m_searches = 0;  // in progress: guarded by the lock of the caches
    pool_options const m_options;
};

inline bool pool_memory::deallocate_large(class_index c, thread_cache* cache, void* block) noexcept {
    if (cache != nullptr && m_caches.hand_over(c, *cache, block)) return false;
    // A block of an inlined class is not verified yet.
    std::size_t bytes =
        c == k_exact ? g_page_map.find_owned(block).slab_at()->bytes() : k_geometry[c].block_bytes;
    if (c < k_inlined_classes && cache != nullptr && !m_caches.is_at_bound())
        bytes *= k_geometry[c].cache_blocks / 2U;  // those of a flush
    bytes += m_caches.end_handed(c);  // what came to the list without a call here was not left free until now
    // Many threads that end at once: only after the last of them has freed its block is it known what is free.
    bool const is_late = c == k_exact || cache == nullptr;
    if (is_late)
        m_references.fetch_add(1, std::memory_order_relaxed);
    else
        m_release.release_excess(bytes, cache);
    bool const is_counted = !m_caches.deallocate(c, c != k_exact ? cache : nullptr, block);
    if (is_late) m_release.release_excess(bytes, nullptr);
    std::uint64_t const references = std::uint64_t{is_counted} + std::uint64_t{is_late};
    return references != 0 && drop_references(references);
}

// An object of one type is allocated in one of two classes. In the worst case, each of them has a slab that is not full.
inline bool pool_memory::reserve(block_request a, class_index b, std::size_t count) {
    if (a.bytes > k_size_max / 4) POOLED_THROW(not_enough_memory(a.bytes));
    if (count == 0) return true;
    if (is_exact(a.c, a.bytes)) a.c = k_exact;
    if (is_exact(b, a.bytes)) b = k_exact;
    class_index const smaller = detail::smaller(a.c, b);
    // A block that no class serves shares no span with others, so as many are reserved of each kind.
    bool const are_apart = smaller != k_exact && (a.c == k_exact || b == k_exact);
    class_index const larger = are_apart ? smaller : detail::larger(a.c, b);
    span_request const what = m_slabs.span_for({larger, a.bytes, a.align});
    // A request beyond the bound or the address space is refused before any chunk is requested.
    std::size_t const all = saturating_multiply(count, what.bytes);
    if (all > m_upstream.max_bytes()) return false;
    if (all > k_max_reserved_bytes) POOLED_THROW(not_enough_memory(all));
    slab_heap::attempt mine(m_slabs, {smaller, larger}, m_options.touch_reserved);
    if (larger != k_exact) {
        m_caches.try_drain_slots();
        try_scoped_lock const lock(m_caches, false);
        if (lock) m_caches.steal(smaller, 1);  // cached blocks then count, and need not be stolen later
        if (lock) m_caches.steal(larger, 1);
    }
    std::size_t const per_slab = k_geometry[larger].blocks_in(what.granules * k_granule_bytes);
    bool const is_of_one_class = smaller == larger;
    auto const attempt = [&](bool is_uniform) {
        // Blocks of the classes count while both are locked: none is counted in its class and, once its slab is free, in the heap.
        auto const missing = [&](bool are_locked) {
            std::size_t wanted = count;
            mine.has_looked = are_locked;
            if (are_locked)
                wanted -= detail::smaller(m_caches[larger].reserve(mine, count),
                                          m_caches[smaller].reserve(mine, count));
            if (wanted != 0 && !is_uniform) wanted = ((wanted + per_slab - 2) / per_slab + 1) * per_slab;
            return m_slabs.claim(mine, what, wanted);
        };
        return m_slabs.reserve(mine, what, [&] {
            try_scoped_lock const first(m_caches[smaller], mine.may_wait);
            if (larger == smaller) return missing(static_cast<bool>(first));
            try_scoped_lock const other(m_caches[larger], mine.may_wait);
            return missing(first && other);
        });
    };
    // If the bound, or upstream, does not allow it, once more after what is free was returned: slabs in use may be free since.
    bool is_done = false;
    POOLED_TRY {
        std::size_t anew = count + (is_of_one_class ? 0 : 2 * per_slab);
        is_done = attempt(is_of_one_class) &&
                  (!m_options.touch_reserved || m_slabs.touch(mine) ||
                   m_slabs.reserve(mine, what, [&anew] { return std::exchange(anew, 0); }));
    }
    POOLED_CATCH(std::exception const&) {  // not the unwinding of a cancelled thread
        if (mine.has_looked) POOLED_RETHROW;
    }
    mine.may_wait = !is_done;
    for (unsigned turn = 0; mine.may_wait; platform::pause(turn++)) {
        m_release.release_free();
        mine.has_failed = false;
        std::uint64_t const before = m_upstream.calls_ended();
        std::uint64_t const apart = m_slabs.apart();
        // If all objects are of one class, a bound that is just large enough for them suffices.
        if (attempt(is_of_one_class) || (!is_of_one_class && attempt(true))) break;
        if (mine.has_failed) return false;
        if (!m_upstream.wait_for_call(before) && m_slabs.was_alone(apart)) return false;
    }
    if (mine.may_wait && m_options.touch_reserved) static_cast<void>(m_slabs.touch(mine));
    if (are_apart && !reserve({k_exact, a.bytes, a.align}, k_exact, count)) return false;
    mine.settle();
    return true;
}

inline bool pool_memory::close() noexcept {
    return m_caches.with_all([&] {
        m_caches.collect_all();
        std::uint64_t in_use = 0;
        for (class_index c = 0; c < cache_set::k_lists; ++c) {
            m_caches[c].close();
            in_use += m_caches[c].outside();
        }
        m_references.fetch_add(in_use, std::memory_order_relaxed);
        m_caches.abandon_all();
        return true;
    });
}

inline void pool_memory::fill(pool_stats& sum) noexcept {
    m_caches.try_drain_slots();
    try_scoped_lock const lock(m_caches, false);  // otherwise what threads have cached counts as in use
    size_class_stats exact;                       // blocks of any size
    for (class_index c = 0; c < cache_set::k_lists; ++c) {
        central& list = m_caches[c];
        size_class_stats& one = c != k_exact ? sum.classes[c] : exact;
        bool const is_mine = list.try_lock_for_a_moment();  // otherwise its counts are of several moments
        if (is_mine) list.adopt();
        std::uint64_t unused = 0;
        one.remote_frees = list.retired_remote_frees();
        if (c != k_exact) {
            one.block_bytes = k_geometry[c].block_bytes;
            for (auto* at = lock ? m_caches.first() : nullptr; at != nullptr; at = at->links.next) {
                one.cached += at->classes[c].held();
                unused += at->classes[c].least_held();
                one.remote_frees += at->classes[c].net_frees();
            }
        }
        std::uint64_t const handed = list.handed();  // those that could not be taken
        one.in_use = saturating_subtract(list.outside(), one.cached + handed);
        one.free = list.free() + handed;
        one.high_water = lock && is_mine ? list.note_high_water(unused) : list.high_water();
        one.slab_bytes = list.slab_bytes();
        one.refills = list.refills();
        one.flushes = list.flushes();
        if (is_mine) list.unlock();
        sum += one;
        sum.bytes_in_use += c != k_exact ? one.in_use * one.block_bytes : one.slab_bytes;
        if (c < k_first_large) continue;
        sum.large_in_use += one.in_use;
        sum.large_bytes += one.in_use * one.block_bytes;
        sum.large_cached_bytes += (one.cached + one.free) * one.block_bytes;
    }
    // The classes did not all peak at the same time: no more blocks were in use than fit into the most memory that the pool had.
    std::size_t left = m_upstream.most_used();
    sum.high_water = exact.high_water;
    for (size_class_stats const& one : sum.classes) {  // the smallest blocks first
        std::uint64_t const fitting = detail::smaller<std::uint64_t>(
            one.high_water, left / detail::larger<std::size_t>(one.block_bytes, 1));
        left -= fitting * one.block_bytes;
        sum.high_water += fitting;
    }
    sum.large_bytes += exact.slab_bytes;
    sum.upstream_bytes = m_upstream.used();
    sum.upstream_calls = m_upstream.calls();
    sum.max_bytes = m_upstream.is_bounded() ? m_upstream.max_bytes() : 0;
    sum.threads = m_caches.count();
}

inline bool pool_memory::is_valid() noexcept {
    bool valid = m_slabs.is_valid() && m_upstream.used() <= m_upstream.max_bytes();
    auto const look = [&] {
        for (class_index c = 0; c < k_class_count; ++c) {
            std::uint64_t held = 0;
            m_caches.for_each_stopped([&](thread_cache const& cache) {
                held += cache.classes[c].held();
                valid = valid && cache.classes[c].is_valid();
            });
            valid =
                valid && m_caches[c].is_valid() && (held <= m_caches[c].outside() || m_slabs.may_have_lost());
        }
        return true;
    };
    scoped_lock const lock(m_caches);
    m_caches.with_every(look);
    return valid;
}

POOLED_END_DETAIL
