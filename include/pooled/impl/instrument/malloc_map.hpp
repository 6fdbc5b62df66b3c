// SPDX-License-Identifier: BSL-1.0
#pragma once

// With POOLED_SANITIZE, a caller gets a malloc block. The pool's own block represents it in the size classes, the caches, the
// bound and the statistics. This map leads from each to the other.
//
//   malloc block  | what the caller asked for |            pool's block  | ~address: 8 | bytes: 8 | … |
//                         │                                   ▲
//                         └── a word for each 16 bytes ───────┘
//
// No word holds a malloc block's address in a form that a leak checker recognizes, so the map hides no leak.
//
// Any thread may call; without a lock. The words of a block belong to its owner. O(bytes / 16); find: O(1).

#include "pooled/config.hpp"
#include "pooled/detail/address_map.hpp"
#include "pooled/detail/bits.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if POOLED_SANITIZE

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class malloc_map {
public:
#if POOLED_HAS_CODE
    // A malloc block for the pool's block `stand_in`; null when memory has run out.
    [[nodiscard]] void* allocate(void* stand_in, std::size_t bytes, std::size_t align) noexcept {
        void* p = nullptr;
        if (align < sizeof(void*)) align = sizeof(void*);
        // Not aligned_alloc, which requires a multiple of the alignment: a tool would treat the rest as requested bytes.
        if (align <= alignof(std::max_align_t))
            p = std::malloc(bytes);
        else if (::posix_memalign(&p, align, bytes) != 0)
            p = nullptr;
        if (p == nullptr || !m_leaves.prepare(p, bytes)) {
            std::free(p);
            return nullptr;
        }
        ::new (stand_in) record{~address_of(p), bytes};
        assign(p, bytes, address_of(stand_in));
        return p;
    }
#endif

    // The pool's block for the malloc block that `p` lies in, or null.
    [[nodiscard]] void* find(void const* p) const noexcept {
        std::uintptr_t const address = address_of(p);
        leaf const* const l = m_leaves.covers(address) ? m_leaves.leaf_of(address) : nullptr;
        return l == nullptr ? nullptr
                            : reinterpret_cast<void*>((*l)[unit_of(address)].load(std::memory_order_relaxed));
    }

    // Require a block in use, and the result of find() for it.
    [[nodiscard]] static void* start_of(void const* stand_in) noexcept {
        return reinterpret_cast<void*>(~record_of(stand_in).complement);
    }
    [[nodiscard]] static std::size_t bytes_of(void const* stand_in) noexcept {
        return record_of(stand_in).bytes;
    }
    void deallocate(void const* stand_in) noexcept {
        void* const p = start_of(stand_in);
        assign(p, bytes_of(stand_in), 0);
        std::free(p);
    }

private:
    struct record {
        std::uintptr_t complement;
        std::size_t bytes;
    };
    static constexpr std::size_t k_unit_bytes = 16;  // the alignment of malloc
    static constexpr unsigned k_leaf_bits = 28;
    using leaf = std::array<std::atomic<std::uintptr_t>, (std::size_t{1} << k_leaf_bits) / k_unit_bytes>;

    [[nodiscard]] static record const& record_of(void const* stand_in) noexcept {
        return *std::launder(static_cast<record const*>(stand_in));
    }

    [[nodiscard]] static std::size_t unit_of(std::uintptr_t address) noexcept {
        return address % (std::uintptr_t{1} << k_leaf_bits) / k_unit_bytes;
    }

    void assign(void const* p, std::size_t bytes, std::uintptr_t value) noexcept {
        std::uintptr_t const last = address_of(p) + (bytes == 0 ? 0 : bytes - 1);
        for (std::uintptr_t at = round_down(address_of(p), k_unit_bytes); at <= last; at += k_unit_bytes)
            (*m_leaves.leaf_of(at))[unit_of(at)].store(value, std::memory_order_relaxed);
    }

    address_map<leaf, k_leaf_bits> m_leaves;
};

POOLED_STATE(malloc_map, g_malloc_map);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
