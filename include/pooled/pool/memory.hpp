// SPDX-License-Identifier: BSL-1.0
#pragma once

// The memory of a pool and the threads' caches of it: it serves the calls that a thread's own cache could not.
//
//   thread's cache ◀─▶ cache_set: central free list of a class ◀─ slabs ─▶ slab_heap ─┐
//                                                              large_heap ────────────┴─▶ upstream
//
// Locks, in the order in which they may be taken: that of the caches, those of the central free lists in ascending order, those
// of the heaps, that of the metadata arena. Upstream, which may be a pool and use this one, is called without any.
// Invariants: those of the parts. Any thread may call.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/cache/cache_set.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/large_heap.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/reservation.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/pool/options.hpp"
#include "pooled/pool/release_clock.hpp"
#include "pooled/pool/stats.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

inline constexpr std::size_t k_max_reserved_bytes = std::size_t{1} << 47;  // the address space

class pool_memory {
public:
    // `name` must outlive the pool's memory.
    pool_memory(pool_options const& options, char const* name, std::uint32_t pool_id, bool is_shared) noexcept
        : m_upstream(options.upstream, options.max_bytes, options.huge_pages, name),
          m_slabs({.pool_id = pool_id,
                   .is_shared = is_shared,
                   .slab_bytes = slab_bytes_for(options.max_bytes),
                   .chunk_bytes = round_up(options.chunk_bytes != 0 ? options.chunk_bytes
                                                                    : default_chunk_bytes(options.max_bytes),
                                           slab_bytes_for(options.max_bytes)),
                   .starts_small = options.chunk_bytes == 0 && options.max_bytes == 0},
                  m_upstream),
          m_large(pool_id, is_shared, m_upstream),
          m_caches({m_slabs, name, pool_id, is_shared}, m_large),
          m_release_clock(options.release_unused_after),
          m_touches_reserved(options.touch_reserved) {}

    [[nodiscard]] cache_set& caches() noexcept { return m_caches; }
    [[nodiscard]] upstream const& from() const noexcept { return m_upstream; }

    // A block of class `c` for the owner of `cache` (null: a thread without a cache), which has none. Null when the bound is
    // reached and, at one moment, there was no free block anywhere; throws what upstream throws.
    [[nodiscard]] void* allocate(class_index c, thread_cache* cache) {
        on_slow_call(cache);
        for (;;) {
            if (void* const block = m_caches.allocate(c, cache)) return block;
            // Blocks of the class that other threads have cached are used before any upstream is called.
            if (!steal(c) && !find_slab(c, cache) && !grow(c)) return nullptr;
        }
    }

    // False when the pool is closed: the caller must count the block.
    [[nodiscard]] bool deallocate(class_index c, thread_cache* cache, void* block) noexcept {
        on_slow_call(cache);
        return m_caches.deallocate(c, cache, block);
    }

    // For requests beyond the largest size class. `cache`: that of the calling thread, or null. Returns the block that its
    // owner freed last, if that was requested with as many bytes; otherwise null. O(1), without a lock.
    [[nodiscard]] void* take_aside(std::size_t bytes, std::size_t align, thread_cache* cache) noexcept {
        if (cache == nullptr || cache->large.empty()) return nullptr;
        far_pass const pass(cache->pool_id);
        if (!pass || !cache->gate.enter()) return nullptr;
        large_block* const b = cache->large.take(bytes, align);
        void* const payload = b != nullptr ? m_large.use_again(*b, cache->large.payload()) : nullptr;
        cache->gate.leave();
        return payload;
    }
    // Called after take_aside() found nothing; otherwise as allocate() and deallocate() above.
    [[nodiscard]] void* allocate_large(std::size_t bytes, std::size_t align, thread_cache* cache);
    [[nodiscard]] bool deallocate_large(void* p, std::uint32_t pool_id, char const* name,
                                        thread_cache* cache) noexcept {
        map_entry const entry = g_page_map.find(p);
        if (entry.empty() || entry.pool_id() != pool_id || !entry.is_large() ||
            entry.large_at()->payload != p) [[unlikely]]
            fail_deallocation(name, p, "no large block in use starts there (double free, or another size)");
        return set_aside(*entry.large_at(), cache) || deallocate_large(*entry.large_at(), cache);
    }

    [[nodiscard]] bool deallocate_set_aside(large_block& b) noexcept { return !m_large.deallocate(b); }

    // Afterwards, `count` blocks of the classes `a` and `b` together can be allocated without a call to upstream. False when
    // the bound does not allow it. If one of them is k_large, its blocks are `large.bytes` each. Strong guarantee. O(slabs).
    struct large_shape {
        std::size_t bytes;
        std::size_t align;
    };
    [[nodiscard]] bool reserve(class_index a, class_index b, std::size_t count, large_shape large = {});
    [[nodiscard]] bool reserve_large(std::size_t bytes, std::size_t align, std::size_t count);

    // Returns all free memory: chunks and large blocks to upstream, the pages of free blocks to the system. Returns the number
    // of bytes. O(threads + slabs + cached blocks).
    std::size_t trim() noexcept;

    // Returns all slabs to upstream, including those with blocks in use. O(threads + slabs + cached blocks).
    void discard() noexcept {
        upstream::call under_way(m_upstream);
        unique_lock lock(m_caches.mutex());
        chunk* const all = m_caches.discard(m_slabs, under_way);
        lock.unlock();
        m_slabs.deallocate(all, under_way);
    }

    // Afterwards, no thread uses a cache, and deallocations are counted. Returns the number of blocks in use. Requires the lock
    // of the caches, and the registry's.
    [[nodiscard]] std::int64_t close() noexcept;

    void fill(pool_stats& sum) noexcept;
    [[nodiscard]] bool is_valid() noexcept;

    // Called before and after a fork.
    void before_fork() noexcept { m_upstream.before_fork(); }
    void after_fork_in_child() noexcept { m_large.after_fork_in_child(); }

private:
    [[nodiscard]] bool steal(class_index c) noexcept {
        scoped_lock const lock(m_caches.mutex());
        return m_caches.steal(c);
    }
    // Cached blocks of other classes may be the only reason why slabs are in use: blocks that were freed in random order lie in
    // as many slabs. Without this, 16 phases of 32 MiB held 170 MiB. The caller's cache returns the blocks that it did not need
    // lately; if slabs are reserved for the class, all caches return all blocks.
    [[nodiscard]] bool find_slab(class_index c, thread_cache* cache) noexcept {
        if (cache != nullptr) m_caches.flush_unused(*cache);
        if (m_slabs.has_free(c)) return true;
        if (!m_slabs.is_reserved_for(c)) return false;
        scoped_lock const lock(m_caches.mutex());
        return m_caches.steal_all([&] { return m_caches[c].free() != 0 || m_slabs.has_free(c); });
    }
    // False when the owner of `cache` does not keep the block itself.
    [[nodiscard]] bool set_aside(large_block& b, thread_cache* cache) noexcept {
        if (cache == nullptr) return false;
        far_pass const pass(cache->pool_id);
        if (!pass || !cache->gate.enter()) return false;
        bool const is_kept = cache->large.put(b);
        if (is_kept) m_large.set_aside(b);
        cache->gate.leave();
        return is_kept;
    }
    [[nodiscard]] POOLED_NOINLINE bool deallocate_large(large_block& b, thread_cache* cache) noexcept {
        on_slow_call(cache);
        return !m_large.deallocate(b);
    }
    [[nodiscard]] bool steal_large(std::size_t bytes) noexcept {
        scoped_lock const lock(m_caches.mutex());
        return m_caches.steal_large(bytes);
    }
    [[nodiscard]] bool grow(class_index c);
    [[nodiscard]] bool find_memory(class_index c);
    std::size_t release_free() noexcept;
    [[nodiscard]] bool may_reserve(std::size_t bytes, std::size_t count) const;

    // Once in a period, returns memory that was not needed during it.
    void on_slow_call(thread_cache* cache) noexcept {
        std::uint32_t calls = 0;
        if (cache != nullptr) {
            cache->slow_calls.add(1);
            calls = cache->slow_calls;
        }
        if (m_release_clock.is_due(calls)) [[unlikely]]
            release_unused();
    }
    void release_unused() noexcept;

    upstream m_upstream;
    slab_heap m_slabs;
    large_heap m_large;
    cache_set m_caches;
    release_clock m_release_clock;
    bool m_touches_reserved;
};

// True when another attempt may succeed. A failure of upstream is treated like a bound.
inline bool pool_memory::grow(class_index c) {
    POOLED_TRY {
        if (m_slabs.grow(c)) return true;
    }
    POOLED_CATCH(std::exception const&) {  // not the unwinding of a cancelled thread
        if (find_memory(c)) return true;
        POOLED_RETHROW;
    }
    return find_memory(c);
}

// Called at the bound. Examines all classes at one moment, with all owners stopped, so that "exhausted" is reported only when
// at that moment there was neither a free block nor a free slab, and no memory in transit from or to upstream.
POOLED_NOINLINE inline bool pool_memory::find_memory(class_index c) {
    for (;;) {
        std::uint64_t const before = m_upstream.calls_ended();
        bool const found = [&] {
            scoped_lock const lock(m_caches.mutex());
            return m_caches.steal_all([&] { return m_caches[c].free() != 0 || m_slabs.has_free(c); });
        }();
        if (found) return true;
        // A block that is larger than a slab of this pool needs its own chunk.
        bool const released =
            m_large.release_idle(large_heap::idle::unreserved) + m_slabs.release_chunks() != 0;
        if (m_slabs.grow(c)) return true;
        if (m_upstream.has_failed(m_slabs.slab_bytes())) return false;
        if (!released && !m_upstream.wait_for_call(before)) return false;
    }
}

inline void* pool_memory::allocate_large(std::size_t bytes, std::size_t align, thread_cache* cache) {
    on_slow_call(cache);
    if (void* const p = m_large.take(bytes, align)) return p;
    if (steal_large(bytes))
        if (void* const p = m_large.take(bytes, align)) return p;
    if (bytes > m_upstream.max_bytes()) return nullptr;
    POOLED_TRY {
        if (void* const p = m_large.grow(bytes, align)) return p;
    }
    POOLED_CATCH(std::exception const&) {  // not the unwinding of a cancelled thread
        if (release_free() == 0) POOLED_RETHROW;
        return m_large.grow(bytes, align);
    }
    for (;;) {
        std::uint64_t const before = m_upstream.calls_ended();
        if (void* const p = m_large.take(bytes, align)) return p;
        bool const released = release_free() != 0;
        if (void* const p = m_large.grow(bytes, align)) return p;
        if (m_upstream.has_failed(bytes)) return nullptr;
        if (!released && !m_upstream.wait_for_call(before)) return nullptr;
    }
}

// Returns all free memory that is not reserved to upstream, including what threads have cached. Returns the number of bytes.
inline std::size_t pool_memory::release_free() noexcept {
    {
        scoped_lock const lock(m_caches.mutex());
        m_caches.steal_all([] { return true; });
    }
    return m_large.release_idle(large_heap::idle::unreserved) + m_slabs.release_chunks();
}

// An object of one type is allocated in one of two classes. In the worst case, each of them has a slab that is not full.
inline bool pool_memory::reserve(class_index a, class_index b, std::size_t count, large_shape large) {
    class_index const larger = a == k_large ? b : b == k_large ? a : detail::max(a, b);
    class_index const smaller = a == k_large || b == k_large ? larger : detail::min(a, b);
    std::size_t const block_bytes = k_geometry[larger].block_bytes;
    if (!may_reserve(block_bytes, count)) return false;
    slab_heap::attempt mine(m_slabs, {smaller, larger});
    auto const free_in = [&](class_index c) {
        scoped_lock const lock(m_caches[c]);
        return m_caches[c].reserve(mine, count);
    };
    {
        scoped_lock const lock(m_caches.mutex());
        m_caches.steal(smaller);  // cached blocks then count, and need not be stolen later
        m_caches.steal(larger);
    }
    std::size_t const free_large = free_in(larger);
    std::size_t const least =
        count - (smaller != larger ? detail::min(free_large, free_in(smaller)) : free_large);
    std::size_t wanted = least;
    if (std::size_t const per_slab = k_geometry[larger].blocks_in(m_slabs.slab_bytes());
        least != 0 && smaller != larger && per_slab != 0)
        wanted = ((wanted + per_slab - 2) / per_slab + 1) * per_slab;
    auto const reserve_slabs = [&](std::size_t n) {
        return m_slabs.reserve(mine, larger, n, m_touches_reserved);
    };
    // If all objects are of one class, a bound that is just large enough for them suffices.
    bool const is_reserved = reserve_slabs(wanted) || (release_free() != 0 && reserve_slabs(wanted)) ||
                             (wanted != least && reserve_slabs(least));
    if (!is_reserved || (large.bytes != 0 && !reserve_large(large.bytes, large.align, count))) return false;
    mine.settle();
    return true;
}

inline bool pool_memory::reserve_large(std::size_t bytes, std::size_t align, std::size_t count) {
    if (!may_reserve(bytes, count)) return false;
    auto const reserve_blocks = [&] { return m_large.reserve(bytes, align, count, m_touches_reserved); };
    return reserve_blocks() || (release_free() != 0 && reserve_blocks());
}

// A request beyond the bound or the address space is refused before any chunk is requested.
inline bool pool_memory::may_reserve(std::size_t bytes, std::size_t count) const {
    std::size_t const all = saturating_multiply(count, bytes);
    if (all > m_upstream.max_bytes()) return false;
    if (all > k_max_reserved_bytes) POOLED_THROW(not_enough_memory(all));
    return true;
}

inline std::size_t pool_memory::trim() noexcept {
    m_slabs.forget_reservations();
    std::size_t bytes = m_large.release_idle(large_heap::idle::all) + release_free();
    for (class_index c = 0; c < k_class_count; ++c) {  // other threads use their caches meanwhile
        scoped_lock const lock(m_caches[c]);
        bytes += m_caches[c].purge();
    }
    return bytes + m_slabs.purge();
}

POOLED_NOINLINE inline void pool_memory::release_unused() noexcept {
    if (m_slabs.has_reservations()) return;
    {
        scoped_lock const lock(m_caches.mutex());
        m_caches.steal_from_idle();
    }
    m_large.release_idle(large_heap::idle::unused);
    std::size_t const unused = m_slabs.take_fewest_free();
    std::size_t const released = m_slabs.release_chunks(unused * m_slabs.slab_bytes());
    m_slabs.purge(unused - detail::min(unused, released / m_slabs.slab_bytes()));
}

inline std::int64_t pool_memory::close() noexcept {
    std::uint64_t in_use = 0;
    m_caches.steal_all([&] {
        for (class_index c = 0; c < k_class_count; ++c) {
            m_caches[c].close();
            in_use += m_caches[c].outside();
        }
        m_caches.abandon_all();
        return true;
    });
    return static_cast<std::int64_t>(in_use + m_large.close());
}

inline void pool_memory::fill(pool_stats& sum) noexcept {
    scoped_lock const lock(m_caches.mutex());
    for (class_index c = 0; c < k_class_count; ++c) {
        central& list = m_caches[c];
        size_class_stats& one = sum.classes[c];
        one.block_bytes = k_geometry[c].block_bytes;
        scoped_lock const class_lock(list);
        std::uint64_t unused = 0;
        one.remote_frees = list.retired_remote_frees();
        m_caches.for_each([&](thread_cache const& cache) {
            one.cached += cache.classes[c].held();
            unused += cache.classes[c].least_held();
            one.remote_frees += cache.classes[c].net_frees();
        });
        one.in_use = list.outside() - detail::min(list.outside(), one.cached);
        one.free = list.free();
        one.high_water = list.note_high_water(unused);
        one.slab_bytes = list.slab_bytes();
        one.refills = list.refills();
        one.flushes = list.flushes();
        sum += one;
    }
    large_heap::counts large = m_large.count();
    m_caches.for_each([&](thread_cache const& cache) {
        if (cache.large.empty() || large.in_use == 0) return;
        --large.in_use;
        large.in_use_bytes -= detail::min<std::uint64_t>(large.in_use_bytes, cache.large.bytes());
        large.idle_bytes += cache.large.total();
    });
    sum.large_in_use = large.in_use;
    sum.large_bytes = large.in_use_bytes;
    sum.large_cached_bytes = large.idle_bytes;
    sum.in_use += large.in_use;
    sum.high_water += large.high_water;
    sum.bytes_in_use += large.in_use_bytes;
    sum.upstream_bytes = m_upstream.used();
    sum.upstream_calls = m_upstream.calls();
    sum.max_bytes = m_upstream.is_bounded() ? m_upstream.max_bytes() : 0;
    m_caches.for_each([&](thread_cache const&) { ++sum.threads; });
}

inline bool pool_memory::is_valid() noexcept {
    scoped_lock const lock(m_caches.mutex());
    m_caches.stop();
    bool valid = m_slabs.is_valid() && m_large.is_valid() && m_upstream.used() <= m_upstream.max_bytes();
    for (class_index c = 0; c < k_class_count; ++c) {
        scoped_lock const class_lock(m_caches[c]);
        std::uint64_t held = 0;
        m_caches.for_each([&](thread_cache const& cache) {
            held += cache.classes[c].held();
            valid = valid && cache.classes[c].is_valid();
        });
        valid = valid && m_caches[c].is_valid() && held <= m_caches[c].outside();
    }
    m_caches.resume();
    return valid;
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
