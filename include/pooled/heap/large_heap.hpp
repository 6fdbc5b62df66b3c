// SPDX-License-Identifier: BSL-1.0
#pragma once

// Blocks beyond the largest size class: jumbo buffers, audio blocks, video frames. Each is a region of its own from
// upstream. A freed region is kept for the next request of about its size.
//
//   region  | offset | payload | rest |             the descriptor lies in the metadata arena
//
//   buckets   eight sizes per doubling; a pool without a bound rounds regions up to a bucket's size. A request takes a region
//             from its own bucket or one of the next five, so at most half of a region is unused
//   offset    0 to 4032, different for each region: otherwise the first bytes of all large blocks would map to the same few
//             cache sets
//   bound     kept and not reserved: 64 MiB, or the bytes of the large blocks in use, whichever is more. Each thread keeps one
//             more (cache/large_slot.hpp), which counts as in use; blocks taken from idle threads return to upstream at the
//             end of the period
//
// Invariants: in_use_bytes = sum of the requested bytes of the blocks in use; idle_bytes = sum of the regions in the buckets.
// Any thread may call; one lock, not held while upstream runs. O(1) unless noted.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk_source.hpp"
#include "pooled/heap/large_block.hpp"
#include "pooled/heap/large_reservation.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/copies.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class large_heap {
public:
    large_heap(std::uint32_t pool_id, bool is_shared, upstream& from) noexcept
        : m_upstream(from), m_pool_id(pool_id), m_is_shared(is_shared), m_mutex(is_shared) {}
    large_heap(large_heap const&) = delete;
    large_heap& operator=(large_heap const&) = delete;
    ~large_heap() { release_idle(idle::all); }

    // `bytes` at `align`, a power of two, from a kept block; null when none fits.
    [[nodiscard]] void* take(std::size_t bytes, std::size_t align) noexcept {
        scoped_lock const lock(m_mutex);
        large_block* b = nullptr;
        if (large_reservation* const r = m_reservations.find_idle(bytes, align)) {
            b = r->idle;
            r->idle = b->next;
            m_reserved_idle_bytes -= b->total;
        } else {
            b = take_unreserved(bytes, align);
        }
        if (b == nullptr) return nullptr;
        m_idle_bytes -= b->total;
        g_page_map.set_idle(b->base, false);
        void* const payload = b->place(bytes, align);
        use(*b, payload, bytes);
        return payload;
    }

    // The same from upstream. Null when the bound does not allow it. Throws what upstream throws, std::bad_alloc for sizes
    // that no address space holds; the heap is then as before.
    [[nodiscard]] void* grow(std::size_t bytes, std::size_t align) {
        upstream::call under_way(m_upstream);
        large_block* const b = new_block(bytes, align, under_way);
        if (b == nullptr) return nullptr;
        scoped_lock const lock(m_mutex);
        use(*b, b->place(bytes, align), bytes);
        under_way.settle();
        return b->payload;
    }

    // Requires a block in use. It is kept, or returns to upstream: O(granules) then. True when the heap is closed: the caller
    // must count the block.
    [[nodiscard]] bool deallocate(large_block& b) noexcept {
        std::size_t const bytes = b.bytes;
        {
            upstream::call under_way(m_upstream);
            {
                scoped_lock const lock(m_mutex);
                b.end_use();
                if (b.reserved_for != nullptr && b.reserved_for->has_ended)
                    m_reservations.drop_reference(*std::exchange(b.reserved_for, nullptr));
                if (b.reserved_for != nullptr || may_keep(b, m_in_use_bytes - bytes)) {
                    keep(b);
                    return count_deallocated(bytes);
                }
                under_way.begin(b.total, true);
                static_cast<void>(count_deallocated(bytes));
                ++m_leaving;
            }
            release(b, under_way);
        }
        scoped_lock const lock(m_mutex);  // a closed heap is not destroyed before the block is counted
        --m_leaving;
        return m_is_closed;
    }

    // Sets aside a block in use, which its thread keeps, and takes it again for the same size: only payload and mark change.
    // Without the lock; requires that no other thread can reach the block.
    void set_aside(large_block& b) const noexcept {
        b.end_use();
        g_page_map.set_idle(b.base, true);
    }
    [[nodiscard]] void* use_again(large_block& b, void* payload) const noexcept {
        b.end_free(m_upstream.pool_name());
        g_page_map.set_idle(b.base, false);
        return b.payload = payload;
    }
    // Requires a block that is set aside: it becomes idle, and counts as idle for some time already.
    void take_back(large_block& b) noexcept {
        scoped_lock const lock(m_mutex);
        keep(b);
        b.idle_since = m_period - 1;
        static_cast<void>(count_deallocated(b.bytes));
    }

    // Blocks for `count` requests at once, in addition to those in use. False when the bound does not allow it, throws what
    // upstream throws; the heap is then as before. O(count · granules).
    [[nodiscard]] bool reserve(std::size_t bytes, std::size_t align, std::size_t count, bool touch) {
        void* const memory = g_metadata.allocate(sizeof(large_reservation));
        unique_lock lock(m_mutex);
        large_reservation& r = m_reservations.refer(bytes, align, memory);
        std::size_t have = 0;
        for (large_block const* b = r.idle; b != nullptr; b = b->next)
            ++have;
        std::size_t const idle_bytes = m_idle_bytes - m_reserved_idle_bytes + have * bytes;
        lock.unlock();
        upstream::call under_way(m_upstream);
        large_block* made = nullptr;
        auto const undo = [&]() noexcept {
            while (large_block* const b = made) {
                made = b->next;
                release(*b, under_way);
            }
            scoped_lock const undoing(m_mutex);
            m_reservations.drop_reference(r);
            return false;
        };
        POOLED_TRY {
            if (!m_upstream.may_give(count * bytes - detail::min(count * bytes, idle_bytes))) return undo();
            for (; have < count; ++have) {
                large_block* b = nullptr;
                {
                    scoped_lock const taking(m_mutex);
                    b = take_unreserved(bytes, align);
                    if (b != nullptr) {
                        m_idle_bytes -= b->total;
                        under_way.begin(b->total);
                    }
                }
                if (b == nullptr) b = new_block(bytes, align, under_way);
                if (b == nullptr) return undo();
                b->next = made;
                made = b;
                if (touch && m_upstream.is_system()) platform::touch_pages(b->base, b->total);
            }
        }
        POOLED_CATCH(...) {
            undo();
            POOLED_RETHROW;
        }
        lock.lock();
        while (large_block* const b = made) {
            made = b->next;
            b->reserved_for = &r;
            ++r.references;
            keep(*b);
        }
        r.has_ended = false;
        m_reservations.drop_reference(r);
        under_way.settle();
        return true;
    }

    enum class idle : unsigned char {
        all,         // everything, which ends reservations
        unreserved,  // everything that is not reserved
        unused,      // everything not reserved that was idle for a whole period, which ends now
    };
    // Returns kept blocks to upstream, and the number of their bytes to the caller. O(kept blocks).
    std::size_t release_idle(idle which) noexcept {
        large_block* released = nullptr;
        std::size_t bytes = 0;
        upstream::call under_way(m_upstream);
        auto const release_some = [&](large_block*& list) noexcept {
            for (large_block** link = &list; *link != nullptr;) {
                large_block* const b = *link;
                if (which == idle::unused && m_period - b->idle_since < 2) {
                    link = &b->next;
                    continue;
                }
                under_way.begin(b->total);
                *link = b->next;
                b->next = released;
                released = b;
                m_idle_bytes -= b->total;
                if (b->reserved_for != nullptr) {
                    m_reserved_idle_bytes -= b->total;
                    --b->reserved_for->references;
                }
                bytes += b->total;
            }
        };
        {
            scoped_lock const lock(m_mutex);
            if (which == idle::unused) ++m_period;
            for (large_block*& bucket : m_idle)
                release_some(bucket);
            for (large_reservation *r = m_reservations.first(), *next = nullptr;
                 which == idle::all && r != nullptr; r = next) {
                next = r->next;
                r->has_ended = true;
                ++r->references;
                release_some(r->idle);
                m_reservations.drop_reference(*r);
            }
        }
        while (large_block* const b = released) {
            released = b->next;
            release(*b, under_way);
        }
        return bytes;
    }

    struct counts {
        std::uint64_t in_use = 0;
        std::uint64_t in_use_bytes = 0;
        std::uint64_t idle_bytes = 0;
        std::uint64_t high_water = 0;  // the largest number in use at the same time, with those set aside
    };
    [[nodiscard]] counts count() noexcept {
        scoped_lock const lock(m_mutex);
        return {m_in_use, m_in_use_bytes, m_idle_bytes, m_high_water};
    }

    // From now on, deallocations are counted. Returns the number of blocks in use.
    [[nodiscard]] std::uint64_t close() noexcept {
        scoped_lock const lock(m_mutex);
        return m_is_closed = true, m_in_use + m_leaving;
    }
    void after_fork_in_child() noexcept {
        if (auto const lost = m_upstream.forget_others(); lost != 0) m_leaving -= lost;
    }

    [[nodiscard]] bool is_valid() noexcept {
        scoped_lock const lock(m_mutex);
        std::size_t bytes = 0;
        bool valid = true;
        for (std::size_t i = 0; i < large_buckets::k_count; ++i)
            for (large_block const* b = m_idle[i]; b != nullptr; b = b->next) {
                bytes += b->total;
                valid = valid && b->payload == nullptr && b->reserved_for == nullptr &&
                        large_buckets::at_most(b->total) == i;
            }
        for (large_reservation const* r = m_reservations.first(); r != nullptr; r = r->next)
            for (large_block const* b = r->idle; b != nullptr; b = b->next) {
                bytes += b->total;
                valid = valid && b->payload == nullptr && b->reserved_for == r;
            }
        return valid && bytes == m_idle_bytes;
    }

private:
    friend struct large_heap_access;  // in its test
    static constexpr std::size_t k_buckets_tried = 6;
    static constexpr std::size_t k_kept_bytes = std::size_t{64} << 20;

    // Whole granules, if the bound allows, so that the page map claims no foreign memory. A bounded pool uses no memory for
    // offsets and bucket sizes.
    [[nodiscard]] std::size_t total_for(std::size_t bytes, std::size_t align) const {
        std::size_t const exact = detail::max<std::size_t>(bytes, 1);
        if (exact > k_size_max / 4) POOLED_THROW_OR(std::bad_alloc(), k_size_max);
        std::size_t const granules = round_up(exact, k_granule_bytes);
        if (m_upstream.is_bounded()) return granules <= m_upstream.max_bytes() ? granules : exact;
        std::size_t const spread = round_up(
            exact + (align < offset_sequence::k_bytes ? offset_sequence::k_bytes : 0), k_granule_bytes);
        std::size_t const bucket = large_buckets::at_least(spread);
        return bucket < large_buckets::k_count ? large_buckets::bytes(bucket) : spread;
    }

    // A block that is neither in use nor kept. Null when the bound is reached.
    [[nodiscard]] large_block* new_block(std::size_t bytes, std::size_t align, upstream::call& under_way) {
        std::size_t const total = total_for(bytes, align);
        if (total == k_size_max || total > m_upstream.available()) return nullptr;
        std::size_t const region_align = detail::max(align, k_granule_bytes);
        void* const memory = g_metadata.try_allocate(sizeof(large_block));
        if (memory == nullptr) POOLED_THROW_OR(std::bad_alloc(), nullptr);
        void* base = nullptr;
        POOLED_TRY { base = m_upstream.allocate(total, region_align, under_way); }
        POOLED_CATCH(...) {
            g_metadata.deallocate(memory, sizeof(large_block));
            POOLED_RETHROW;
        }
        if (base == nullptr || !prepare_maps(base, total)) {
            g_metadata.deallocate(memory, sizeof(large_block));
            if (base == nullptr) return nullptr;
            m_upstream.deallocate(base, total, region_align, under_way);
            POOLED_THROW_OR(std::bad_alloc(), nullptr);
        }
        auto* const b = ::new (memory) large_block;
        b->base = static_cast<std::byte*>(base);
        b->total = total;
        b->align = region_align;
        b->outer = g_page_map.find(base);
        b->number = detail::next_region();
        b->offset = m_offsets.next(align, total - detail::min(total, bytes));
        g_page_map.assign(base, total, entry_of(*b));
        return b;
    }

    [[nodiscard]] map_entry entry_of(large_block const& b) const noexcept {
        return {m_pool_id, &b, map_entry::large | (m_is_shared ? map_entry::none : map_entry::local)};
    }

    void release(large_block& b, upstream::call& under_way) noexcept {
        b.end_free(m_upstream.pool_name());
        g_page_map.assign(b.base, b.total, b.outer);
        m_upstream.deallocate(b.base, b.total, b.align, under_way);
        g_metadata.deallocate(&b, sizeof(large_block));
    }

    // The functions that follow require the lock.
    void use(large_block& b, void* payload, std::size_t bytes) noexcept {
        b.end_free(m_upstream.pool_name());
        b.payload = payload;
        b.bytes = bytes;
        m_high_water = detail::max(m_high_water, ++m_in_use);
        m_in_use_bytes += bytes;
    }
    void keep(large_block& b) noexcept {
        large_block*& list =
            b.reserved_for != nullptr ? b.reserved_for->idle : m_idle[large_buckets::at_most(b.total)];
        b.idle_since = m_period;
        b.next = list;
        list = &b;
        m_idle_bytes += b.total;
        if (b.reserved_for != nullptr) m_reserved_idle_bytes += b.total;
        g_page_map.set_idle(b.base, true);
    }
    [[nodiscard]] bool may_keep(large_block const& b, std::size_t in_use_bytes) const noexcept {
        return b.total <= large_buckets::k_largest &&
               m_idle_bytes - m_reserved_idle_bytes + b.bytes <= detail::max(k_kept_bytes, in_use_bytes);
    }
    // True when the heap is closed.
    [[nodiscard]] bool count_deallocated(std::size_t bytes) noexcept {
        --m_in_use;
        m_in_use_bytes -= bytes;
        return m_is_closed;
    }

    // Takes a block out of its bucket; null when none fits.
    [[nodiscard]] large_block* take_unreserved(std::size_t bytes, std::size_t align) noexcept {
        std::size_t const first =
            large_buckets::at_most(round_up(detail::max<std::size_t>(bytes, 1), k_granule_bytes));
        for (std::size_t i = first; i < detail::min(first + k_buckets_tried, large_buckets::k_count); ++i)
            if (large_block* const b = detail::take_fitting(m_idle[i], bytes, align)) return b;
        return nullptr;
    }

    upstream& m_upstream;
    std::uint32_t m_pool_id;
    bool m_is_shared;
    bool m_is_closed = false;
    offset_sequence m_offsets;

    optional_mutex m_mutex;
    std::uint32_t m_period = 0;
    std::uint64_t m_in_use = 0;
    std::uint64_t m_high_water = 0;
    std::uint64_t m_leaving = 0;  // blocks that deallocate() is returning to upstream
    std::size_t m_in_use_bytes = 0;
    std::size_t m_idle_bytes = 0;
    std::size_t m_reserved_idle_bytes = 0;  // of those
    std::array<large_block*, large_buckets::k_count> m_idle{};
    large_reservation_list m_reservations;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
