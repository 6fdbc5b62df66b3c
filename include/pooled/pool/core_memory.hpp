// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of pool_core that deals with memory: growing by slabs and chunks, finding room at the bound, giving chunks
// back, and what is too large for any size class.
//
// All private functions require m_mutex.

#include "pooled/core/bits.hpp"
#include "pooled/core/geometry.hpp"
#include "pooled/pool/address_map.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_caches.hpp"
#include "pooled/pool/reclaim.hpp"
#include "pooled/source/metadata.hpp"
#include "pooled/source/platform.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace pooled::detail {

// More blocks for a class that had none. What comes cheapest first: another thread grew it meanwhile; free blocks in
// other caches, if they were reserved; a slab; and at the bound whatever lies in any cache, or in slabs that another size
// class no longer uses.
inline pool_core::grown pool_core::grow(class_index c) {
    central& stock = m_central[c];
    std::size_t const block_bytes = k_geometry[c].block_bytes;
    {
        std::scoped_lock const lock(stock.mutex);
        if (stock.has_free()) return {};
    }
    if (stock.is_reserved)
        if (void* const block = raid(c)) return {block, false};

    slab* fresh = take_slab(block_bytes);
    if (fresh == nullptr) {
        if (void* const block = raid(c)) return {block, false};
        fresh = take_reclaimed_slab(block_bytes);
    }
    if (fresh == nullptr) return {nullptr, true};

    g_address_map.assign(fresh->base, fresh->bytes, map_entry(m_id, c, is_local()));
    std::scoped_lock const lock(stock.mutex);
    stock.add_slab(*fresh, k_geometry[c]);
    return {};
}

// A slab that holds at least one block; null when the bound is reached. Throws what upstream throws.
inline slab* pool_core::take_slab(std::size_t block_bytes) {
    auto const find = [&]() noexcept -> slab* {
        for (slab** link = &m_free_slabs; *link != nullptr; link = &(*link)->next) {
            if ((*link)->bytes < block_bytes) continue;
            slab* const found = *link;
            *link = found->next;
            ++found->owner->used_slabs;
            return found;
        }
        return nullptr;
    };
    if (slab* const s = find()) return s;

    // A block larger than this pool's slabs gets a chunk to itself.
    std::size_t const slab_bytes = std::max(m_slab_bytes, round_up(block_bytes, k_granule_bytes));
    std::size_t bytes = slab_bytes > m_slab_bytes ? slab_bytes : m_chunk_bytes;
    if (bytes > m_upstream.room()) {
        std::size_t const room = m_upstream.room();
        bytes = round_down(room, room < platform::k_page_bytes ? k_min_block_bytes : platform::k_page_bytes);
    }
    if (bytes < block_bytes || new_chunk(bytes, slab_bytes) == nullptr) return nullptr;
    return find();
}

// A chunk of which every slab is free, or null when the bound is reached. If anything fails the pool is as before.
inline chunk* pool_core::new_chunk(std::size_t bytes, std::size_t slab_bytes) {
    std::size_t const count = (bytes + slab_bytes - 1) / slab_bytes;
    std::size_t const descriptor_bytes = chunk::descriptor_bytes(count);
    void* const descriptor = g_metadata.allocate(descriptor_bytes);
    void* base = nullptr;
    try {
        base = m_upstream.allocate(bytes, k_granule_bytes);
        if (base != nullptr && !g_address_map.prepare(base, bytes)) {
            m_upstream.deallocate(base, bytes, k_granule_bytes);
            throw std::bad_alloc();
        }
    } catch (...) {
        g_metadata.deallocate(descriptor, descriptor_bytes);
        throw;
    }
    if (base == nullptr) {
        g_metadata.deallocate(descriptor, descriptor_bytes);
        return nullptr;
    }

    auto* const c = ::new (descriptor) chunk;
    c->base = static_cast<std::byte*>(base);
    c->bytes = bytes;
    c->slab_count = static_cast<std::uint32_t>(count);
    c->next = m_chunks;
    if (m_chunks != nullptr) m_chunks->previous = c;
    m_chunks = c;
    for (std::size_t i = count; i-- != 0;) {  // the list then begins with the lowest: memory is used from the bottom up
        slab* const s = ::new (static_cast<void*>(c->slabs() + i)) slab;
        s->base = c->base + i * slab_bytes;
        s->bytes = static_cast<std::uint32_t>(std::min(slab_bytes, bytes - i * slab_bytes));
        s->owner = c;
        s->next = m_free_slabs;
        m_free_slabs = s;
    }
    return c;
}

// A slab that has lost its class.
inline void pool_core::put_slab(slab& s) noexcept {
    g_address_map.assign(s.base, s.bytes, {});
    --s.owner->used_slabs;
    s.next = m_free_slabs;
    m_free_slabs = &s;
}

// Takes wholly free slabs from their classes, the blocks in all threads' caches included.
inline void pool_core::reclaim_slabs() noexcept {
    stop_caches();
    for (class_index c = 0; c < k_class_count; ++c) {
        central& stock = m_central[c];
        std::scoped_lock const lock(stock.mutex);
        if (stock.slab_bytes() == 0) continue;
        collect_caches(c);
        stock.reclaim(k_geometry[c], [&](slab& s) { put_slab(s); });
    }
    resume_caches();
}

inline std::size_t pool_core::release_free_chunks() noexcept {
    slab** link = &m_free_slabs;
    while (*link != nullptr) {
        if ((*link)->owner->used_slabs == 0)
            *link = (*link)->next;
        else
            link = &(*link)->next;
    }
    std::size_t released = 0;
    for (chunk *c = m_chunks, *next = nullptr; c != nullptr; c = next) {
        next = c->next;
        if (c->used_slabs != 0) continue;
        released += c->bytes;
        release_chunk(*c);
    }
    return released;
}

inline void pool_core::release_chunk(chunk& c) noexcept {
    (c.previous != nullptr ? c.previous->next : m_chunks) = c.next;
    if (c.next != nullptr) c.next->previous = c.previous;
    g_address_map.assign(c.base, c.bytes, {});
    m_upstream.deallocate(c.base, c.bytes, k_granule_bytes);
    g_metadata.deallocate(&c, chunk::descriptor_bytes(c.slab_count));
}

// At the bound: a slab made of what no size class needs any more. Chunks that are wholly free go back first when the
// block is larger than a slab, to make room for a chunk of its own.
inline slab* pool_core::take_reclaimed_slab(std::size_t block_bytes) {
    reclaim_slabs();
    if (slab* const s = take_slab(block_bytes)) return s;
    return release_free_chunks() != 0 ? take_slab(block_bytes) : nullptr;
}

inline std::size_t pool_core::trim() noexcept {
    std::scoped_lock const lock(m_mutex);
    reclaim_slabs();
    return release_free_chunks();
}

inline bool pool_core::reserve(class_index c, std::size_t count) {
    if (m_local == nullptr && g_registry.attach(*this) != nullptr) {
        // Threads to come find their caches made, too.
        static constexpr std::size_t k_caches = 8;
        g_metadata.reserve(sizeof(thread_cache), k_caches);
    }
    std::scoped_lock const lock(m_mutex);
    central& stock = m_central[c];
    for (;;) {
        {
            std::scoped_lock const class_lock(stock.mutex);
            stock.is_reserved = true;
            if (stock.capacity() - in_use(c) >= count) return true;
        }
        slab* s = take_slab(k_geometry[c].block_bytes);
        if (s == nullptr) s = take_reclaimed_slab(k_geometry[c].block_bytes);
        if (s == nullptr) return false;
        g_address_map.assign(s->base, s->bytes, map_entry(m_id, c, is_local()));
        std::scoped_lock const class_lock(stock.mutex);
        stock.add_slab(*s, k_geometry[c]);
    }
}

// The header stands right before the payload, so it is found whatever the alignment.
inline void* pool_core::allocate_large(std::size_t bytes, std::size_t align) {
    std::size_t const offset = std::max(align, sizeof(large_header));
    std::size_t const total = saturating_add(bytes, offset);
    std::size_t const region_align = std::max(align, k_granule_bytes);
    if (total > k_size_max / 2) throw std::bad_alloc();

    std::scoped_lock const lock(m_mutex);
    if (total > m_upstream.max_bytes()) return nullptr;
    if (total > m_upstream.room()) {
        reclaim_slabs();
        release_free_chunks();
    }
    void* const base = m_upstream.allocate(total, region_align);
    if (base == nullptr) return nullptr;
    if (!g_address_map.prepare(base, total)) {
        m_upstream.deallocate(base, total, region_align);
        throw std::bad_alloc();
    }
    g_address_map.assign(base, total, map_entry(m_id, k_large, is_local()));
    std::byte* const payload = static_cast<std::byte*>(base) + offset;
    ::new (payload - sizeof(large_header))
        large_header{static_cast<std::byte*>(base), total, region_align, bytes};
    ++m_large_count;
    m_large_bytes += bytes;
    return payload;
}

inline void pool_core::deallocate_large(void* p) noexcept {
    large_header const header = *(static_cast<large_header*>(p) - 1);
    bool is_closed = false;
    {
        std::scoped_lock const lock(m_mutex);
        g_address_map.assign(header.base, header.total, {});
        m_upstream.deallocate(header.base, header.total, header.align);
        --m_large_count;
        m_large_bytes -= header.bytes;
        is_closed = m_large_closed;
    }
    if (is_closed) came_home(1);
}

}  // namespace pooled::detail
