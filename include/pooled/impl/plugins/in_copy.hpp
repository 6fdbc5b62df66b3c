// SPDX-License-Identifier: BSL-1.0
#pragma once

// The functions that other copies of the library's state call: for blocks of this copy (memory_copy), and for cores that it made
// (the functions of the same names). They run the code of this copy, with its page map, registry and thread caches.
//
// The registry only declares their table (k_copy_functions), and refers to it where a pool is made. A source that makes no pool
// therefore contains none of their code. With the table in a static initialiser, each source compiled the whole heap: 2.8 s
// more with GCC 12 at -O2.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/heap/slab.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/plugins/copies.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/pool/reserve.hpp"

#include <cstddef>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

inline void* default_core_for_others() { return &g_registry.default_core(); }

inline int find_for_others(void const* p) {
    void const* const block = malloc_blocks::behind(p);
    map_entry const entry = g_page_map.find(block);
    if (entry.empty()) return memory_copy::none;
    slab const& s = *entry.slab_at();
    if (s.is_large_block(block)) return memory_copy::large_block;
    return s.size_class < k_first_large ? memory_copy::slab_block : memory_copy::none;
}

inline std::uint64_t region_for_others(void const* p) {
    return g_page_map.find(malloc_blocks::behind(p)).slab_at()->owner->number;
}

inline void deallocate_for_others(void* p) { detail::deallocate_found(p); }

// Otherwise these functions would call each other without end.
inline void expect_own(pool_core const& core) noexcept {
    POOLED_CHECK(
        !g_registry.is_foreign(core),
        "pooled: a shared library runs the functions of another one with its own state; link the other one "
        "without -Bsymbolic, or compile it with -fvisibility=hidden");
}

inline void* allocate_in_copy(pool_core& core, class_index c, std::size_t bytes, std::size_t align) {
    detail::expect_own(core);
    return core.is_local() ? detail::allocate(in_pool<sharing::local>(core), c, bytes, align)
                           : detail::allocate(in_pool<sharing::shared>(core), c, bytes, align);
}
inline void deallocate_in_copy(pool_core& core, class_index c, void* p, std::size_t bytes) noexcept {
    detail::expect_own(core);
    if (core.is_local())
        detail::deallocate(in_pool<sharing::local>(core), c, p, bytes);
    else
        detail::deallocate(in_pool<sharing::shared>(core), c, p, bytes);
}
inline void* allocate_large_in_copy(pool_core& core, std::size_t bytes, std::size_t align) {
    detail::expect_own(core);
    return core.is_local() ? detail::allocate_beyond_classes(in_pool<sharing::local>(core), bytes, align)
                           : detail::allocate_beyond_classes(in_pool<sharing::shared>(core), bytes, align);
}
inline void deallocate_large_in_copy(pool_core& core, void* p, std::size_t bytes) noexcept {
    detail::deallocate_large(core.id(), p, bytes);
}
inline void close_in_copy(pool_core& core) noexcept {
    detail::expect_own(core);
    g_registry.close(core);
}
inline void destroy_in_copy(pool_core& core) noexcept { g_registry.destroy_own(core); }

POOLED_HIDDEN inline constexpr copy_functions k_copy_functions{
    .core = {.allocate = allocate_in_copy,
             .deallocate = deallocate_in_copy,
             .allocate_large = allocate_large_in_copy,
             .deallocate_large = deallocate_large_in_copy,
             .reserve = try_reserve,
             .trim = trim,
             .close = close_in_copy,
             .destroy = destroy_in_copy,
             .owns = owns},
    .find = find_for_others,
    .deallocate = deallocate_for_others,
    .default_core = default_core_for_others,
    .region_of = region_for_others};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
