// SPDX-License-Identifier: BSL-1.0
#pragma once

// The central free list of one size class: the blocks that were freed last, and the slabs of the class that have a free block.
// Threads refill their caches from it and flush them to it, half a cache at a time.
//
//   class_cache ─ flush ─▶ recent: the addresses flushed last ─ the oldest ─▶ slabs: their bits are set
//               ◀─ refill: the newest of recent, else the lowest free blocks of a slab ──┘
//                                                               │ ▲
//                            no block in use: returned at once  ▼ │  no free block: an empty slab
//                                                            slab_heap
//
// What was freed last is likely to be in the processor's caches. After it, the slab that last received a block is used first, and slabs
// that receive none become empty. Once it has no free block, the slab after it in memory is used if that has one, as each jump to
// another place is slow (heap/free_spans.hpp).
//
// Invariants: capacity = blocks of the class's slabs, also of those that were added without the lock;
//             free = sum of the slabs' free; m_slabs lists those with free > 0,
//             and none with free == total
//             outside = capacity - free - recent: blocks in threads' caches or in use
//             recent <= a sixteenth of outside, or half a cache if other threads are likely to take it, so few slabs are in use for its
//             sake, and none when no block is
// Everything except the counters requires the lock. Refill and flush: O(blocks moved + slabs touched).

#include "pooled/cache/class_cache.hpp"
#include "pooled/cache/deferred_blocks.hpp"
#include "pooled/cache/handed_blocks.hpp"
#include "pooled/cache/recent_blocks.hpp"
#include "pooled/heap/apart.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/purge.hpp"
#include "pooled/heap/reserve.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"

POOLED_BEGIN_DETAIL

class alignas(k_cache_line) central : public lockable<central> {
public:
    // The shared state of all size classes of a pool.
    struct context {
        slab_heap& heap;
        std::uint32_t pool_id;
        bool is_shared;
        observed<std::uint32_t> bound_epoch{};   // odd: at the bound. Changed under the locks of all classes
        atomic<handed_blocks*> handed{nullptr};  // until a thread first hands a large block over
        std::array<deferred_list, k_class_count + 1> deferred{};

        [[nodiscard]] bool is_at_bound() const noexcept { return bound_epoch % 2 != 0; }
        [[nodiscard]] map_entry entry() const noexcept { return {pool_id, nullptr, !is_shared}; }
        // Null for a class that is not large. acquire: pairs with the release in prepare_hand_over().
        [[nodiscard]] handed_blocks* find_handed(class_index c) const noexcept {
            return c >= k_first_large && c != k_exact ? handed.load(std::memory_order_acquire) : nullptr;
        }
    };

    central(context& pool, class_index c) noexcept
        : lockable(!pool.is_shared), m_class(static_cast<std::uint8_t>(c)), m_pool(pool) {}

    // The four that follow take no lock. They are for the owner of `cache`, which may be empty, inside its gate, when
    // try_lock_for_a_moment() failed.
    // False, or null: no memory, or no free slab.
    //
    // Defers the older half of a cache that does not take `block`, and the block.
    [[nodiscard]] bool defer_half(class_cache& cache, void* block) noexcept;
    // Defers a block of a thread that has no cache, or may not use it. Fills the batch that came last: O(1), and 9 bytes of metadata.
    [[nodiscard]] bool defer_one(void* block) noexcept { return deferred().put(block); }
    // Defers all blocks of a cache, whose owner ends.
    [[nodiscard]] bool defer_all(class_cache& cache) noexcept;
    // Does what refill() does, with blocks that were deferred, else with those of a slab.
    [[nodiscard]] void* refill_deferred(class_cache& cache, block_request const& what) noexcept;

    // A free block for the owner of `cache`; fills the cache's array with more. Requires an empty cache. Null when the class
    // has no free block and the heap no free slab.
    [[nodiscard]] void* refill(class_cache& cache) noexcept {
        if (is_drained()) m_was_large = false;  // it is being used again
        if (free() == 0) adopt();
        if (free() == 0 && !add_slab(m_class)) return nullptr;
        m_refills.add(1);
        std::uint32_t const half = detail::smaller(cache.capacity(), k_max_cached_blocks) / 2;
        auto const wanted = static_cast<std::uint32_t>(detail::smaller<std::uint64_t>(free(), half));
        if (wanted == 0) {
            cache.add_net_taken(1);
            cache.begin_interval();
            return pop_any();
        }
        void** const array = cache.fill(wanted);
        std::uint32_t const recent = has_recent() ? m_recent.pop(array, wanted) : 0;
        if (recent < wanted) {
            void** top = array + (wanted - recent);
            if (recent != 0) detail::copy_n(array, recent, top);
            pop_lowest(wanted - recent, top);
            // The first ones of the next batch: then they are in the processor's caches when the next refill takes them.
            if (slab const* const next = m_slabs.first()) next->prefetch_lowest(16);
        }
        cache.prefetch();
        cache.add_net_taken(wanted);
        cache.begin_interval();
        return cache.pop_array();
    }

    // Returns one block to a caller without a cache. Null as above.
    [[nodiscard]] void* allocate_one(block_request const& what) noexcept {
        if (free() == 0) adopt();
        if (free() == 0 && !add_slab(what)) return end_served(), nullptr;
        add_served(1);
        void* const one = pop_any();
        m_recent.prefetch_newest();
        return one;
    }
    // How many requests allocate_one() has served since it last found none, and others. Without the lock; a hint.
    [[nodiscard]] std::uint32_t served() const noexcept { return m_served.load(std::memory_order_relaxed); }
    void add_served(std::uint32_t n) noexcept { m_served.store(served() + n, std::memory_order_relaxed); }
    void end_served() noexcept {
        if (served() != 0) m_served.store(0, std::memory_order_relaxed);
    }
    // Whether the last request found no block, and neither this list nor the heap received one since. Without the lock.
    [[nodiscard]] bool has_nothing() const noexcept {
        return m_failed_at == m_pool.heap.gains() && !has_deferred();
    }

    // Whether the heap has one for the class. Without the lock.
    [[nodiscard]] bool has_free_slab(bool may_wait = false) const noexcept {
        return m_pool.heap.has_free(m_class, may_wait, slab_units());
    }

    // What was handed over comes to the list; it stays where it is until it is needed.
    void adopt() noexcept;

    // Requires blocks of the class that are no longer in use. `is_for_another`: another thread is likely to take them. Then the addresses
    // of blocks that fill more than a slab stay here, as both threads write to the bitmaps otherwise (1500 bytes handed over: 12.6 ns
    // instead of 16; 48 bytes, whose bitmaps are four words: 11.3 instead of 10.2; Zen 4). `unused`: as for note_high_water(); nothing else
    // makes fewer blocks be outside.
    void flush(span<void* const> blocks, bool is_for_another = false, std::uint64_t unused = 0) noexcept {
        if (blocks.empty()) return;
        note_high_water(unused);
        is_for_another = is_for_another && blocks.size() * k_geometry[m_class].block_bytes > k_slab_bytes;
        bool const dense = m_class < k_first_large && !is_for_another && are_dense(blocks);
        if (m_pool.is_at_bound() || (dense && !has_recent())) return set_free(blocks);
        if (m_class >= k_first_large)
            for (void* const* at = blocks.begin(); at != blocks.end(); ++at) {
                span<void* const> const rest(at + 1, static_cast<std::size_t>(blocks.end() - at) - 1);
                bool const is_twice = m_recent.contains(*at) ||
                                      detail::any_of(rest, [at](void* other) { return other == *at; });
                char const* const error = is_twice ? slab::k_already_free : find_slab(*at).error_of(*at);
                if (error != nullptr) [[unlikely]]
                    fail(*at, error);
            }
        std::size_t const limit = recent_limit(blocks.size(), is_for_another);
        if (!dense && limit > m_recent.capacity()) m_recent.reserve(limit);
        std::size_t const kept = detail::smaller(limit, m_recent.capacity());
        if (dense || blocks.size() > kept) {
            drain_recent(dense ? kept : 0);
            return set_free(blocks);
        }
        drain_recent(kept - blocks.size());
        if (!g_page_map.find_all(blocks, m_pool.entry(), [](slab*) {})) [[unlikely]]
            for (void* const block : blocks)
                find_slab(block);  // reports it
        m_failed_at = std::uint32_t{0};
        m_recent.push(blocks);
    }
    // How many addresses are kept instead of setting their bits. Of large blocks some: otherwise each one that is handed to another
    // thread passes through the heap (1 MiB: 575 ns instead of 300, 64 KiB 434 instead of 205; Zen 4).
    [[nodiscard]] std::size_t recent_limit(std::size_t flushed, bool is_for_another) const noexcept {
        constexpr std::size_t k_large_bytes = std::size_t{2} << 20;
        if (m_class >= k_first_large)
            return detail::smaller<std::size_t>(
                (is_for_another ? 3 * handed_blocks::k_most_bytes : k_large_bytes) /
                    k_geometry[m_class].block_bytes,
                32);
        std::uint64_t const in_use = saturating_subtract(outside(), flushed);
        std::uint64_t const least = is_for_another ? detail::smaller<std::uint64_t>(in_use, flushed) : 0;
        return static_cast<std::size_t>(
            detail::clamp<std::uint64_t>(in_use / 16, least, recent_blocks::k_most));
    }
    // Sets the bits of the blocks that were freed last, except `kept` of them.
    void drain_recent(std::size_t kept = 0) noexcept {
        m_recent.drain(kept, [this](span<void* const> oldest) { set_free(oldest); });
    }

    // How often the class had no free block. Without the lock; a hint.
    [[nodiscard]] std::uint32_t count_miss() noexcept {
        m_misses.add(1);
        return m_misses;
    }
    // Whether the lock's holder does not run. Needs no lock; a hint.
    [[nodiscard]] bool is_stalled() const noexcept { return m_mutex.is_stalled(); }
    [[nodiscard]] bool has_recent() const noexcept { return m_recent.count() != 0; }
    // Needs no lock. Its next holder does what was deferred.
    [[nodiscard]] bool has_deferred() const noexcept { return !deferred().empty(); }
    // The number of large blocks that are handed over; 0 for other classes. Needs no lock.
    [[nodiscard]] std::uint32_t handed() const noexcept;
    [[nodiscard]] std::size_t recent_bytes() const noexcept {
        return (std::size_t{m_recent.count()} + handed()) * k_geometry[m_class].block_bytes;
    }

    // Flushes the older half of a full cache or, if it is large, of its last 1,024 addresses: then no drop waits for more than 512 blocks, and
    // as few addresses move. If others allocated the blocks, flushes all but the oldest so many: none moves then. Not of large ones: both
    // copies of one that was freed twice in a row would go different ways, one to this list, the other through hand_over(), unnoticed.
    void flush_half(class_cache& cache) noexcept {
        std::uint32_t const newest = detail::smaller(cache.size(), 2 * k_max_cached_blocks);
        std::uint32_t const kept = newest / 2;
        bool const is_for_others = m_class < k_first_large && cache.net_taken() < 0;
        flush_below(cache, is_for_others ? 0 : kept, (is_for_others ? cache.size() : newest) - kept);
        m_flushes.add(1);
    }

    // Takes the blocks that the cache's owner did not need since the last exchange: the oldest ones.
    void flush_unused(class_cache& cache) noexcept {
        flush_below(cache, cache.size() - cache.least_held(), cache.least_held());
    }

    // Takes everything out of a cache whose owner has ended or is stopped.
    void collect(class_cache& cache) noexcept {
        flush_below(cache, 0, cache.size());
        void* const hot = cache.pop_hot();
        if (hot == nullptr) return;
        flush({&hot, 1});
        cache.add_net_taken(-1);
    }

    // Whether nearly all blocks of a large class came back: those of two large caches at most are outside, after those of 64 usual
    // ones. The blocks that a cache would keep then are the only ones in use of as many slabs.
    [[nodiscard]] bool is_drained() const noexcept {
        return m_was_large && outside() <= 2 * std::uint64_t{k_geometry[m_class].burst_blocks()};
    }

    // The cache's owner has ended: its remote frees stay counted.
    void retire(class_cache& cache) noexcept {
        m_retired_remote_frees.fetch_add(cache.net_frees(), std::memory_order_relaxed);
        collect(cache);
        cache.add_net_taken(-cache.net_taken());
        cache.release();
    }

    // Reserves slabs that are partly in use, until they have `count` free blocks. Returns the number of their free blocks, at
    // most `count`. O(slabs).
    [[nodiscard]] std::size_t reserve(slab_heap::attempt& by, std::size_t count) noexcept {
        m_mutex.be_patient();  // from now on no system call
        adopt();
        drain_recent();
        std::size_t free = 0;
        for (slab& s : m_slabs) {
            if (free >= count) break;
            if (m_pool.heap.reserve_in_use(by, s)) free += s.free;
        }
        return detail::smaller(free, count);
    }

    // The heap is about to take back all slabs, including blocks in use.
    void discard() noexcept {
        note_high_water(0);
        m_slabs = slab_list();
        m_recent.clear();
        m_free = std::uint64_t{0};
        m_capacity.subtract(capacity());
        m_slab_units.subtract(slab_units());
    }

    // Returns the free pages of slabs that are partly in use to the system: the number of bytes. O(slabs + blocks).
    std::size_t purge() noexcept {
        std::size_t bytes = 0;
        drain_recent();
        for (slab& s : m_slabs)
            bytes += m_pool.heap.purge_in_use(s);
        return bytes;
    }

    [[nodiscard]] std::uint64_t free() const noexcept { return m_free + m_recent.count(); }
    // acquire: pairs with the release in remove_slab(); slabs that were added before are counted, so this is never less than 0.
    [[nodiscard]] std::uint64_t capacity() const noexcept {
        std::uint64_t const own = m_capacity.acquire();
        return own + m_added_blocks.load(std::memory_order_relaxed);
    }
    // Clamped, because another thread may have changed only one of the two counters.
    [[nodiscard]] std::uint64_t outside() const noexcept { return saturating_subtract(capacity(), free()); }
    [[nodiscard]] std::uint64_t slab_bytes() const noexcept {
        return std::uint64_t{slab_units()} * m_pool.heap.unit();
    }
    [[nodiscard]] std::uint64_t refills() const noexcept { return m_refills; }
    [[nodiscard]] std::uint64_t flushes() const noexcept { return m_flushes; }
    [[nodiscard]] std::uint64_t retired_remote_frees() const noexcept {
        return m_retired_remote_frees.load(std::memory_order_relaxed);
    }

    // The largest number of blocks used at the same time. `unused`: blocks that are outside and were in a cache during the
    // whole time since the last call; exact when this is known for all threads.
    std::uint64_t note_high_water(std::uint64_t unused) noexcept {
        return m_high_water =
                   detail::larger<std::uint64_t>(m_high_water, saturating_subtract(outside(), unused));
    }
    [[nodiscard]] std::uint64_t high_water() const noexcept { return m_high_water; }

    // From now on, returned blocks are counted individually.
    void close() noexcept { m_is_closed = true; }
    [[nodiscard]] bool is_closed() const noexcept { return m_is_closed; }

    // Walks the slabs that have a free block.
    [[nodiscard]] bool is_valid() const noexcept {
        std::uint64_t free = 0;
        for (slab const& s : m_slabs) {
            free += s.free;
            if (!s.is_valid() || s.size_class != m_class || s.free == 0 || s.is_empty()) return false;
        }
        return free == m_free && this->free() <= capacity() && m_recent.count() <= m_recent.capacity();
    }

private:
    friend record_access;
    [[nodiscard]] deferred_list& deferred() const noexcept { return m_pool.deferred[m_class]; }
    // A new slab of the class, all of whose blocks are the caller's. Null: the heap has none, or there is no memory.
    [[nodiscard]] deferred_blocks* defer_slab(block_request const& what) noexcept;
    friend lockable;
    // What others have deferred.
    void on_lock() noexcept {
        if (has_deferred()) [[unlikely]]
            settle_deferred();
    }
    void on_unlock() noexcept { on_lock(); }
    void settle_deferred() noexcept;
    // Whether these probably lie side by side: then few bitmaps are written, and a refill finds them in these slabs. Either the first and the last
    // one do, or most of them are one after the other, in several runs.
    [[nodiscard]] bool are_dense(span<void* const> blocks) const noexcept {
        std::uintptr_t const distance = 4 * blocks.size() * k_geometry[m_class].block_bytes;
        std::uintptr_t const length = address_of(blocks[blocks.size() - 1]) - address_of(blocks.front());
        std::size_t runs = length + distance <= 2 * distance ? 4 : 0;
        for (std::size_t step = blocks.size() / 8, i = 0; step > 2 && runs < 4 && i != 8 * step; i += step)
            runs += k_geometry[m_class].are_neighbours(blocks.begin() + i) ? 1U : 0U;
        return runs == 4;
    }

    // Sets their bits.
    void set_free(span<void* const> blocks) noexcept {
        class_geometry const g = k_geometry[m_class];
        bool const may_have_lost = m_pool.heap.may_have_lost();
        m_failed_at = std::uint32_t{0};
        for (void* const* at = blocks.begin(); at != blocks.end();) {
            auto const left = static_cast<std::size_t>(blocks.end() - at);
            if (left > 1 && !may_have_lost && (left == 2 || !g.are_neighbours(at))) {
                set_scattered_free({at, detail::smaller(left, k_batch)}, g);
                at += detail::smaller(left, k_batch);
                continue;
            }
            if (left > k_ahead) __builtin_prefetch(g_page_map.find(at[k_ahead]).slab_at(), 1);
            slab& s = find_slab(*at);
            if (may_have_lost && m_pool.heap.is_lost(s)) [[unlikely]] {
                ++at;
                continue;
            }
            if (s.free == 0) m_slabs.push_front(s);
            void* const* const next = s.deallocate(at, blocks.end(), g);
            if (next == at) [[unlikely]]
                fail_block(s, *at);
            m_free.add(static_cast<std::uint64_t>(next - at));
            at = next;
            if (!s.is_empty()) continue;
            if (at != blocks.end() && s.error_of(*at) != nullptr) fail_block(s, *at);
            remove_slab(s);
        }
    }
    // The same of a few blocks in random order, each of which probably lies in another slab. The records of all are requested before the
    // first one is used, and what does not depend on them is done for all at once.
    POOLED_NOINLINE void set_scattered_free(span<void* const> blocks, class_geometry const& g) noexcept {
        std::array<slab*, k_batch> records;
        slab** end = records.data();
        if (!g_page_map.find_all(blocks, m_pool.entry(), [&](slab* s) {
                __builtin_prefetch(*end++ = s, 1);
                __builtin_prefetch(reinterpret_cast<std::byte*>(s) + k_cache_line, 1);
            })) [[unlikely]]
            for (end = records.data(); void* const block : blocks)
                *end++ = &find_slab(block);  // or reports it
        m_free.add(blocks.size());           // remove_slab() subtracts from it
        slab* const* at = records.data();
        for (void* const block : blocks) {
            slab& s = **at++;
            if (s.size_class != m_class || !s.deallocate(block, g)) [[unlikely]]
                fail_block(find_slab(block), block);
            if (s.free - 2 < s.total - 2) [[likely]]  // it had a free block, and has one in use
                continue;
            if (s.free == 1) m_slabs.push_front(s);
            if (!s.is_empty()) continue;
            for (slab* const* same = at; same != end; ++same)
                if (*same == &s) fail_block(s, blocks[static_cast<std::size_t>(same - records.data())]);
            remove_slab(s);
        }
    }
    static constexpr std::size_t k_batch = 16;
    static constexpr std::size_t k_ahead = 8;
    POOLED_NOINLINE void fail_block(slab const& s, void* block) const noexcept {
        char const* const error = s.error_of(block);
        fail(block, error != nullptr ? error : slab::k_not_a_block);
    }
    [[noreturn]] POOLED_NOINLINE void fail(void const* block, char const* what) const noexcept {
        fail_deallocation(name_of_pool(m_pool.pool_id), block, what);
    }

    void flush_below(class_cache& cache, std::uint32_t kept, std::uint32_t count) noexcept {
        flush(cache.below(kept, count), cache.net_taken() < 0, cache.least_held());
        cache.drop_below(kept, count);
        cache.add_net_taken(-std::int64_t{count});
        cache.begin_interval();
    }

    // Requires that this number of blocks is free. Writes their addresses from `top` downwards, ascending within a slab.
    POOLED_ALWAYS_INLINE void pop_lowest(std::uint32_t count, void** top) noexcept {
        m_free.subtract(count);
        while (count != 0) {
            slab& s = *m_slabs.first();
            std::uint32_t const taken = s.allocate(count, top);
            count -= taken;
            top -= taken;
            if (s.free == 0) follow(s);
        }
    }

    // Takes a slab without a free block out of the list. The one after it in memory becomes the first. The class of a slab
    // changes to or from this one under this class's lock, or to it without a free block.
    void follow(slab& s) noexcept {
        m_slabs.remove(s);
        slab* const next = chunk::after(s);
        if (next == nullptr || next->size_class.acquire() != m_class || next->free == 0) return;
        m_slabs.remove(*next);
        m_slabs.push_front(*next);
    }

    // Requires a free block.
    [[nodiscard]] void* pop_any() noexcept {
        void* one = nullptr;
        if (m_recent.pop(&one, 1) == 1) return one;
        pop_lowest(1, &one + 1);
        return one;
    }

    [[nodiscard]] bool add_slab(block_request const& what) noexcept {
        std::uint32_t const gains = m_class != k_exact ? m_pool.heap.gains() : 0;  // another may be shorter
        slab* const s = m_pool.heap.allocate(what, m_pool.is_at_bound(), true, slab_units());
        std::atomic_thread_fence(std::memory_order_release);  // whoever reads it, reads what was before
        m_failed_at = s == nullptr ? gains : 0;
        if (s == nullptr) return false;
        m_slabs.push_front(*s);
        m_capacity.add(s->total);
        m_slab_units.add(units_of(*s));
        note_large();
        m_free.add(s->total);
        return true;
    }
    void note_large() noexcept {
        m_was_large = m_was_large || capacity() >= 64 * std::uint64_t{k_geometry[m_class].cache_blocks};
    }
    void remove_slab(slab& s) noexcept {
        m_slabs.remove(s);
        // release, twice: pair with the acquires in capacity() and slab_units(), without the lock.
        m_capacity.publish(m_capacity - s.total);
        m_free.subtract(s.total);
        m_slab_units.publish(m_slab_units - units_of(s));
        m_pool.heap.deallocate(s);
    }

    [[nodiscard]] std::uint32_t slab_units() const noexcept {
        std::uint32_t const own = m_slab_units.acquire();  // as in capacity()
        return own + m_added_units.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t units_of(slab const& s) const noexcept {
        return static_cast<std::uint32_t>(s.bytes() / m_pool.heap.unit());
    }

    slab& find_slab(void* block) const noexcept {
        map_entry const entry = g_page_map.find(block);
        if (entry.pool_id() != m_pool.pool_id) [[unlikely]]
            fail(block, entry.empty() ? k_of_no_pool : k_of_another_pool);
        slab* const s = entry.slab_at();
        if (s->size_class != m_class) [[unlikely]]
            fail(block, k_not_in_use);
        return *s;
    }

    bool m_is_closed = false;
    std::uint8_t m_class;
    observed<std::uint8_t> m_misses;
    bool m_was_large = false;              // since it was last drained and used again
    observed<std::uint32_t> m_slab_units;  // without those that were added without the lock, modulo 2^32
    atomic<std::uint32_t> m_served{0};
    observed<std::uint32_t> m_failed_at;  // the heap's gains() when it had no block; 0: it may have one
    context& m_pool;
    slab_list m_slabs;
    [[no_unique_address]] recent_blocks m_recent;
    // Count the slabs that were ever added without the lock. Who removes one subtracts it from the list's own counts.
    atomic<std::uint32_t> m_added_units{0};
    atomic<std::uint64_t> m_added_blocks{0};
    observed<std::uint64_t> m_free;
    observed<std::uint64_t> m_capacity;  // without those, modulo 2^64
    observed<std::uint64_t> m_high_water;
    observed<std::uint64_t> m_refills;
    observed<std::uint64_t> m_flushes;
    atomic<std::uint64_t> m_retired_remote_frees{0};  // also without the lock
};
static_assert(sizeof(central) == 2 * k_cache_line);

POOLED_END_DETAIL
