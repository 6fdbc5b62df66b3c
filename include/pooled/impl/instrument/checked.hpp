// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked build (POOLED_CHECKED) verifies at every call. At a deallocation: the address is the start of a
// block in use, of this pool, with this size; nothing wrote after its end; a local pool's block is returned by the thread
// that uses the pool. At an allocation: the alignment is a power of two, the pool was not destroyed, and nothing wrote
// to the block while it was free. Empty in other builds. A block of another copy of the library's state is checked
// there (impl/plugins/foreign.hpp).
//
// A message names the pool, the address, the size, what is wrong and what to do. Any thread may call; O(bytes of the block).

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/size_class.hpp"
#if POOLED_CHECKED
#include "pooled/detail/bits.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/impl/heap/misuse.hpp"
#include "pooled/impl/heap/slab.hpp"
#include "pooled/impl/instrument/checked_memory.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/registry.hpp"
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::checks {

#if POOLED_CHECKED

// `freed_as` and `is` are sizes in bytes; 0: not known, or none.
[[noreturn]] POOLED_NOINLINE inline void report(std::uint32_t pool_id, void const* p, char const* kind,
                                                std::size_t freed_as, std::size_t is) noexcept(false) {
    std::array<char, 96> sizes{};
    if (freed_as != 0 && is != 0)
        std::snprintf(sizes.data(), sizes.size(), " (freed as a block of %zu bytes, is one of %zu)", freed_as,
                      is);
    else if (freed_as != 0)
        std::snprintf(sizes.data(), sizes.size(), " (freed as a block of %zu bytes)", freed_as);
    else if (is != 0)
        std::snprintf(sizes.data(), sizes.size(), " (a block of %zu bytes)", is);
    detail::fail_with("pooled: bad deallocation of %p into pool '%s': %s%s", p, g_registry.name_of(pool_id),
                      kind, sizes.data());
}

inline constexpr char const* k_foreign = "the address is of no pool; free it where it was allocated";
inline constexpr char const* k_no_large =
    "no large block of this pool; freed before (double free), or never allocated";
inline constexpr char const* k_small =
    "no large block of this pool; it was allocated with another size: free it with that";
inline constexpr char const* k_other_pool = "it belongs to another pool; free it there";
inline constexpr char const* k_size =
    "the size or alignment is not the one it was allocated with; free it with that";
inline constexpr char const* k_double =
    "no block in use starts there; it was freed before (double free): look for a "
    "second owner";
inline constexpr char const* k_interior =
    "no block in use starts there; it points into a block: free the address "
    "that allocate returned";
inline constexpr char const* k_thread =
    "it is a local_pool's, which another thread uses; drop it there, call adopt() here before, or use a pool";

// Of the blocks there, whose class is not k_no_class; otherwise 0.
inline std::size_t bytes_of(map_entry entry) noexcept {
    return !entry.empty() && entry.slab_at()->size_class <= k_exact ? entry.slab_at()->block_bytes() : 0;
}

inline class_index class_of(map_entry entry) noexcept {
    return entry.empty() ? k_no_class : class_index{entry.slab_at()->size_class};
}

// The start of the block in which `p` lies, or `p` where there is none. Requires an entry with a class.
[[nodiscard]] inline void* start_in(map_entry entry, void const* p) noexcept {
    slab const& s = *entry.slab_at();
    if (address_of(p) < address_of(s.blocks)) return const_cast<void*>(p);
    std::size_t const size = s.block_bytes();
    return s.blocks + (address_of(p) - address_of(s.blocks)) / size * size;
}

// Whether `p` lies in a block in use.
[[nodiscard]] inline bool is_in_use(map_entry entry, void const* p) noexcept {
    return class_of(entry) <= k_exact && g_live_map.test(start_in(entry, p));
}

// For callers that use the page map to find the block's pool, before they read it.
inline void on_deallocate_found(void* p) {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty()) {
        if (detail::other_owner_of(p) != nullptr) return;  // the copy that has the block checks it
        report(k_default_pool_id, p, k_foreign, 0, 0);
    }
    if (!is_in_use(entry, p)) report(entry.pool_id(), p, k_double, 0, bytes_of(entry));
}

#if POOLED_HAS_CODE

// Before this copy of the library asks a core for memory: its pool may have been destroyed. The memory there is not trusted, unless
// another copy made the core.
inline void expect_open(pool_core const& core) {
    if (dead_pools::is_open(&core)) [[likely]]
        return;
    bool const is_dead = dead_pools::is_dead(&core);
    bool const is_closed = dead_pools::is_closed(&core);
    if (!is_dead && !is_closed && detail::is_kept_elsewhere(core)) return;
    fail_dead_pool(is_closed ? core.name() : is_dead ? dead_pools::name_of(&core) : "?", &core);
}

inline void on_request(pool_core const& core, std::size_t bytes, std::size_t align) {
    expect_open(core);
    if (is_power_of_two(align)) return;
    detail::fail_with(
        "pooled: bad allocation of %zu bytes from pool '%s': the alignment %zu is not a power of two; pass "
        "alignof(T)",
        bytes, core.name(), align);
}

// The calling thread uses a local pool from now on.
inline void on_adopt(pool_core const& core) {
    expect_open(core);
    if (core.is_local()) g_local_users.on_allocate(core.id());
}

// Requires a block of a core that this copy made.
inline void on_allocate(pool_core const& core, void* block, std::size_t bytes) {
    if (core.is_local()) g_local_users.on_allocate(core.id());
    POOLED_CHECK(!g_live_map.set(block, true), "pooled: internal error: a block in use was handed out again");
    if constexpr (fill::k_is_on) {
        map_entry const entry = g_page_map.find(block);
        fill::end_free(core.name(), block, bytes_of(entry));
        if constexpr (k_guard_bytes != 0) fill::write_guard(block, bytes, bytes_of(entry));
    }
}

// `c`: of the request, perhaps k_large. `bytes` 0: not known.
inline void on_deallocate(std::uint32_t pool_id, class_index c, void* block, std::size_t bytes) {
    map_entry const entry = g_page_map.find(block);
    std::size_t const freed_as = bytes != 0 || c >= k_class_count ? bytes : k_geometry[c].block_bytes;
    if (entry.empty()) report(pool_id, block, c == k_large ? k_no_large : k_foreign, freed_as, 0);
    std::size_t const is = bytes_of(entry);
    if (entry.pool_id() != pool_id) report(pool_id, block, k_other_pool, freed_as, is);
    if (!is_in_use(entry, block)) report(pool_id, block, k_double, freed_as, is);
    if (start_in(entry, block) != block) report(pool_id, block, k_interior, freed_as, is);
    fill::guard_state guard{k_size_max, fill::k_intact};
    if constexpr (k_guard_bytes != 0) guard = fill::read_guard(block, is);
    std::size_t const asked = guard.bytes != k_size_max ? guard.bytes : is;
    if (class_of(entry) < k_inlined_classes ? class_of(entry) != c : c != k_large)
        report(pool_id, block, c == k_large ? k_small : k_size, freed_as, asked);
    if (c == k_large && bytes > is) report(pool_id, block, k_size, freed_as, asked);
    if (entry.is_local() && !g_local_users.on_deallocate(pool_id))
        report(pool_id, block, k_thread, freed_as, freed_as);
    if (guard.changed != fill::k_intact)
        fail_write(g_registry.name_of(pool_id), block, guard.bytes != k_size_max ? guard.bytes : bytes,
                   guard.changed,
                   "behind its end (overflow); look for an index or a length that is too large there");
    if (k_guard_bytes != 0 && bytes != 0 && asked != bytes) report(pool_id, block, k_size, bytes, asked);
    if (!g_live_map.set(block, false)) report(pool_id, block, k_double, freed_as, asked);
    if constexpr (fill::k_is_on) fill::begin_free(block, is);
}

#endif

#else

POOLED_ALWAYS_INLINE void on_request(pool_core const&, std::size_t, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_adopt(pool_core const&) noexcept {}
POOLED_ALWAYS_INLINE void on_allocate(pool_core const&, void*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate(std::uint32_t, class_index, void*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate_found(void*) noexcept {}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::checks
