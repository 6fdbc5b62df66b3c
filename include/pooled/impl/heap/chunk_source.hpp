// SPDX-License-Identifier: BSL-1.0
#pragma once

// Requests chunks from upstream and returns them: their memory, their descriptors and their entries in the page map.
// Any thread may call; no lock is held while upstream runs.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/slab.hpp"
#include "pooled/impl/heap/upstream.hpp"
#include "pooled/impl/instrument/checked_memory.hpp"
#include "pooled/impl/instrument/free_mark.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/plugins/copies.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// A bounded pool takes its memory in at least sixteen pieces, so that a large block still fits beside small ones.
[[nodiscard]] constexpr std::size_t default_chunk_bytes(std::size_t max_bytes) noexcept {
    if (max_bytes == 0) return k_default_chunk_bytes;
    return detail::clamp(max_bytes / 16, k_granule_bytes, k_default_chunk_bytes);
}

class chunk_source {
public:
    struct shape {
        std::uint32_t pool_id;
        bool is_shared;
        bool has_small_slabs;
        std::size_t chunk_bytes;
        bool starts_small;  // each chunk is as large as all before it together, so small pools are cheap
    };
    // What a span is needed for: a slab of class `c`, or with k_exact one block that no class serves. It holds `bytes` at `align`, and
    // has better `granules`.
    struct request {
        std::size_t granules;
        std::size_t bytes;
        std::size_t align = k_granule_bytes;
        class_index c = k_exact;
    };

    chunk_source(shape const& what, upstream& from) noexcept : m_shape(what), m_upstream(from) {}

    [[nodiscard]] upstream& from() const noexcept { return m_upstream; }

    // How many granules a slab of the class best has.
    [[nodiscard]] std::size_t granules_for(class_index c) const noexcept {
        class_geometry const& g = k_geometry[c];
        if (!m_shape.has_small_slabs) return g.slab_granules;
        std::size_t granules = g.least_granules();
        while (granules < g.slab_granules && !g.uses(granules * k_granule_bytes))
            ++granules;
        return granules;
    }

    // A chunk whose only span is in no list; null when the bound is reached. Throws what upstream throws; nothing is taken then.
    // O(granules). If upstream does not have that much in one piece, half as much is requested, down to what is needed.
    // `under_way` must be settled once other threads can find the chunk.
    [[nodiscard]] chunk* allocate(request const& what, upstream::call& under_way) {
        // Whole granules, so that owns() answers exactly; but a bound under one granule is usable, too.
        std::size_t const unit =
            m_upstream.max_bytes() < k_granule_bytes ? k_min_block_bytes : k_granule_bytes;
        std::size_t const least = round_up(what.bytes, unit);
        std::size_t bytes = what.align > k_granule_bytes
                                ? least
                                : detail::larger(next_chunk_bytes(), what.granules * k_granule_bytes);
        if (std::size_t const left = m_upstream.available(); bytes > left) bytes = round_down(left, unit);
        if (bytes < least) return nullptr;
        for (;; bytes = detail::larger(least, round_down(bytes / 2, unit))) {
            chunk* const c = allocate_exactly(bytes, what, bytes <= least, under_way);
            if (c != nullptr || bytes <= least) return c;
        }
    }

    // Requires a chunk of which no block is in use, whose bytes are of `under_way`. False when the system did not take it back: the
    // chunk is as before.
    [[nodiscard]] bool deallocate(chunk& c, upstream::call& under_way) noexcept {
        g_page_map.assign(c.base, c.bytes, c.outer);  // before another thread can get the memory
        checked_memory::set_live(c.base, c.was_live);
        if constexpr (k_hardened)
            if (!m_upstream.is_system()) free_mark::take_off(c.base);  // a pool there has the same mark
        if (!m_upstream.deallocate(c.base, c.bytes, std::size_t{1} << c.align_log, under_way)) {
            assign(c.records()[0]);
            return false;
        }
        forget(c);
        return true;
    }
    // Requires a chunk that was not taken back. Only its addresses are lost.
    void abandon(chunk& c) noexcept {
        g_page_map.assign(c.base, c.bytes, c.outer);
        m_upstream.abandon(c.base, c.bytes);
        forget(c);
    }

    // The granules of a span lead to its first record. O(granules).
    void assign(slab& s) const noexcept {
        g_page_map.assign(
            s.memory(), s.bytes(),
            map_entry(m_shape.pool_id, &s, m_shape.is_shared ? map_entry::none : map_entry::local));
    }

    // The pages of the free bytes [first, end) of a slab may change from now on. Those of a span without a class could already.
    void end_free(slab const& s, std::size_t first, std::size_t end) const noexcept {
        if (s.size_class <= k_exact)
            checked_memory::end_free(m_upstream.pool_name(), s.memory() + first, s.memory() + end,
                                     s.block_bytes());
    }

private:
    // Null when the bound is reached, or when upstream does not have that much but may have less.
    [[nodiscard]] chunk* allocate_exactly(std::size_t bytes, request const& what, bool is_last,
                                          upstream::call& under_way) {
        std::size_t const count = (bytes + k_granule_bytes - 1) / k_granule_bytes;
        if (count > k_max_granules) POOLED_THROW_OR(std::bad_alloc(), nullptr);
        std::size_t const descriptor_bytes = chunk::descriptor_bytes(count);
        void* const descriptor = g_metadata.try_allocate_zeroed(descriptor_bytes);
        if (descriptor == nullptr) POOLED_THROW_OR(std::bad_alloc(), nullptr);
        void* base = nullptr;
        bool const is_dense = what.bytes <= k_max_block_bytes || what.bytes >= k_huge_page_bytes;
        POOLED_TRY { base = m_upstream.allocate(bytes, what.align, under_way, is_dense); }
        POOLED_CATCH(std::bad_alloc const&) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            if (!is_last) return nullptr;
            POOLED_RETHROW;
        }
        POOLED_CATCH(...) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            POOLED_RETHROW;
        }
        // The tables for the memory are made ready first.
        if (base == nullptr || !g_page_map.prepare(base, bytes) || !checked_memory::prepare(base, bytes)) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            if (base == nullptr) return nullptr;
            if (!m_upstream.deallocate(base, bytes, what.align, under_way)) m_upstream.abandon(base, bytes);
            POOLED_THROW_OR(std::bad_alloc(), nullptr);
        }

        auto* const c = ::new (descriptor) chunk;
        c->base = static_cast<std::byte*>(base);
        c->bytes = bytes;
        c->align_log = static_cast<std::uint8_t>(std::countr_zero(what.align));
        c->may_be_small = bytes == k_huge_page_bytes && is_dense && m_upstream.wants_huge_pages(bytes);
        c->number = detail::next_region();
        c->outer = g_page_map.find(base);
        c->was_live = checked_memory::set_live(base, false);
        c->granules = static_cast<std::uint32_t>(count);
        c->record(0).granules = c->granules;
        assign(c->record(0));
        return c;
    }
    void forget(chunk& c) noexcept { g_metadata.deallocate(&c, chunk::descriptor_bytes(c.granules)); }

    [[nodiscard]] std::size_t next_chunk_bytes() const noexcept {
        if (!m_shape.starts_small) return m_shape.chunk_bytes;
        std::size_t const used = m_upstream.used();
        return used >= m_shape.chunk_bytes ? m_shape.chunk_bytes
                                           : detail::larger(k_slab_bytes, std::bit_ceil(used));
    }

    static constexpr std::size_t k_max_granules = ~std::uint32_t{0};

    shape m_shape;
    upstream& m_upstream;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
