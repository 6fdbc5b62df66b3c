// SPDX-License-Identifier: BSL-1.0
#pragma once

// What other copies of the library's state call: for blocks of this one (memory_copy), and for cores that this one made, the
// functions of the same names. They run the code of this copy, with its page map, registry and thread caches.

#include "pooled/base/size_class.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/os/copies.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/malloc_blocks.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/pool/reserve.hpp"

#include <cstddef>

namespace pooled::detail {

inline void* registry::default_core_for_others() { return &g_registry.default_core(); }

inline int registry::find_for_others(void const* p) {
    void const* const block = malloc_blocks::behind(p);
    map_entry const entry = g_page_map.find(block);
    if (entry.empty() || entry.is_idle()) return memory_copy::none;
    if (entry.is_large())
        return entry.large_at()->payload == block ? memory_copy::large_block : memory_copy::none;
    return entry.slab_at()->size_class < k_class_count ? memory_copy::slab_block : memory_copy::none;
}

inline void registry::deallocate_for_others(void* p) { detail::deallocate_found(p); }

inline void* pool_core::allocate_in_copy(class_index c, std::size_t bytes, std::size_t align) {
    return is_local() ? detail::allocate(in_pool<sharing::local>(*this), c, bytes, align)
                      : detail::allocate(in_pool<sharing::shared>(*this), c, bytes, align);
}

inline void pool_core::deallocate_in_copy(class_index c, void* p, std::size_t bytes) noexcept {
    if (is_local())
        detail::deallocate(in_pool<sharing::local>(*this), c, p, bytes);
    else
        detail::deallocate(in_pool<sharing::shared>(*this), c, p, bytes);
}

inline void* pool_core::allocate_large_in_copy(std::size_t bytes, std::size_t align) {
    return is_local() ? detail::allocate_beyond_classes(in_pool<sharing::local>(*this), bytes, align)
                      : detail::allocate_beyond_classes(in_pool<sharing::shared>(*this), bytes, align);
}

inline void pool_core::deallocate_large_in_copy(void* p, std::size_t bytes) noexcept {
    detail::deallocate_large(m_id, p, bytes);
}

inline bool pool_core::reserve_in_copy(class_index a, class_index b, std::size_t count,
                                       pool_memory::large_shape large) {
    return detail::try_reserve(*this, a, b, count, large);
}

inline bool pool_core::reserve_large_in_copy(std::size_t bytes, std::size_t align, std::size_t count) {
    return detail::try_reserve_large(*this, bytes, align, count);
}

inline std::size_t pool_core::trim_in_copy() noexcept { return m_memory.trim(); }

inline bool pool_core::owns_in_copy(void const* p) const noexcept { return detail::owns(*this, p); }

inline void pool_core::close_in_copy() noexcept { g_registry.close(*this); }

inline void pool_core::destroy_in_copy() noexcept { g_registry.destroy(*this); }

}  // namespace pooled::detail
