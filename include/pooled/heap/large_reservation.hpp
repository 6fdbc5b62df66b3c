// SPDX-License-Identifier: BSL-1.0
#pragma once

// Large blocks that are reserved for one type. A reservation is in the list as long as blocks, idle or in use, or calls of
// reserve() refer to it; without that, each size that was ever reserved would slow each allocation.
// Guarded by the lock of the heap of large blocks. O(reservations).

#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/large_block.hpp"
#include "pooled/os/metadata.hpp"

#include <cstddef>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Blocks that only requests of one size and alignment may use, and those of the same type's other forms.
struct large_reservation {
    std::size_t bytes;
    std::size_t align;
    large_reservation* next = nullptr;
    large_block* idle = nullptr;
    std::size_t references = 0;
    bool has_ended = false;  // a block in use is not reserved any more once it is deallocated

    // Headers and control blocks of one type differ by a few words.
    [[nodiscard]] bool serves(std::size_t size, std::size_t alignment) const noexcept {
        return size <= bytes && bytes - size <= 2 * k_cache_line && alignment <= align &&
               align <= k_granule_bytes;
    }
};

class large_reservation_list {
public:
    [[nodiscard]] large_reservation* first() const noexcept { return m_first; }

    // The one for exactly this size and alignment, or null.
    [[nodiscard]] large_reservation* find(std::size_t bytes, std::size_t align) const noexcept {
        large_reservation* r = m_first;
        while (r != nullptr && (r->bytes != bytes || r->align != align))
            r = r->next;
        return r;
    }
    // One with an idle block, for exactly this request or for another block of the same type. Null when there is none.
    [[nodiscard]] large_reservation* find_idle(std::size_t bytes, std::size_t align) const noexcept {
        large_reservation* const exact = find(bytes, align);
        if (exact != nullptr && exact->idle != nullptr) return exact;
        large_reservation* r = m_first;
        while (r != nullptr && (r->idle == nullptr || !r->serves(bytes, align)))
            r = r->next;
        return r;
    }

    // Adds a reference to the one for exactly this size and alignment, made in `memory` if there is none; otherwise `memory`, for
    // a large_reservation from the arena, is freed.
    [[nodiscard]] large_reservation& refer(std::size_t bytes, std::size_t align, void* memory) noexcept {
        large_reservation* r = find(bytes, align);
        if (r == nullptr)
            m_first = r = ::new (memory) large_reservation{bytes, align, m_first};
        else
            g_metadata.deallocate(memory, sizeof(large_reservation));
        ++r->references;
        return *r;
    }
    // Without references, it is freed.
    void drop_reference(large_reservation& r) noexcept {
        if (--r.references != 0) return;
        large_reservation** link = &m_first;
        while (*link != &r)
            link = &(*link)->next;
        *link = r.next;
        g_metadata.deallocate(&r, sizeof(large_reservation));
    }

private:
    large_reservation* m_first = nullptr;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
