// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the checked build (POOLED_CHECKED) verifies at every call. At a deallocation: the address is the start of a
// block in use, of this pool, with this size; nothing wrote after its end; a local pool's block is returned by the thread
// that uses the pool. At an allocation: the alignment is a power of two, the pool was not destroyed, and nothing wrote
// to the block while it was free. Empty in other builds. A block of another copy of the library's state is checked
// there (pool/foreign.hpp).
//
// A message names the pool, the address, the size, what is wrong and what to do. Any thread may call; O(bytes of the block).

#include "pooled/pool/core.hpp"
#include "pooled/pool/foreign.hpp"
#include "pooled/pool/registry.hpp"
#if POOLED_CHECKED
#include "pooled/heap/checked_memory.hpp"
#include "pooled/heap/misuse.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/heap/slab.hpp"
#endif

POOLED_BEGIN_NAMESPACE
namespace detail::checks {

#if POOLED_CHECKED

inline constexpr char const* k_double =
    "no block in use starts there; it was freed before (double free): look for a "
    "second owner";

// The size of the blocks there, if they have a class; otherwise 0.
inline std::size_t bytes_of(map_entry entry) noexcept {
    return !entry.empty() && entry.slab_at()->size_class <= k_exact ? entry.slab_at()->block_bytes() : 0;
}

// The start of the block in use in which `p` lies; null: none.
[[nodiscard]] inline void* block_at(map_entry entry, void const* p) noexcept {
    std::size_t const size = bytes_of(entry);
    if (size == 0 || address_of(p) < address_of(entry.slab_at()->blocks)) return nullptr;
    std::byte* const first = entry.slab_at()->blocks;
    void* const start = first + (address_of(p) - address_of(first)) / size * size;
    return has_mark(start, mark::exists) ? start : nullptr;
}

// For callers that use the page map to find the block's pool, before they read it.
inline void on_deallocate_found(void* p) {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty()) {
        if (detail::other_owner_of(p) != nullptr) return;  // the copy that has the block checks it
        fail_deallocation(name_of_pool(k_default_pool_id), p, k_of_no_pool);
    }
    if (block_at(entry, p) == nullptr)
        fail_deallocation(name_of_pool(entry.pool_id()), p, k_double, 0, bytes_of(entry));
}

#if POOLED_HAS_CODE

// Before this copy of the library asks a core for memory: its pool may have been destroyed. The memory there is not trusted, unless
// another copy made the core.
inline void expect_open(pool_core const& core) {
    bool const is_known = has_mark(&core, mark::exists);
    if (is_known ? !core.is_closed() : detail::is_kept_elsewhere(core)) [[likely]]
        return;
    detail::fail_with(
        "pooled: bad allocation from pool '%s' at %p: it was destroyed; a pool must outlive the "
        "allocators and references that allocate from it",
        is_known ? core.name() : "?", static_cast<void const*>(&core));
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
    POOLED_CHECK(!set_mark(block, mark::exists, true),
                 "pooled: internal error: a block in use was handed out again");
    if constexpr (!fill::k_is_on) return;
    std::size_t const is = bytes_of(g_page_map.find(block));
    fill::end_free(block, is);
    fill::write_guard(block, bytes, is);
}

// A std::pmr container that returns a block: the core's pool may have been destroyed, with all of its blocks.
inline void on_return(pool_core const& core, void const* block) {
    if (has_mark(&core, mark::ended)) fail_deallocation(core.name(), block, k_double);
}

// `c`: of the request, perhaps k_large. `bytes` 0: not known.
inline void on_deallocate(pool_core const& core, class_index c, void* block, std::size_t bytes) {
    map_entry const entry = g_page_map.find(block);
    std::size_t const freed_as = bytes != 0 || c >= k_class_count ? bytes : k_geometry[c].block_bytes;
    std::size_t const is = bytes_of(entry);
    auto const expect = [&](bool condition, char const* what, std::size_t asked) {
        if (!condition) fail_deallocation(core.name(), block, what, freed_as, asked);
    };
    expect(!entry.empty(), c == k_large ? k_no_large_block : k_of_no_pool, 0);
    expect(entry.pool_id() == core.id(), k_of_another_pool, is);
    void* const start = block_at(entry, block);
    expect(start != nullptr, k_double, is);
    expect(start == block,
           "no block in use starts there; it points into a block: free the address that allocate returned",
           is);
    fill::guard_state const guard = fill::read_guard(block, is);
    std::size_t const asked = guard.bytes != fill::k_unknown ? guard.bytes : is;
    class_index const of_block = entry.slab_at()->size_class;
    expect(of_block >= k_inlined_classes || c != k_large, k_no_large_block, asked);
    bool const is_of_class = of_block >= k_inlined_classes ? c == k_large : c == of_block;
    bool const is_of_size =
        bytes == 0 || (guard.bytes != fill::k_unknown ? bytes == guard.bytes : bytes <= is);
    expect(is_of_class && is_of_size, k_of_another_size, asked);
    expect(!entry.is_local() || g_local_users.on_deallocate(core.id()),
           "it is a local_pool's, which another thread uses; drop it there, call adopt() here before, or use "
           "a pool",
           asked);
    if (guard.changed != is)
        fill::fail_write(block, guard.bytes != fill::k_unknown ? guard.bytes : bytes, guard.changed,
                         "behind its end (overflow); look for an index or a length that is too large there");
    expect(set_mark(block, mark::exists, false), k_double, asked);
    if constexpr (fill::k_is_on) fill::begin_free(block, is);
}

#endif

#else

POOLED_ALWAYS_INLINE void on_request(pool_core const&, std::size_t, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_adopt(pool_core const&) noexcept {}
POOLED_ALWAYS_INLINE void on_allocate(pool_core const&, void*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_return(pool_core const&, void const*) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate(pool_core const&, class_index, void*, std::size_t) noexcept {}
POOLED_ALWAYS_INLINE void on_deallocate_found(void*) noexcept {}

#endif

}  // namespace detail::checks
POOLED_END_NAMESPACE
