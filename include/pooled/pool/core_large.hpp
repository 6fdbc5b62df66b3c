// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of pool_core that deals with blocks beyond the largest size class. Each is a region of its own from upstream,
// and goes back there when it is freed, unless its size was reserved: then it waits in a stack for the next.
//
//   region  | … | large_header | payload            the header ends where the payload begins, whatever the alignment
//
// Any thread may call; under m_mutex. O(1), with few different sizes reserved.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace pooled::detail {

// Whole granules, if the bound allows: the address map then claims nobody else's memory.
inline pool_core::large_shape pool_core::shape_of_large(std::size_t bytes, std::size_t align) const {
    large_shape shape{};
    shape.offset = std::max(align, sizeof(large_header));
    shape.align = std::max(align, k_granule_bytes);
    std::size_t const exact =
        saturating_add(std::max<std::size_t>(bytes, 1), shape.offset);  // the payload has an address
    if (exact > k_size_max / 2) throw std::bad_alloc();
    shape.total =
        round_up(exact, k_granule_bytes) <= m_upstream.max_bytes() ? round_up(exact, k_granule_bytes) : exact;
    return shape;
}

// A region in the address map, with its header; null when the bound is reached. Throws what upstream throws.
inline void* pool_core::new_large(large_shape shape) {
    if (shape.total > m_upstream.max_bytes()) return nullptr;
    if (shape.total > m_upstream.room()) {
        collect_and_reclaim(reservations::keep);
        release_free_chunks();
    }
    void* const base = [&] {
        upstream_call const call;
        return m_upstream.allocate(shape.total, shape.align);
    }();
    if (base == nullptr) return nullptr;
    if (!prepare_maps(base, shape.total)) {
        m_upstream.deallocate(base, shape.total, shape.align);
        throw std::bad_alloc();
    }
    map_entry const outer = g_address_map.find(base);
    g_address_map.assign(base, shape.total, map_entry(m_id, k_large, is_local()));
    std::byte* const payload = static_cast<std::byte*>(base) + shape.offset;
    ::new (payload - sizeof(large_header))
        large_header{static_cast<std::byte*>(base), shape.total, shape.align, 0, nullptr, outer};
    return payload;
}

inline large_header& pool_core::header_of(void* payload) noexcept {
    return *(static_cast<large_header*>(payload) - 1);
}

inline void pool_core::give_back_large(large_header const& header) noexcept {
    large_header const h = header;
    g_address_map.assign(h.base, h.total, h.outer);
    m_upstream.deallocate(h.base, h.total, h.align);
}

inline large_reserve* pool_core::find_reserve(std::size_t total, std::size_t align) const noexcept {
    large_reserve* r = m_large_reserves;
    while (r != nullptr && (r->total != total || r->align != align))
        r = r->next;
    return r;
}

inline void* pool_core::allocate_large(std::size_t bytes, std::size_t align) {
    large_shape const shape = shape_of_large(bytes, align);
    std::scoped_lock const lock(m_mutex);
    large_reserve* const reserve = find_reserve(shape.total, shape.align);
    void* payload = nullptr;
    if (reserve != nullptr && reserve->free != nullptr) {
        large_header const header = *reserve->free;
        reserve->free = header.next;
        payload = header.base + shape.offset;  // one region serves requests of different alignment
        ::new (static_cast<std::byte*>(payload) - sizeof(large_header)) large_header(header);
    } else {
        payload = new_large(shape);
        if (payload == nullptr) return nullptr;
    }
    if (reserve != nullptr) ++reserve->in_use;
    header_of(payload).bytes = bytes;
    header_of(payload).seal = large_header::seal_of(payload);
    ++m_large_count;
    m_large_bytes += bytes;
    return payload;
}

inline void pool_core::deallocate_large(void* p) noexcept {
    bool is_closed = false;
    {
        std::scoped_lock const lock(m_mutex);
        large_header& header = header_of(p);
        header.seal = 0;
        --m_large_count;
        m_large_bytes -= header.bytes;
        is_closed = m_large_closed;
        large_reserve* const reserve = find_reserve(header.total, header.align);
        if (reserve != nullptr && reserve->in_use != 0) {
            --reserve->in_use;
            header.next = reserve->free;
            reserve->free = &header;
        } else {
            give_back_large(header);
        }
    }
    if (is_closed) came_home(1);
}

// All or nothing. False when the bound does not allow it.
inline bool pool_core::reserve_large(std::size_t bytes, std::size_t align, std::size_t count) {
    large_shape const shape = shape_of_large(bytes, align);
    if (count > k_max_reserved_bytes / shape.total) return refuse_reserve();
    prepare_threads();
    std::scoped_lock const lock(m_mutex);
    large_reserve* reserve = find_reserve(shape.total, shape.align);
    if (reserve == nullptr) {
        reserve = ::new (g_metadata.allocate(sizeof(large_reserve))) large_reserve{shape.total, shape.align};
        reserve->next = m_large_reserves;
        m_large_reserves = reserve;
    }
    std::size_t have = 0;
    for (large_header const* h = reserve->free; h != nullptr; h = h->next)
        ++have;
    large_header* gathered = nullptr;
    auto const give_up = [&]() noexcept {
        while (large_header* const h = gathered) {
            gathered = h->next;
            give_back_large(*h);
        }
    };
    try {
        for (; have < count; ++have) {
            void* const payload = new_large(shape);
            if (payload == nullptr) {
                give_up();
                return false;
            }
            header_of(payload).next = gathered;
            gathered = &header_of(payload);
        }
    } catch (...) {
        give_up();
        throw;
    }
    while (large_header* const h = gathered) {
        gathered = h->next;
        h->next = reserve->free;
        reserve->free = h;
    }
    return true;
}

// What was reserved and is not in use. Returns its bytes.
inline std::size_t pool_core::release_large() noexcept {
    std::size_t released = 0;
    while (large_reserve* const reserve = m_large_reserves) {
        while (large_header* const h = reserve->free) {
            reserve->free = h->next;
            released += h->total;
            give_back_large(*h);
        }
        m_large_reserves = reserve->next;
        g_metadata.deallocate(reserve, sizeof(large_reserve));
    }
    return released;
}

}  // namespace pooled::detail
