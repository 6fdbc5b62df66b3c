// SPDX-License-Identifier: BSL-1.0
#pragma once

// The cases that the inlined code of fast_path.hpp leaves out: first use, stopped and closed caches, pools beyond the near slots,
// large blocks, and pools and blocks of another copy of the library's state (foreign.hpp). Out of line; the pool's core serves them.
//
// Any thread may call. O(1), besides what the pool's memory takes.

#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/foreign.hpp"
#include "pooled/pool/registry.hpp"
#if POOLED_HAS_CODE
#include "pooled/base/bits.hpp"
#include "pooled/instrument/checked.hpp"
#endif

#include <cstddef>
#include <cstdint>

POOLED_BEGIN_NAMESPACE
namespace detail {

inline constexpr char const* k_bad_alignment =
    "pooled: bad request for memory: the alignment is not a power of two; pass alignof(T)";

// A program with other settings than its libpooled has does not link: they are a part of names. This name says what to do.
POOLED_STATE(char, libpooled_is_missing_or_has_other_settings_see_docs_compiled_library_md, {});
#if !POOLED_HAS_CODE
POOLED_USED inline constexpr char* k_settings =
    &libpooled_is_missing_or_has_other_settings_see_docs_compiled_library_md;
#endif

// `known` null: the default pool. The request's class, perhaps k_large, and what it asks for. Null when the bound is reached; throws
// what upstream throws.
[[nodiscard]] POOLED_API void* allocate_slow(pool_core* known, class_index c, std::size_t bytes,
                                             std::size_t align);
// The same; throws exhausted when the bound is reached.
[[nodiscard]] POOLED_API void* allocate_slow_or_throw(pool_core* known, class_index c, std::size_t bytes,
                                                      std::size_t align);

// `c`: of the request. `bytes`: the size with which it was allocated, or 0: not known.
POOLED_API void deallocate_slow(std::uint32_t pool_id, class_index c, void* p, std::size_t bytes) noexcept;
// A block that the inlined code has verified, and that the thread's cache does not take.
POOLED_API void deallocate_past_cache(std::uint32_t pool_id, class_index c, void* block) noexcept;

// Memory for objects that are made later: as pool_core::reserve(), ; throws exhausted when the
// bound does not allow it.
POOLED_API void reserve_classes(pool_core& core, block_request a, class_index b, std::size_t count);

// The calling thread uses a local pool from now on.
POOLED_API void adopt(pool_core const& core);

#if POOLED_HAS_CODE

POOLED_CODE void* allocate_slow(pool_core* known, class_index c, std::size_t bytes, std::size_t align) {
    t_state().use_own_gate();
    pool_core& core = known != nullptr ? *known : g_registry.default_core();
    block_request const what(c, bytes, align);
    checks::on_request(core, bytes, align);
    if (g_registry.is_foreign(core)) [[unlikely]]
        return allocate_elsewhere(core, what);
    return core.allocate_block(what);
}
POOLED_CODE void* allocate_slow_or_throw(pool_core* known, class_index c, std::size_t bytes,
                                         std::size_t align) {
    void* const block = allocate_slow(known, c, bytes, align);
    if (block == nullptr) (known != nullptr ? *known : g_registry.default_core()).throw_exhausted(bytes);
    return block;
}

// The core of the pool whose id the page map here has for a block; null when it does not know the block.
[[nodiscard]] inline pool_core* find_core(std::uint32_t pool_id) noexcept {
    return pool_id != k_no_pool_id ? g_registry.find(pool_id) : nullptr;
}

// cold: GCC otherwise guesses which class the virtual function is of, and each source that drops objects contains the heap.
[[gnu::cold]] POOLED_CODE void deallocate_slow(std::uint32_t pool_id, class_index c, void* p,
                                               std::size_t bytes) noexcept {
    pool_core* const core = find_core(pool_id);
    core != nullptr ? core->deallocate_block(c, p, bytes) : deallocate_elsewhere(p);
}
[[gnu::cold]] POOLED_CODE void deallocate_past_cache(std::uint32_t pool_id, class_index c,
                                                     void* block) noexcept {
    t_state().use_own_gate();
    pool_core* const core = find_core(pool_id);
    core != nullptr ? core->deallocate_verified(c, block) : deallocate_elsewhere(block);
}

POOLED_CODE void reserve_classes(pool_core& core, block_request a, class_index b, std::size_t count) {
    checks::on_request(core, a.bytes, a.align);
    if (core.reserve(a, b, count)) return;
    std::size_t const bytes = a.c < k_first_large ? k_geometry[a.c].block_bytes : a.bytes;
    core.throw_exhausted(saturating_multiply(count, bytes));
}

POOLED_CODE void adopt([[maybe_unused]] pool_core const& core) { checks::on_adopt(core); }

#endif

}  // namespace detail
POOLED_END_NAMESPACE
