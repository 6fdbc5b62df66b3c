// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of pool_core that deals with memory: growing by slabs and chunks, finding room at the bound, giving chunks
// back, and holding memory ready.
//
// All private functions require m_mutex.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/cache/reclaim.hpp"
#include "pooled/heap/live_map.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_caches.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace pooled::detail {

inline constexpr std::size_t k_max_reserved_bytes = std::size_t{1} << 47;  // the address space

// More blocks for a class that had none. What comes cheapest first: another thread grew it meanwhile; free blocks in
// other caches, if they were reserved; a slab; and at the bound whatever lies in any cache, or in slabs that another size
// class no longer uses. An upstream that fails is a bound of its own.
inline pool_core::grown pool_core::grow(class_index c, thread_cache* caller) {
    central& stock = m_central[c];
    {
        std::scoped_lock const lock(stock.mutex);
        if (stock.has_free()) return {};
    }
    if (stock.reserved != 0)
        if (void* const block = raid(c, caller)) return {block, false};

    slab* fresh = nullptr;
    try {
        fresh = take_slab(k_geometry[c].block_bytes);
    } catch (...) {
        if (void* const block = raid(c, caller)) return {block, false};
        collect_and_reclaim(reservations::keep);
        fresh = take_free_slab(k_geometry[c].block_bytes);
        if (fresh == nullptr) throw;
    }
    if (fresh == nullptr) return find_room(c, caller);
    add_slab(c, *fresh);
    return {};
}

// At the bound. All classes are looked into at one moment, with all owners kept out, so "exhausted" is said only when at
// that moment there was neither a free block nor a free slab.
inline pool_core::grown pool_core::find_room(class_index c, thread_cache* caller) {
    if (void* const block = raid(c, caller)) return {block, false};  // usually found, and much cheaper
    stop_caches();
    lock_classes();
    for (class_index other = 0; other < k_class_count; ++other)
        collect_caches(other);
    void* const block = pop_past(caller, c);
    if (block == nullptr) reclaim_slabs();
    unlock_classes();
    resume_caches();
    if (block != nullptr) return {block, false};

    slab* const fresh = take_slab_after_reclaim(k_geometry[c].block_bytes);
    if (fresh == nullptr) return {nullptr, true};
    add_slab(c, *fresh);
    return {};
}

// Chunks that are wholly free go back first when the block is larger than a slab, to make room for a chunk of its own.
inline slab* pool_core::take_slab_after_reclaim(std::size_t block_bytes) {
    if (slab* const s = take_slab(block_bytes)) return s;
    return release_free_chunks() != 0 ? take_slab(block_bytes) : nullptr;
}

inline void pool_core::add_slab(class_index c, slab& s) noexcept {
    g_address_map.assign(s.base, s.bytes, map_entry(m_id, c, is_local()));
    std::scoped_lock const lock(m_central[c].mutex);
    m_central[c].add_slab(s, k_geometry[c]);
}

// One that no size class has. O(1): only the last slab of a chunk can be too short.
inline slab* pool_core::take_free_slab(std::size_t block_bytes) noexcept {
    for (slab** link = &m_free_slabs; *link != nullptr; link = &(*link)->next) {
        if ((*link)->bytes < block_bytes) continue;
        slab* const found = *link;
        *link = found->next;
        ++found->owner->used_slabs;
        return found;
    }
    return nullptr;
}

// A slab that holds at least one block; null when the bound is reached. Throws what upstream throws.
inline slab* pool_core::take_slab(std::size_t block_bytes) {
    if (slab* const s = take_free_slab(block_bytes)) return s;

    // A block larger than this pool's slabs gets a chunk to itself.
    std::size_t const slab_bytes = std::max(m_slab_bytes, round_up(block_bytes, k_granule_bytes));
    std::size_t bytes = slab_bytes > m_slab_bytes ? slab_bytes : m_chunk_bytes;
    if (bytes > m_upstream.room()) {
        // Whole granules, so that owns() answers exactly; but a bound under one granule is to be usable, too.
        bool const is_tiny = m_upstream.max_bytes() < k_granule_bytes;
        bytes = round_down(m_upstream.room(), is_tiny ? k_min_block_bytes : k_granule_bytes);
    }
    if (bytes < block_bytes || new_chunk(bytes, slab_bytes) == nullptr) return nullptr;
    return take_free_slab(block_bytes);
}

// Room in the books for memory that upstream gave. False when the system has none.
[[nodiscard]] inline bool prepare_maps(void const* base, std::size_t bytes) noexcept {
#if POOLED_CHECKED
    if (!g_live_map.prepare(base, bytes)) return false;
#endif
    return g_address_map.prepare(base, bytes);
}

// A chunk of which every slab is free, or null when the bound is reached. If anything fails the pool is as before.
inline chunk* pool_core::new_chunk(std::size_t bytes, std::size_t slab_bytes) {
    std::size_t const count = (bytes + slab_bytes - 1) / slab_bytes;
    std::size_t const descriptor_bytes = chunk::descriptor_bytes(count);
    void* const descriptor = g_metadata.allocate(descriptor_bytes);
    void* base = nullptr;
    try {
        upstream_call const call;
        base = m_upstream.allocate(bytes, k_granule_bytes);
        if (base != nullptr && !prepare_maps(base, bytes)) {
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
    c->outer = g_address_map.find(base).bits();
    c->slab_count = static_cast<std::uint32_t>(count);
    c->number = ++m_chunks_made;
    c->next = m_chunks;
    if (m_chunks != nullptr) m_chunks->previous = c;
    m_chunks = c;
    for (std::size_t i = count;
         i-- != 0;) {  // the list then begins with the lowest: memory is used from the bottom up
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
    g_address_map.assign(s.base, s.bytes, map_entry(s.owner->outer));
    --s.owner->used_slabs;
    s.next = m_free_slabs;
    m_free_slabs = &s;
}

// Takes wholly free slabs from their classes, but for what is reserved. Requires the locks of all classes and collected
// caches.
inline void pool_core::reclaim_slabs() noexcept {
    for (class_index c = 0; c < k_class_count; ++c)
        m_central[c].reclaim(k_geometry[c], m_central[c].reserved, [&](slab& s) { put_slab(s); });
}

// Those made after the chunk number `mark`.
inline std::size_t pool_core::release_free_chunks(std::uint64_t mark) noexcept {
    slab** link = &m_free_slabs;
    while (*link != nullptr) {
        if ((*link)->owner->used_slabs == 0 && (*link)->owner->number > mark)
            *link = (*link)->next;
        else
            link = &(*link)->next;
    }
    std::size_t released = 0;
    for (chunk *c = m_chunks, *next = nullptr; c != nullptr; c = next) {
        next = c->next;
        if (c->used_slabs != 0 || c->number <= mark) continue;
        released += c->bytes;
        release_chunk(*c);
    }
    return released;
}

inline void pool_core::release_chunk(chunk& c) noexcept {
    (c.previous != nullptr ? c.previous->next : m_chunks) = c.next;
    if (c.next != nullptr) c.next->previous = c.previous;
    g_address_map.assign(c.base, c.bytes, map_entry(c.outer));
    m_upstream.deallocate(c.base, c.bytes, k_granule_bytes);
    g_metadata.deallocate(&c, chunk::descriptor_bytes(c.slab_count));
}

inline std::size_t pool_core::trim() noexcept {
    std::scoped_lock const lock(m_mutex);
    collect_and_reclaim(reservations::forget);
    return release_free_chunks() + release_large();
}

// Takes every free slab from its class, those included whose blocks lie in threads' caches.
inline void pool_core::collect_and_reclaim(reservations what) noexcept {
    stop_caches();
    lock_classes();
    for (class_index c = 0; c < k_class_count; ++c) {
        collect_caches(c);
        if (what == reservations::forget) m_central[c].reserved = 0;
    }
    reclaim_slabs();
    unlock_classes();
    resume_caches();
}

// All or nothing: slabs are gathered first, and given back if there are not enough.
inline bool pool_core::reserve(class_index c, std::size_t count) {
    if (count > k_max_reserved_bytes / k_geometry[c].block_bytes) return refuse_reserve();
    prepare_threads();
    std::scoped_lock const lock(m_mutex);
    central& stock = m_central[c];
    std::uint64_t const mark = m_chunks_made;
    std::uint64_t const was_reserved =
        std::exchange(stock.reserved, k_size_max);  // a reclaim leaves the class alone
    slab* gathered = nullptr;
    auto const give_up = [&]() noexcept {
        stock.reserved = was_reserved;
        while (slab* const s = gathered) {
            gathered = s->next;
            put_slab(*s);
        }
        release_free_chunks(mark);
    };

    std::uint64_t free = 0;
    std::uint64_t used = 0;
    {
        std::scoped_lock const class_lock(stock.mutex);
        used = in_use(c);
        free = stock.capacity() - std::min(stock.capacity(), used);
    }
    try {
        for (bool reclaimed = false; free < count;) {
            slab* s = take_slab(k_geometry[c].block_bytes);
            if (s == nullptr && !reclaimed) {
                collect_and_reclaim(reservations::keep);
                reclaimed = true;
                s = take_slab_after_reclaim(k_geometry[c].block_bytes);
            }
            if (s == nullptr) {
                give_up();
                return false;
            }
            s->next = gathered;
            gathered = s;
            free += s->bytes / k_geometry[c].block_bytes;
        }
    } catch (...) {
        give_up();
        throw;
    }
    while (slab* const s = gathered) {
        gathered = s->next;
        add_slab(c, *s);
    }
    stock.reserved = std::max<std::uint64_t>(was_reserved, used + count);
    return true;
}

// What no address space holds is refused at once, not chunk by chunk. False: the bound is the reason.
inline bool pool_core::refuse_reserve() const {
    if (!m_upstream.is_bounded()) throw std::bad_alloc();
    return false;
}

// The calling thread's cache is made, and room set aside for those of threads to come.
inline void pool_core::prepare_threads() {
    static constexpr std::size_t k_caches = 8;
    if (!is_local() && g_registry.attach(*this) != nullptr)
        g_metadata.reserve(sizeof(thread_cache), k_caches);
}

}  // namespace pooled::detail
