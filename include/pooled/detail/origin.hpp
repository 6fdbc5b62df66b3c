// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where an object's block comes from and returns to, as a type: a parameter of the empty allocators and of the numbered block
// types.
//
//   from_default          the default pool: known at compile time, nothing to look up
//   from_pool<Sharing, …> the pool in t_making during the one call; found again by the block's address. Whether its teardown is
//                         immediate is determined when an object is made, not when it is dropped
//   given_block<…>        t_given_block, of any pool and size; both are found again by the block's address

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/teardown/incremental.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The pool of the allocate_shared that is about to allocate on this thread.
POOLED_STATE(thread_local pool_core*, t_making, = nullptr);

// Set when the allocation itself of a try_make_shared fails: distinguishes it from a constructor that throws std::bad_alloc.
inline constinit thread_local bool t_making_failed = false;

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

// A block that was allocated before the call of std::allocate_shared: one with a tail, whose size only the caller knows; without
// exceptions each of a try_make_shared, since std::allocate_shared cannot fail then.
inline constinit thread_local void* t_given_block = nullptr;

template <class T>
inline constexpr class_index k_class_of = class_for(sizeof(T), alignof(T));

template <class T>
[[nodiscard]] constexpr std::size_t array_bytes(std::size_t count) {
    std::size_t const bytes = saturating_multiply(count, sizeof(T));
    if (bytes == k_size_max) POOLED_THROW(std::bad_array_new_length());
    return bytes;
}

// Any number of T; out of line, so that the one-object path stays small where it is inlined.
template <class T, sharing Sharing>
[[nodiscard]] POOLED_NOINLINE T* allocate_array(pool_core& core, std::size_t n) {
    return static_cast<T*>(
        detail::allocate_bytes_or_throw(detail::in_pool<Sharing>(core), array_bytes<T>(n), alignof(T)));
}
template <class T, sharing Sharing>
POOLED_NOINLINE void deallocate_array(pool_core& core, T* p, std::size_t n) noexcept {
    detail::deallocate_bytes(detail::in_pool<Sharing>(core), p, n * sizeof(T), alignof(T));
}

enum class on_failure : bool { throws, returns_empty };

struct from_default {
    static constexpr bool k_is_default = true;
    static constexpr bool k_is_immediate = true;
    template <class T>
    [[nodiscard]] POOLED_ALWAYS_INLINE static T* allocate(std::size_t n) {
        if (n != 1 || k_class_of<T> == k_large) [[unlikely]]
            return detail::allocate_array<T, sharing::shared>(g_registry.default_core(), n);
        return static_cast<T*>(
            detail::allocate_or_throw(in_default_pool{}, k_class_of<T>, sizeof(T), alignof(T)));
    }
    template <class T>
    POOLED_ALWAYS_INLINE static void deallocate(T* p, std::size_t n) noexcept {
        if (n != 1 || k_class_of<T> == k_large) [[unlikely]]
            return detail::deallocate_array<T, sharing::shared>(g_registry.default_core(), p, n);
        detail::deallocate_object(in_default_pool{}, k_class_of<T>, p, sizeof(T));
    }
    // Requires a block of at least `bytes` at `align`.
    POOLED_ALWAYS_INLINE static void deallocate_block(void* p, std::size_t bytes,
                                                      std::size_t align) noexcept {
        class_index const c = class_for(bytes, align);
        if (c == k_large) [[unlikely]]
            return detail::deallocate_bytes(detail::in_pool<sharing::shared>(g_registry.default_core()), p,
                                            bytes, align);
        detail::deallocate_object(detail::in_default_pool{}, c, p, bytes);
    }
};

template <sharing Sharing, on_failure OnFailure = on_failure::throws, bool IsImmediate = true>
struct from_pool {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;

    // Requires t_making.
    template <class T>
    [[nodiscard]] POOLED_ALWAYS_INLINE static T* allocate(std::size_t n) {
        pool_core& core = *t_making;
        if constexpr (OnFailure == on_failure::returns_empty) {
            if (!POOLED_HAS_EXCEPTIONS) return static_cast<T*>(std::exchange(t_given_block, nullptr));
            void* const p =
                detail::try_allocate_bytes(detail::in_pool<Sharing>(core), array_bytes<T>(n), alignof(T));
            t_making_failed = p == nullptr;
            if (p == nullptr) POOLED_THROW(std::bad_alloc());
            return static_cast<T*>(p);
        }
        if (n == 1 && k_class_of<T> != k_large) [[likely]]
            return static_cast<T*>(detail::allocate_or_throw(detail::in_pool<Sharing>(core), k_class_of<T>,
                                                             sizeof(T), alignof(T)));
        return detail::allocate_array<T, Sharing>(core, n);
    }
    template <class T>
    POOLED_ALWAYS_INLINE static void deallocate(T* p, std::size_t n) noexcept {
        map_entry const entry = malloc_blocks::find_owned(p);
        if (n != 1 || k_class_of<T> == k_large) [[unlikely]]
            return detail::deallocate_array<T, Sharing>(*g_registry.find(entry.pool_id()), p, n);
        detail::deallocate_object(detail::of_block<Sharing>(entry), k_class_of<T>, p, sizeof(T));
    }
    POOLED_ALWAYS_INLINE static void deallocate_block(void* p, std::size_t bytes,
                                                      std::size_t align) noexcept {
        map_entry const entry = malloc_blocks::find_owned(p);
        class_index const c = class_for(bytes, align);
        if (c == k_large) [[unlikely]]
            return detail::deallocate_bytes(of_block<Sharing>(entry), p, bytes, align);
        detail::deallocate_object(detail::of_block<Sharing>(entry), c, p, bytes);
    }
};

template <bool IsImmediate = true>
struct given_block {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;

    // Requires t_given_block, of at least the bytes of a T.
    template <class T>
    [[nodiscard]] static T* allocate(std::size_t) noexcept {
        return static_cast<T*>(std::exchange(t_given_block, nullptr));
    }
    template <class T>
    static void deallocate(T* p, std::size_t) noexcept {
        detail::deallocate_found(p);
    }
    static void deallocate_block(void* p, std::size_t, std::size_t) noexcept { detail::deallocate_found(p); }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
