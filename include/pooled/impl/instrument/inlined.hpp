// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the inlined code knows of instruments. The hardened build, made for production, verifies each block that enters or leaves the thread's cache. Other
// instruments must see each call: the inlined code finds no cache, and calls the pool's core (impl/instrument/instrument.hpp).

#include "pooled/config.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/instrument/hardened.hpp"

#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::instrument {

using hardened::expect_in_use;
using hardened::mark_header;
using hardened::origin;
using hardened::origin_of;

inline constexpr bool k_verifies_cached = k_hardened;
inline constexpr bool k_allows_caches = POOLED_CHECKED == 0 && POOLED_SANITIZE == 0 && POOLED_TRACKED == 0;

// A block from the cache, for its next owner; null stays null. `as`: what it is for.
[[nodiscard]] POOLED_ALWAYS_INLINE void* from_cache(void* block, origin as) noexcept {
    return hardened::claimed(block, as);
}

// Whether the block may enter the cache. Otherwise the core looks at it.
[[nodiscard]] POOLED_ALWAYS_INLINE bool may_cache(std::uint32_t pool_id, class_index c, void* p,
                                                  origin from) noexcept {
    return hardened::admits(pool_id, c, p, from);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::instrument
