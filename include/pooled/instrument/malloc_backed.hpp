// SPDX-License-Identifier: BSL-1.0
#pragma once

// What POOLED_SANITIZE changes in a pool: a block given to the caller is exchanged for one of malloc's, and back when it is
// returned. The pool's own block, its stand-in, represents it in the size classes, the caches, the bound and the statistics. A map leads
// from each to the other:
//
//   malloc block  | what the caller asked for |            stand-in  | ~address: 8 | bytes: 8 | … |
//                         │                                   ▲
//                         └── a word for each 16 bytes ───────┘
//
// No word holds a malloc block's address in a form that a leak checker recognizes, so the map hides no leak. A pool with an upstream of
// its own is unchanged, since its blocks must lie in that memory.
//
// The tool reports what it finds itself, with the stacks of malloc and free. This file reports what malloc cannot know: a block
// that is returned to another pool or with another size.
//
// Any thread may call; without a lock. The words of a block belong to its owner. O(bytes / 16); behind: O(1). Empty in other builds.

#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/pool/core.hpp"

#if POOLED_SANITIZE
#include "pooled/heap/slab.hpp"

#endif

POOLED_BEGIN_DETAIL

#if POOLED_SANITIZE

using malloc_map = address_map<16, 28>;  // malloc's alignment
POOLED_STATE(malloc_map, g_malloc_map);

#endif

namespace malloc_blocks {

// For an address that is not a block in use. The address is passed to free(), because the tool has the most information:
// AddressSanitizer reports a double free, or a free of memory that malloc did not return, with stacks.
[[noreturn]] POOLED_NOINLINE inline void report_no_block(char const* pool_name, void* p) noexcept {
    void* named = p;
    asm("" : "+r"(named));  // GCC warns about the use of a pointer after it was freed
    if constexpr (POOLED_SANITIZE != 0) std::free(p);
    fail_deallocation(pool_name, named, "no block in use starts there (double free, or foreign memory)");
}

#if POOLED_SANITIZE

// The pool's block for an address that a caller has; any other address is returned as it is. A malloc block may also be the
// memory in which a pool with an upstream has its blocks.
[[nodiscard]] inline void* behind(void const* p) noexcept {
    void* const itself = const_cast<void*>(p);
    auto* const stand_in = reinterpret_cast<void*>(g_malloc_map.get(address_of(p)));
    if (stand_in == nullptr) return itself;
    map_entry const entry = g_page_map.find(p);
    if (entry.empty()) return stand_in;
    slab const& s = *entry.slab_at();
    return address_of(p) - address_of(s.memory()) < s.bytes() ? itself : stand_in;
}

#if POOLED_HAS_CODE
// What a stand-in contains.
struct record {
    std::uintptr_t complement;  // of the address
    std::size_t bytes;
};

// Null when malloc has no more memory; the pool's block is then unchanged.
[[nodiscard]] inline void* give(pool_core const& core, void* block, std::size_t bytes,
                                std::size_t align) noexcept {
    if (!core.memory().from().is_system()) return block;
    void* p = nullptr;
    // Not aligned_alloc, which requires a multiple of the alignment: a tool would treat the rest as requested bytes.
    if (align <= alignof(std::max_align_t))
        p = std::malloc(bytes);
    else if (::posix_memalign(&p, align, bytes) != 0)
        p = nullptr;
    if (p == nullptr || !g_malloc_map.prepare(p, bytes)) {
        std::free(p);
        return nullptr;
    }
    ::new (block) record{~address_of(p), bytes};
    g_malloc_map.assign(p, bytes, address_of(block));
    return p;
}

// The pool's block for a block that is returned; the caller's malloc block is freed. `bytes` 0: not known.
[[nodiscard]] inline void* exchange_back(pool_core const& core, class_index c, void* p,
                                         std::size_t bytes) noexcept {
    void* const block = behind(p);
    bool const is_exchanged = block != p;
    map_entry const entry = g_page_map.find(block);
    record const is = is_exchanged ? *std::launder(static_cast<record const*>(block)) : record{};
    if (entry.empty() || (is_exchanged && ~is.complement != address_of(p))) report_no_block(core.name(), p);
    if (entry.pool_id() != core.id()) fail_deallocation(core.name(), p, k_of_another_pool);
    if (!is_exchanged) return p;
    class_index const of_block = entry.slab_at()->size_class;
    bool const is_of_class = of_block >= k_inlined_classes ? c == k_large : c == of_block;
    if (!is_of_class || (bytes != 0 && bytes != is.bytes))
        fail_deallocation(core.name(), p, k_of_another_size);
    g_malloc_map.assign(p, is.bytes, 0);
    std::free(p);
    return block;
}
#endif

#else

[[nodiscard]] POOLED_ALWAYS_INLINE void* behind(void const* p) noexcept { return const_cast<void*>(p); }
[[nodiscard]] POOLED_ALWAYS_INLINE void* give(pool_core const&, void* block, std::size_t,
                                              std::size_t) noexcept {
    return block;
}
[[nodiscard]] POOLED_ALWAYS_INLINE void* exchange_back(pool_core const&, class_index, void* p,
                                                       std::size_t) noexcept {
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

}  // namespace malloc_blocks

POOLED_END_DETAIL
