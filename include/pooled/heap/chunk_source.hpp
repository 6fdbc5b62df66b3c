// SPDX-License-Identifier: BSL-1.0
#pragma once

// Requests chunks from upstream and returns them: their memory, their descriptors and their entries in the page map.
// Any thread may call; no lock is held while upstream runs.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/heap/fill.hpp"
#include "pooled/heap/live_map.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/heap/upstream.hpp"
#include "pooled/os/copies.hpp"
#include "pooled/os/metadata.hpp"

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
[[nodiscard]] constexpr std::size_t slab_bytes_for(std::size_t max_bytes) noexcept {
    return max_bytes != 0 && max_bytes < k_small_pool_bytes ? k_small_slab_bytes : k_slab_bytes;
}

// Makes the tables ready for memory from upstream. False when the system has no memory for them.
[[nodiscard]] inline bool prepare_maps(void const* base, std::size_t bytes) noexcept {
#if POOLED_CHECKED
    return g_page_map.prepare(base, bytes) && g_live_map.prepare(base, bytes) &&
           g_filled_map.prepare(base, bytes);
#else
    return g_page_map.prepare(base, bytes);
#endif
}

// Forgets all blocks there, including those in use. Requires prepare_maps() of it. O(bytes) in the checked build.
inline void forget_live([[maybe_unused]] std::byte* base, [[maybe_unused]] std::size_t bytes) noexcept {
#if POOLED_CHECKED
    for (std::size_t at = 0; at < bytes; at += k_min_block_bytes) {
        g_live_map.set(base + at, false);
        g_filled_map.set(base + at, false);
    }
#endif
}

class chunk_source {
public:
    struct shape {
        std::uint32_t pool_id;
        bool is_shared;
        std::size_t slab_bytes;
        std::size_t chunk_bytes;
        bool starts_small;  // each chunk is as large as all before it together, so small pools are cheap
    };

    chunk_source(shape const& what, upstream& from) noexcept : m_shape(what), m_upstream(from) {}

    [[nodiscard]] upstream& from() const noexcept { return m_upstream; }
    [[nodiscard]] std::size_t slab_bytes() const noexcept { return m_shape.slab_bytes; }

    // A chunk of which every slab is free, in no list, large enough for a block of `block_bytes`; null when the bound is
    // reached. Throws what upstream throws; nothing is taken then. O(slabs). If upstream does not have that much in one piece,
    // half as much is requested, down to one slab. `under_way` must be settled once other threads can find the chunk.
    [[nodiscard]] chunk* allocate(std::size_t block_bytes, upstream::call& under_way) {
        // A block larger than this pool's slabs gets its own chunk.
        std::size_t const slab_bytes =
            detail::max(m_shape.slab_bytes, round_up(block_bytes, k_granule_bytes));
        std::size_t bytes = slab_bytes > m_shape.slab_bytes ? slab_bytes : next_chunk_bytes();
        if (std::size_t const left = m_upstream.available(); bytes > left) {
            // Whole granules, so that owns() answers exactly; but a bound under one granule is usable, too.
            bool const is_tiny = m_upstream.max_bytes() < k_granule_bytes;
            bytes = round_down(left, is_tiny ? k_min_block_bytes : k_granule_bytes);
        }
        if (bytes < block_bytes) return nullptr;
        for (;; bytes = detail::max(slab_bytes, round_down(bytes / 2, k_granule_bytes))) {
            chunk* const c = allocate_exactly(bytes, slab_bytes, under_way);
            if (c != nullptr || bytes <= slab_bytes) return c;
        }
    }

    // Requires a chunk of which no block is in use, whose bytes are of `under_way`.
    void deallocate(chunk& c, upstream::call& under_way) noexcept {
        g_page_map.assign(c.base, c.bytes, c.outer);
        m_upstream.deallocate(c.base, c.bytes, k_granule_bytes, under_way);
        g_metadata.deallocate(&c, chunk::descriptor_bytes(c.slab_count));
    }

    // The pages of the free bytes [first, end) of a slab may change from now on. Those of a slab without a class could already.
    void end_free([[maybe_unused]] slab const& s, [[maybe_unused]] std::size_t first,
                  [[maybe_unused]] std::size_t end) const noexcept {
#if POOLED_CHECKED
        if (s.size_class < k_class_count)
            fill::end_free(m_upstream.pool_name(), s.memory() + first, s.memory() + end,
                           k_geometry[s.size_class].block_bytes);
#endif
    }

private:
    // Null when the bound is reached, or when upstream does not have that much but may have less.
    [[nodiscard]] chunk* allocate_exactly(std::size_t bytes, std::size_t slab_bytes,
                                          upstream::call& under_way) {
        std::size_t const count = (bytes + slab_bytes - 1) / slab_bytes;
        std::size_t const descriptor_bytes = chunk::descriptor_bytes(count);
        void* const descriptor = g_metadata.try_allocate(descriptor_bytes);
        if (descriptor == nullptr) POOLED_THROW_OR(std::bad_alloc(), nullptr);
        void* base = nullptr;
        POOLED_TRY { base = m_upstream.allocate(bytes, k_granule_bytes, under_way); }
        POOLED_CATCH(std::bad_alloc const&) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            if (count > 1) return nullptr;
            POOLED_RETHROW;
        }
        POOLED_CATCH(...) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            POOLED_RETHROW;
        }
        if (base == nullptr || !prepare_maps(base, bytes)) {
            g_metadata.deallocate(descriptor, descriptor_bytes);
            if (base == nullptr) return nullptr;
            m_upstream.deallocate(base, bytes, k_granule_bytes, under_way);
            POOLED_THROW_OR(std::bad_alloc(), nullptr);
        }

        auto* const c = ::new (descriptor) chunk;
        c->base = static_cast<std::byte*>(base);
        c->bytes = bytes;
        c->number = detail::next_region();
        c->outer = g_page_map.find(base);
        c->slab_count = static_cast<std::uint32_t>(count);
        for (std::size_t i = 0; i < count; ++i) {
            slab* const s = ::new (static_cast<void*>(&c->slabs()[i])) slab;
            s->blocks = c->base + i * slab_bytes;
            s->bytes = static_cast<std::uint32_t>(detail::min(slab_bytes, bytes - i * slab_bytes));
            s->owner = c;
            g_page_map.assign(
                s->blocks, s->bytes,
                map_entry(m_shape.pool_id, s, m_shape.is_shared ? map_entry::none : map_entry::local));
        }
        return c;
    }

    [[nodiscard]] std::size_t next_chunk_bytes() const noexcept {
        if (!m_shape.starts_small) return m_shape.chunk_bytes;
        std::size_t const used = m_upstream.used();
        return used >= m_shape.chunk_bytes ? m_shape.chunk_bytes
                                           : detail::max(m_shape.slab_bytes, std::bit_ceil(used));
    }

    shape m_shape;
    upstream& m_upstream;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
