// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked build (POOLED_CHECKED) verifies at every deallocation: that the address is of this pool and this size
// class, and that it is the start of a block in use. In other builds all of it is empty.
// Any thread may call; O(1).

#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/live_map.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/pool/foreign.hpp"
#include "pooled/pool/registry.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace pooled::detail::checks {

#if POOLED_CHECKED

[[noreturn]] POOLED_NOINLINE inline void report(std::uint32_t pool_id, void const* p, char const* kind,
                                                std::size_t freed_as, std::size_t is) noexcept(false) {
    pool_core const* const core = g_registry.find(pool_id);
    std::array<char, 320> message{};
    std::snprintf(
        message.data(), message.size(),
        "pooled: bad deallocation of %p into pool '%s': %s (freed as a block of %zu bytes, is one of %zu)", p,
        core != nullptr ? core->name() : "?", kind, freed_as, is);
    POOLED_FAIL(message.data());
}

inline std::size_t bytes_of(class_index c) noexcept {
    return c < k_class_count ? k_geometry[c].block_bytes : 0;
}

inline class_index class_of(map_entry entry) noexcept {
    if (entry.empty()) return k_no_class;
    return entry.is_large() ? k_large : entry.slab_at()->size_class;
}

// A block that the page map does not know is another copy's, which checks it (pool/foreign.hpp).
inline void* on_allocate(void* block) noexcept {
    if (block != nullptr && !g_page_map.find(block).empty())
        POOLED_CHECK(!g_live_map.set(block, true),
                     "pooled: internal error: a block in use was handed out again");
    return block;
}

inline void on_deallocate(std::uint32_t pool_id, class_index c, void* block) {
    map_entry const entry = g_page_map.find(block);
    if (entry.empty())
        report(pool_id, block, "the address is of no pool; free it where it was allocated", bytes_of(c), 0);
    if (entry.pool_id() != pool_id)
        report(pool_id, block, "it belongs to another pool; free it there", bytes_of(c),
               bytes_of(class_of(entry)));
    if (class_of(entry) != c)
        report(pool_id, block, "the size or alignment is not the one it was allocated with", bytes_of(c),
               bytes_of(class_of(entry)));
    if (!g_live_map.set(block, false))
        report(pool_id, block,
               "no block in use starts there; it was freed before (double free), or points into a block",
               bytes_of(c), bytes_of(c));
}

// `bytes` 0: not known.
inline void on_deallocate_large(std::uint32_t pool_id, void* p, std::size_t bytes) {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty() || entry.pool_id() != pool_id || !entry.is_large())
        report(pool_id, p,
               "no large block of this pool; freed before (double free), or allocated with another size",
               bytes, bytes_of(class_of(entry)));
    large_block const& block = *entry.large_at();
    if (block.payload != p)
        report(pool_id, p,
               "no block in use starts there; it was freed before (double free), or points into a block",
               bytes, 0);
    if (bytes != 0 && bytes != block.bytes)
        report(pool_id, p, "the size or alignment is not the one it was allocated with", bytes, block.bytes);
}

// For callers that ask the page map whose block it is.
inline void on_deallocate_found(void* p) {
    if (g_page_map.find(p).empty() && detail::other_owner_of(p) == nullptr)
        report(k_default_pool_id, p, "the address is of no pool; free it where it was allocated", 0, 0);
}

#else

POOLED_ALWAYS_INLINE void* on_allocate(void* block) noexcept { return block; }
POOLED_ALWAYS_INLINE void on_deallocate(std::uint32_t, class_index, void*) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate_large(std::uint32_t, void*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate_found(void*) noexcept {}

#endif

}  // namespace pooled::detail::checks
