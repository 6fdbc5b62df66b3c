// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where an object's block comes from, and where it returns. The latter is a type, a parameter of the empty allocators and of the numbered
// block types. All pools but the default one are found by the block's address. Whether its teardown is immediate is determined when an
// object is made, not when it is dropped.
//
//   from_default       the default pool: known at compile time, nothing to look up
//   from_pool<…>       a given pool, in a block of the object's size
//   from_any<…>        any pool, in a block of any size

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/instrument/malloc_backed.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/teardown/incremental.hpp"

#include <cstddef>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Before an object is made in a pool that is not immediate: whether it will be deferred. Only the copy of the library that made
// the pool can defer; objects that another copy makes in it are destroyed immediately. Throws std::bad_alloc.
[[nodiscard]] POOLED_API bool prepare_deferral(pool_core& core);

#if POOLED_HAS_CODE

POOLED_CODE bool prepare_deferral(pool_core& core) {
    if (detail::is_foreign(core)) return false;
    if (core.is_incremental()) deferred_objects::attach_to(core);
    return true;
}

#endif

// The block for the control block of the std::allocate_shared that this thread is about to call.
POOLED_STATE(thread_local void*, t_given_block, = nullptr);

enum class on_failure : bool { throws, returns_empty };

// A block whose size is a constant. Throws what the pool throws, or is null.
template <std::size_t Bytes, std::size_t Align, on_failure OnFailure, class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_object(Place const& place) {
    constexpr class_index c = class_for(Bytes, Align);
    if constexpr (OnFailure == on_failure::returns_empty)
        return detail::try_allocate_bytes(place, Bytes, Align);
    else if constexpr (c == k_large)
        return detail::allocate_bytes_or_throw(place, Bytes, Align);
    else
        return detail::allocate_or_throw(place, c, Bytes, Align);
}

struct from_default {
    static constexpr bool k_is_default = true;
    static constexpr bool k_is_immediate = true;
    using deferring = from_default;

    // Requires a block of at least `bytes` at `align`.
    POOLED_ALWAYS_INLINE static void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        class_index const c = class_for(bytes, align);
        if (c == k_large) [[unlikely]]
            return detail::deallocate_bytes(in_default_pool{}, p, bytes, align);
        detail::deallocate_object(in_default_pool{}, c, p, bytes);
    }
};

template <sharing Sharing, bool IsImmediate = true>
struct from_pool {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;
    using deferring = from_pool<Sharing, false>;

    POOLED_ALWAYS_INLINE static void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        of_block<Sharing> const place(malloc_blocks::find_owned(p));
        class_index const c = class_for(bytes, align);
        if (c == k_large) [[unlikely]]
            return detail::deallocate_bytes(place, p, bytes, align);
        detail::deallocate_object(place, c, p, bytes);
    }
};

template <bool IsImmediate = true>
struct from_any {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;
    using deferring = from_any<false>;

    static void deallocate(void* p, std::size_t, std::size_t) noexcept { detail::deallocate_found(p); }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
