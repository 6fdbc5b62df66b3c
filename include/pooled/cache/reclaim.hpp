// SPDX-License-Identifier: BSL-1.0
#pragma once

// Finding the slabs of a size class that are wholly free: count the free blocks of each, then take those slabs out and
// their blocks off the depot. Both passes touch carriers only, never a free block's payload.

#include "pooled/base/size_class.hpp"
#include "pooled/cache/central.hpp"
#include "pooled/cache/depot.hpp"
#include "pooled/heap/chunk.hpp"
#include "pooled/os/metadata.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pooled::detail {

// The slabs of a class, sorted by address, to find a block's slab in O(log slabs), and mostly at once: neighbours in a
// magazine are often neighbours in memory.
class slab_index {
public:
    explicit slab_index(slab* list) noexcept {
        for (slab* s = list; s != nullptr; s = s->next)
            ++m_count;
        m_slabs = static_cast<slab**>(g_metadata.try_allocate(bytes()));
        if (m_slabs == nullptr) return;
        std::size_t i = 0;
        for (slab* s = list; s != nullptr; s = s->next)
            m_slabs[i++] = s;
        std::ranges::sort(slabs(), {}, &slab::base);
    }
    ~slab_index() {
        if (m_slabs != nullptr) g_metadata.deallocate(m_slabs, bytes());
    }
    slab_index(slab_index const&) = delete;
    slab_index& operator=(slab_index const&) = delete;

    // False when the system had no memory for it.
    [[nodiscard]] bool is_usable() const noexcept { return m_slabs != nullptr; }
    [[nodiscard]] std::span<slab*> slabs() noexcept { return {m_slabs, m_count}; }

    // Requires that `block` is in one of the slabs.
    [[nodiscard]] slab& find(void* block) noexcept {
        if (m_last == nullptr || !m_last->contains(block))
            m_last =
                *(std::ranges::upper_bound(slabs(), static_cast<std::byte*>(block), {}, &slab::base) - 1);
        return *m_last;
    }

private:
    [[nodiscard]] std::size_t bytes() const noexcept {
        return std::max<std::size_t>(m_count, 1) * sizeof(slab*);
    }

    slab** m_slabs = nullptr;
    std::size_t m_count = 0;
    slab* m_last = nullptr;
};

template <class Release>
void central::reclaim(class_geometry g, std::uint64_t keep, Release&& release) noexcept {
    if (free(g) == 0 || m_capacity <= keep) return;
    slab_index index(m_slabs);
    if (!index.is_usable()) return;

    for (slab* s : index.slabs())
        s->free_blocks = 0;
    m_depot.for_each(g, [&](void* block) { ++index.find(block).free_blocks; });
    for (slab* s : index.slabs()) {
        s->is_reclaimed = s->free_blocks == s->carved && m_capacity - s->total >= keep;
        if (!s->is_reclaimed) continue;
        m_carved.subtract(s->carved);
        m_capacity.subtract(s->total);
        m_slab_bytes.subtract(s->bytes);
    }

    depot kept;
    magazine popped;
    while (m_depot.refill(popped, g))
        while (void* const block = popped.pop(g))
            if (!index.find(block).is_reclaimed) kept.put(block, g);
    m_depot = kept;

    m_slabs = nullptr;
    m_open = nullptr;
    for (slab* s : index.slabs()) {
        s->is_open = false;
        if (s->is_reclaimed) {
            release(*s);
            continue;
        }
        s->next = m_slabs;
        m_slabs = s;
        if (s->fresh() != 0) open(*s);
    }
}

}  // namespace pooled::detail
