// SPDX-License-Identifier: BSL-1.0
#pragma once

// What POOLED_SANITIZE changes in a pool: a block given to the caller is exchanged for one of malloc's, and back when it is
// returned. The pool's own block represents it in the size classes, the caches, the bound and the statistics. A map leads from each
// to the other:
//
//   malloc block  | what the caller asked for |            pool's block  | ~address: 8 | bytes: 8 | … |
//                         │                                   ▲
//                         └── a word for each 16 bytes ───────┘
//
// No word holds a malloc block's address in a form that a leak checker recognizes, so the map hides no leak. A pool with an upstream of
// its own is unchanged, since its blocks must lie in that memory.
//
// The tool reports what it finds itself, with the stacks of malloc and free. This file reports what malloc cannot know: a block
// that is returned to another pool or with another size.
//
// Any thread may call; without a lock. The words of a block belong to its owner. O(bytes / 16); find: O(1). Empty in other builds.

#include "pooled/config.hpp"
#include "pooled/detail/address_map.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/misuse.hpp"
#include "pooled/impl/pool/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if POOLED_SANITIZE
#include "pooled/impl/heap/slab.hpp"

#include <array>
#include <atomic>
#include <new>

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
    using leaf = std::array<atomic<std::uintptr_t>, (std::size_t{1} << k_leaf_bits) / k_unit_bytes>;

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

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::malloc_blocks {

[[noreturn]] POOLED_NOINLINE inline void report(std::uint32_t pool_id, void* p, char const* what) noexcept {
    detail::fail_deallocation(g_registry.name_of(pool_id), p, what);
}

// For an address that is not a block in use. The address is passed to free(), because the tool has the most information:
// AddressSanitizer reports a double free, or a free of memory that malloc did not return, with stacks.
[[noreturn]] POOLED_NOINLINE inline void report_no_block(std::uint32_t pool_id, void* p) noexcept {
    void* named = p;
    asm("" : "+r"(named));  // GCC warns about the use of a pointer after it was freed
    if constexpr (POOLED_SANITIZE != 0) std::free(p);
    report(pool_id, named, "no block in use starts there (double free, or foreign memory)");
}

#if POOLED_SANITIZE

// The pool's block for an address that a caller has; any other address is returned as it is. A malloc block may also be the
// memory in which a pool with an upstream has its blocks.
[[nodiscard]] inline void* behind(void const* p) noexcept {
    void* const itself = const_cast<void*>(p);
    void* const stand_in = g_malloc_map.find(p);
    if (stand_in == nullptr) return itself;
    map_entry const entry = g_page_map.find(p);
    if (entry.empty()) return stand_in;
    slab const& s = *entry.slab_at();
    return address_of(p) - address_of(s.memory()) < s.bytes() ? itself : stand_in;
}

#if POOLED_HAS_CODE
// Null when malloc has no more memory; the pool's block is then unchanged.
[[nodiscard]] inline void* give(pool_core const& core, void* block, std::size_t bytes,
                                std::size_t align) noexcept {
    return core.has_upstream() ? block : g_malloc_map.allocate(block, bytes, align);
}

// The pool's block for a block that is returned; the caller's malloc block is freed. `bytes` 0: not known.
[[nodiscard]] inline void* take(std::uint32_t pool_id, class_index c, void* p, std::size_t bytes) noexcept {
    void* const stand_in = behind(p);
    map_entry const entry = g_page_map.find(stand_in);
    if (entry.empty() || (stand_in != p && malloc_map::start_of(stand_in) != p)) report_no_block(pool_id, p);
    if (entry.pool_id() != pool_id) report(pool_id, p, "it belongs to another pool");
    if (stand_in == p) return p;
    class_index const is = entry.slab_at()->size_class;
    bool const is_of_class = c == k_large ? is >= k_inlined_classes && is <= k_exact : is == c;
    if (!is_of_class || (bytes != 0 && bytes != malloc_map::bytes_of(stand_in)))
        report(pool_id, p, "the size or alignment is not the one it was allocated with");
    g_malloc_map.deallocate(stand_in);
    return stand_in;
}
#endif

#else

[[nodiscard]] POOLED_ALWAYS_INLINE void* behind(void const* p) noexcept { return const_cast<void*>(p); }
[[nodiscard]] POOLED_ALWAYS_INLINE void* give(pool_core const&, void* block, std::size_t,
                                              std::size_t) noexcept {
    return block;
}
[[nodiscard]] POOLED_ALWAYS_INLINE void* take(std::uint32_t, class_index, void* p, std::size_t) noexcept {
    return p;
}

#endif

// The page map's entry for an address that a caller has. The second function requires memory of a pool.
[[nodiscard]] POOLED_ALWAYS_INLINE map_entry find(void const* p) noexcept {
    return g_page_map.find(behind(p));
}
[[nodiscard]] POOLED_ALWAYS_INLINE map_entry find_owned(void const* p) noexcept {
    return g_page_map.find_owned(behind(p));
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::malloc_blocks
