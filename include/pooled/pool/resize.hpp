// SPDX-License-Identifier: BSL-1.0
#pragma once

// What realloc() asks about blocks of which it knows the address alone (src/new_delete.cpp). They are in use and of a pool of this copy of
// the library; the calling thread owns them. O(1), besides the copy.

#include "pooled/config.hpp"
#if POOLED_HAS_CODE
#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#include "pooled/instrument/checked.hpp"
#include "pooled/os/platform.hpp"
#endif

POOLED_BEGIN_NAMESPACE
namespace detail {

// The bytes that the owner may use; in the checked build those that were asked for, as the rest is a guard.
[[nodiscard]] POOLED_API std::size_t usable_bytes(void const* p) noexcept;

// Copies the contents. Where no class serves the two blocks, pages move if the system can do that, which takes a hundredth of the time
// and no second block's memory. The contents of `from` are lost.
POOLED_API void move_bytes(void* from, void* to, std::size_t bytes) noexcept;

#if POOLED_HAS_CODE

POOLED_CODE std::size_t usable_bytes(void const* p) noexcept {
    std::size_t const is = g_page_map.find_owned(p).slab_at()->block_bytes();
#if POOLED_CHECKED
    std::size_t const asked = fill::read_guard(p, is).bytes;
    if (asked != fill::k_unknown) return asked;
#endif
    return is;
}

POOLED_CODE void move_bytes(void* from, void* to, std::size_t bytes) noexcept {
    auto const is_exact = [](void* p) noexcept {
        return g_page_map.find_owned(p).slab_at()->size_class == k_exact;
    };
    std::size_t const pages = round_down(bytes, platform::page_bytes());
    std::size_t const moved =
        pages != 0 && is_exact(from) && is_exact(to) && platform::move_pages(from, to, pages) ? pages : 0;
    __builtin_memcpy(static_cast<std::byte*>(to) + moved, static_cast<std::byte*>(from) + moved,
                     bytes - moved);
}

#endif

}  // namespace detail
POOLED_END_NAMESPACE
