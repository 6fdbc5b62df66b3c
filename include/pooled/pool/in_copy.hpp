// SPDX-License-Identifier: BSL-1.0
#pragma once

// What another copy of the library calls for a core that this one made: the functions of the same names, run by the code and
// with the page map, registry and thread caches of this copy.

#include "pooled/base/size_class.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/registry.hpp"
#include "pooled/pool/reserve.hpp"

#include <cstddef>

namespace pooled::detail {

inline void* pool_core::allocate_in_copy(class_index c) {
    return is_local() ? detail::allocate(in_pool<sharing::local>(*this), c)
                      : detail::allocate(in_pool<sharing::shared>(*this), c);
}

inline void pool_core::deallocate_in_copy(class_index c, void* block) noexcept {
    if (is_local())
        detail::deallocate(in_pool<sharing::local>(*this), c, block);
    else
        detail::deallocate(in_pool<sharing::shared>(*this), c, block);
}

inline void* pool_core::allocate_large_in_copy(std::size_t bytes, std::size_t align) {
    return detail::allocate_large(*this, bytes, align);
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
