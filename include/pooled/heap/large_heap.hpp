// SPDX-License-Identifier: BSL-1.0
#pragma once

// Blocks beyond the largest size class: jumbo buffers, audio blocks, video frames. Each is a region of its own from
// upstream. A freed one is kept, for the next request of about its size.
//
//   region  | offset | payload | rest |             the descriptor lies in the metadata arena
//
//   buckets   eight sizes to the doubling, from 16 KiB to 1 GiB; regions are rounded up to a bucket's size where the bound
//             allows it. A request is served from its own bucket or one of the next two
//   offset    0 to 4032, another one for each region: else the first bytes of all large blocks would fall into the same
//             few sets of each cache
//   bound     a freed block is kept if, with it, 64 MiB are kept and not reserved, or as many bytes as large blocks in use
//             have, whichever is more. So at most half of the most that was in use is kept, or 64 MiB
//
// Invariants: in_use_bytes = sum of what was asked for the blocks in use; idle_bytes = sum of the regions in the buckets,
//             reserved_idle_bytes = of those that are reserved.
// Any thread may call; one lock, and upstream is called without it. O(1) unless said otherwise.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab_heap.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>

namespace pooled::detail {

struct alignas(k_cache_line) large_block {
    std::byte* base = nullptr;  // what upstream gave
    std::size_t total = 0;
    std::size_t align = 0;
    void* payload = nullptr;  // null while it is idle
    std::size_t bytes = 0;    // what was asked
    map_entry outer;          // what the page map said before: upstream may be a pool
    large_block* next = nullptr;
    std::size_t reserved_bytes = 0;  // what was asked, if it was made for a reservation
    std::uint32_t reservation = 0;   // number of the last one, 0: none
    std::uint32_t idle_since = 0;    // in periods of release_unused()
    std::uint16_t offset = 0;

    // Where `size` bytes at `alignment` begin, or null when they do not fit. 0 bytes have an address within the region, too.
    [[nodiscard]] void* place(std::size_t size, std::size_t alignment) const noexcept {
        for (std::size_t const from : {std::size_t{offset}, std::size_t{0}}) {
            std::size_t const skip = round_up(address_of(base) + from, alignment) - address_of(base);
            if (skip < total && size <= total - skip) return base + skip;
        }
        return nullptr;
    }
};

class large_heap {
public:
    large_heap(std::uint32_t pool_id, bool is_shared, upstream& from) noexcept
        : m_upstream(from), m_pool_id(pool_id), m_is_shared(is_shared), m_mutex(is_shared) {}
    large_heap(large_heap const&) = delete;
    large_heap& operator=(large_heap const&) = delete;
    ~large_heap() { release_idle(idle::all); }

    // `bytes` at `align`, a power of two, from a block that is kept; null when there is none that fits. O(kept blocks of
    // about that size that are reserved for another or do not fit at that alignment).
    [[nodiscard]] void* take(std::size_t bytes, std::size_t align) noexcept {
        std::size_t const end = last_bucket(bytes, align) + 1;
        std::scoped_lock const lock(m_mutex);
        for (std::size_t i = bucket_down(least_total(bytes)); i < end; ++i)
            for (large_block** link = &m_idle[i]; *link != nullptr; link = &(*link)->next) {
                large_block& b = **link;
                void* const payload = is_for_others(b, bytes) ? nullptr : b.place(bytes, align);
                if (payload == nullptr) continue;
                *link = b.next;
                forget_idle(b);
                mark(b, map_entry::large);
                use(b, payload, bytes);
                return payload;
            }
        return nullptr;
    }

    // Whether grow() has a chance within the bound.
    [[nodiscard]] bool has_room(std::size_t bytes) const noexcept { return bytes <= m_upstream.room(); }

    // The same from upstream. Null when the bound does not allow it. Throws what upstream throws, std::bad_alloc for sizes
    // that no address space holds; the heap is then as before.
    [[nodiscard]] void* grow(std::size_t bytes, std::size_t align) {
        large_block* const b = new_block(bytes, align);
        if (b == nullptr) return nullptr;
        void* const payload = b->place(bytes, align);
        std::scoped_lock const lock(m_mutex);
        use(*b, payload, bytes);
        return payload;
    }

    // Requires a block in use. It is kept, or goes back to upstream: O(granules) then. True when the heap is closed: the
    // caller has to count the block. The block counts as in use until nothing here needs the heap any more: from then on
    // another thread may close and destroy it.
    [[nodiscard]] bool deallocate(large_block& b) noexcept {
        {
            std::scoped_lock const lock(m_mutex);
            b.payload = nullptr;
            m_in_use_bytes -= b.bytes;
            if (is_reserved(b) ||
                (b.total <= k_largest_kept &&
                 m_idle_bytes - m_reserved_idle_bytes + b.bytes <= std::max(k_kept_bytes, m_in_use_bytes))) {
                keep(b);
                --m_in_use;
                return m_is_closed;
            }
        }
        release(b);
        std::scoped_lock const lock(m_mutex);
        --m_in_use;
        return m_is_closed;
    }

    // Blocks for `count` requests at once, in addition to those in use. False when the bound does not allow it, and what
    // upstream throws; the heap is then as before. O(count · granules).
    [[nodiscard]] bool reserve(std::size_t bytes, std::size_t align, std::size_t count, bool touch) {
        std::size_t have = reserve_idle(bytes, align, count);
        large_block* made = nullptr;
        auto const undo = [&]() noexcept {
            while (large_block* const b = made) {
                made = b->next;
                release(*b);
            }
        };
        try {
            for (; have < count; ++have) {
                large_block* const b = new_block(bytes, align);
                if (b == nullptr) {
                    undo();
                    return false;
                }
                b->reserved_bytes = bytes;
                b->next = made;
                made = b;
                if (touch && m_upstream.is_system()) platform::touch_pages(b->base, b->total);
            }
        } catch (...) {
            undo();
            throw;
        }
        std::scoped_lock const lock(m_mutex);
        while (large_block* const b = made) {
            made = b->next;
            b->reservation = m_reservation;
            keep(*b);
        }
        return true;
    }

    enum class idle : unsigned char {
        all,         // ends reservations
        unreserved,  // all but what is reserved
        unused,      // what is not reserved and was idle for a whole period, which ends now
    };
    // Gives kept blocks back to upstream. Returns how many bytes. O(kept blocks).
    std::size_t release_idle(idle which) noexcept {
        std::optional<upstream::call> under_way;
        large_block* released = nullptr;
        std::size_t bytes = 0;
        {
            std::scoped_lock const lock(m_mutex);
            if (which == idle::unused) ++m_period;
            for (large_block*& bucket : m_idle) {
                for (large_block** link = &bucket; *link != nullptr;) {
                    large_block* const b = *link;
                    if ((which != idle::all && is_reserved(*b)) ||
                        (which == idle::unused && m_period - b->idle_since < 2)) {
                        link = &b->next;
                        continue;
                    }
                    if (!under_way) under_way.emplace(m_upstream);  // from here on, nobody finds these blocks
                    *link = b->next;
                    forget_idle(*b);
                    b->next = released;
                    released = b;
                    bytes += b->total;
                }
            }
            if (which == idle::all) ++m_reservation;
        }
        while (large_block* const b = released) {
            released = b->next;
            release(*b);
        }
        return bytes;
    }

    struct counts {
        std::uint64_t in_use = 0;
        std::uint64_t in_use_bytes = 0;
        std::uint64_t idle_bytes = 0;
    };
    [[nodiscard]] counts count() noexcept {
        std::scoped_lock const lock(m_mutex);
        return {m_in_use, m_in_use_bytes, m_idle_bytes};
    }

    // From here on deallocations are counted. Returns the blocks in use.
    [[nodiscard]] std::uint64_t close() noexcept {
        std::scoped_lock const lock(m_mutex);
        m_is_closed = true;
        return m_in_use;
    }
    [[nodiscard]] optional_mutex& lock() noexcept { return m_mutex; }  // for fork only

    [[nodiscard]] bool is_valid() noexcept {
        std::scoped_lock const lock(m_mutex);
        std::size_t bytes = 0;
        std::size_t reserved = 0;
        bool valid = true;
        for (std::size_t i = 0; i < k_buckets; ++i)
            for (large_block const* b = m_idle[i]; b != nullptr; b = b->next) {
                bytes += b->total;
                reserved += is_reserved(*b) ? b->total : 0;
                valid = valid && b->payload == nullptr && bucket_down(b->total) == i;
            }
        return valid && bytes == m_idle_bytes && reserved == m_reserved_idle_bytes;
    }

private:
    static constexpr std::size_t k_steps = 8;  // buckets to the doubling
    static constexpr unsigned k_least_log = 14;
    static constexpr unsigned k_most_log = 30;
    static constexpr std::size_t k_largest_kept = std::size_t{1} << k_most_log;
    static constexpr std::size_t k_buckets = (k_most_log - k_least_log) * k_steps + 1;
    static constexpr std::size_t k_buckets_above = 2;
    static constexpr std::size_t k_kept_bytes = std::size_t{64} << 20;
    static constexpr std::size_t k_offsets = 64;
    static constexpr std::size_t k_offset_bytes = k_offsets * k_cache_line;
    static_assert(std::size_t{1} << k_least_log == k_granule_bytes);

    // The bucket whose size is the largest that is not over `total`; the last one for all that is larger.
    [[nodiscard]] static constexpr std::size_t bucket_down(std::size_t total) noexcept {
        if (total < k_granule_bytes) return 0;
        auto const log = static_cast<unsigned>(std::bit_width(total) - 1);
        if (log >= k_most_log) return k_buckets - 1;
        return (log - k_least_log) * k_steps + ((total >> (log - 3)) & (k_steps - 1));
    }
    [[nodiscard]] static constexpr std::size_t bucket_bytes(std::size_t index) noexcept {
        return (k_steps + index % k_steps) << (index / k_steps + k_least_log - 3);
    }
    // The bucket whose size is the least that is not under `total`; k_buckets when there is none.
    [[nodiscard]] static constexpr std::size_t bucket_up(std::size_t total) noexcept {
        if (total > k_largest_kept) return k_buckets;
        std::size_t const down = bucket_down(total);
        return bucket_bytes(down) < total ? down + 1 : down;
    }

    [[nodiscard]] static constexpr std::size_t least_total(std::size_t bytes) noexcept {
        return round_up(std::max<std::size_t>(bytes, 1), k_granule_bytes);
    }

    // Where a request is looked for at last: a little above the bucket of a region made for it.
    [[nodiscard]] static constexpr std::size_t last_bucket(std::size_t bytes, std::size_t align) noexcept {
        return std::min(bucket_up(least_total(spread(bytes, align))) + k_buckets_above, k_buckets - 1);
    }
    [[nodiscard]] static constexpr std::size_t spread(std::size_t bytes, std::size_t align) noexcept {
        return saturating_add(std::max<std::size_t>(bytes, 1), align < k_offset_bytes ? k_offset_bytes : 0);
    }

    // Whole granules, if the bound allows: the page map then claims nobody else's memory.
    [[nodiscard]] std::size_t total_for(std::size_t bytes, std::size_t align) const {
        std::size_t const exact = std::max<std::size_t>(bytes, 1);
        std::size_t const wanted = spread(bytes, align);
        if (wanted > k_size_max / 2) throw std::bad_alloc();
        std::size_t const bucket = bucket_up(round_up(wanted, k_granule_bytes));
        if (!m_upstream.is_bounded() && bucket < k_buckets) return bucket_bytes(bucket);
        std::size_t const granules = round_up(wanted, k_granule_bytes);
        if (granules <= m_upstream.room()) return granules;
        return round_up(exact, k_granule_bytes) <= m_upstream.max_bytes() ? round_up(exact, k_granule_bytes) : exact;
    }

    // A block that is neither in use nor kept. Null when the bound is reached.
    [[nodiscard]] large_block* new_block(std::size_t bytes, std::size_t align) {
        std::size_t const total = total_for(bytes, align);
        if (total > m_upstream.room()) return nullptr;
        std::size_t const region_align = std::max(align, k_granule_bytes);
        void* const memory = g_metadata.allocate(sizeof(large_block));
        void* base = nullptr;
        try {
            base = m_upstream.allocate(total, region_align);
            if (base != nullptr && !prepare_maps(base, total)) {
                m_upstream.deallocate(base, total, region_align);
                throw std::bad_alloc();
            }
        } catch (...) {
            g_metadata.deallocate(memory, sizeof(large_block));
            throw;
        }
        if (base == nullptr) {
            g_metadata.deallocate(memory, sizeof(large_block));
            return nullptr;
        }
        auto* const b = ::new (memory) large_block;
        b->base = static_cast<std::byte*>(base);
        b->total = total;
        b->align = region_align;
        b->outer = g_page_map.find(base);
        b->offset = next_offset(align);
        g_page_map.assign(base, total, entry_of(*b, map_entry::large));
        return b;
    }

    // An odd step visits all offsets, neighbours in time far apart.
    [[nodiscard]] std::uint16_t next_offset(std::size_t align) noexcept {
        if (align >= k_offset_bytes) return 0;
        std::uint32_t const n = m_regions.fetch_add(1, std::memory_order_relaxed);
        return static_cast<std::uint16_t>(round_down(n * 13 % k_offsets * k_cache_line, std::max(align, k_cache_line)));
    }

    [[nodiscard]] map_entry entry_of(large_block const& b, std::uint64_t what) const noexcept {
        return {m_pool_id, &b, what | map_entry::large | (m_is_shared ? map_entry::none : map_entry::local)};
    }
    // The first granule alone tells whether the block is idle; the others are not asked about it.
    void mark(large_block const& b, std::uint64_t what) const noexcept {
        g_page_map.assign(b.base, 1, entry_of(b, what));
    }

    void release(large_block& b) noexcept {
        g_page_map.assign(b.base, b.total, b.outer);
        m_upstream.deallocate(b.base, b.total, b.align);
        g_metadata.deallocate(&b, sizeof(large_block));
    }

    // The rest requires the lock.
    void use(large_block& b, void* payload, std::size_t bytes) noexcept {
        b.payload = payload;
        b.bytes = bytes;
        ++m_in_use;
        m_in_use_bytes += bytes;
    }
    void keep(large_block& b) noexcept {
        large_block*& bucket = m_idle[bucket_down(b.total)];
        b.idle_since = m_period;
        b.next = bucket;
        bucket = &b;
        m_idle_bytes += b.total;
        if (is_reserved(b)) m_reserved_idle_bytes += b.total;
        mark(b, map_entry::idle);
    }
    void forget_idle(large_block const& b) noexcept {
        m_idle_bytes -= b.total;
        if (is_reserved(b)) m_reserved_idle_bytes -= b.total;
    }
    [[nodiscard]] bool is_reserved(large_block const& b) const noexcept { return b.reservation == m_reservation; }
    // One type's control blocks differ by a few words.
    [[nodiscard]] bool is_for_others(large_block const& b, std::size_t bytes) const noexcept {
        return is_reserved(b) &&
               std::max(bytes, b.reserved_bytes) - std::min(bytes, b.reserved_bytes) > 2 * k_cache_line;
    }
    [[nodiscard]] std::size_t reserve_idle(std::size_t bytes, std::size_t align, std::size_t count) noexcept {
        std::size_t have = 0;
        std::size_t const end = last_bucket(bytes, align) + 1;
        std::scoped_lock const lock(m_mutex);
        for (std::size_t i = bucket_down(least_total(bytes)); i < end; ++i)
            for (large_block* b = m_idle[i]; b != nullptr && have < count; b = b->next) {
                if (is_for_others(*b, bytes) || b->place(bytes, align) == nullptr) continue;
                if (!is_reserved(*b)) m_reserved_idle_bytes += b->total;
                b->reservation = m_reservation;
                b->reserved_bytes = bytes;
                ++have;
            }
        return have;
    }

    upstream& m_upstream;
    std::uint32_t m_pool_id;
    bool m_is_shared;
    bool m_is_closed = false;
    std::atomic<std::uint32_t> m_regions{0};  // ever made

    optional_mutex m_mutex;
    std::uint32_t m_period = 0;
    std::uint64_t m_in_use = 0;
    std::size_t m_in_use_bytes = 0;
    std::size_t m_idle_bytes = 0;
    std::size_t m_reserved_idle_bytes = 0;
    std::uint32_t m_reservation = 1;  // number of those that trim() has not ended
    std::array<large_block*, k_buckets> m_idle{};
};

}  // namespace pooled::detail
