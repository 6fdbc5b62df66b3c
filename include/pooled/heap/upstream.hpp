// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where a pool's chunks come from: pages of the operating system, or a std::pmr::memory_resource of the user's. Counts
// what it took and keeps it within the pool's bound.
//
// Invariant: used() = the sum of all allocate() less that of all deallocate(), and used() <= max_bytes().
// Not thread-safe: the pool's lock guards it. O(1), besides what upstream itself takes.

#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/os/platform.hpp"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace pooled::detail {

class upstream {
public:
    // `resource` null: pages of the operating system. `max_bytes` 0: no bound.
    upstream(std::pmr::memory_resource* resource, std::size_t max_bytes, bool huge_pages) noexcept
        : m_resource(resource), m_max(max_bytes == 0 ? k_size_max : max_bytes), m_huge_pages(huge_pages) {}

    // `bytes` at `align`; null when that would go over the bound. Throws what upstream throws, std::bad_alloc when the
    // operating system has no more; the state is then as before.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align) {
        if (bytes > room()) return nullptr;
        void* p = nullptr;
        if (m_resource != nullptr) {
            p = m_resource->allocate(bytes, align);
        } else {
            // The first chunk of a pool keeps small pages, so that a pool of ten objects does not take 2 MiB of memory.
            bool const huge = m_huge_pages && bytes >= k_huge_page_bytes && m_used != 0;
            p = platform::map_pages(mapped(bytes),
                                    huge && align < k_huge_page_bytes ? k_huge_page_bytes : align);
            if (p == nullptr) throw std::bad_alloc();
            if (huge) platform::advise_huge_pages(p, bytes);
        }
        m_used.add(bytes);
        m_calls.add(1);
        return p;
    }

    // Requires a result of allocate with the same arguments.
    void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        if (m_resource != nullptr)
            m_resource->deallocate(p, bytes, align);
        else
            platform::unmap_pages(p, mapped(bytes));
        m_used.subtract(bytes);
    }

    [[nodiscard]] std::size_t room() const noexcept { return m_max - m_used; }
    [[nodiscard]] bool is_bounded() const noexcept { return m_max != k_size_max; }
    [[nodiscard]] std::size_t max_bytes() const noexcept { return m_max; }
    [[nodiscard]] std::size_t used() const noexcept { return m_used; }
    [[nodiscard]] std::uint64_t calls() const noexcept { return m_calls; }

private:
    // Whole granules of addresses, so that nobody else's memory shares the last one. Pages never touched cost nothing.
    [[nodiscard]] static std::size_t mapped(std::size_t bytes) noexcept {
        return round_up(bytes, k_granule_bytes);
    }

    std::pmr::memory_resource* m_resource;
    std::size_t m_max;
    observed<std::size_t> m_used;
    observed<std::uint64_t> m_calls;
    bool m_huge_pages;
};

}  // namespace pooled::detail
