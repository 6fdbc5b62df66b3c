// SPDX-License-Identifier: BSL-1.0
#pragma once

// Creates an object in a block with a header: the common part of make_unique and make_rc.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/teardown/block_type.hpp"
#include "pooled/rc_from_this.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Returns its block to the pool unless released: a guard while a constructor may throw.
template <class Origin>
class held_block {
public:
    held_block(void* block, std::size_t bytes, std::size_t align) noexcept
        : m_block(block), m_bytes(bytes), m_align(align) {}
    POOLED_ALWAYS_INLINE ~held_block() {
        if (m_block != nullptr) Origin::deallocate_block(m_block, m_bytes, m_align);
    }
    held_block(held_block const&) = delete;
    held_block& operator=(held_block const&) = delete;

    void release() noexcept { m_block = nullptr; }

private:
    void* m_block;
    std::size_t m_bytes;
    std::size_t m_align;
};

// In place of a constructor's arguments: default-initialise the object.
struct for_overwrite {};

template <class T, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE T* construct_in(void* place, Args&&... args) {
    // std::construct_at is in a system header, so conversions of the user's arguments cause no warning here.
    return std::construct_at(static_cast<T*>(place), std::forward<Args>(args)...);
}
template <class T>
[[nodiscard]] POOLED_ALWAYS_INLINE T* construct_in(void* place, for_overwrite) {
    return ::new (place) T;
}

// Requires a block for a counted_object. Returns it to the pool if the constructor throws.
template <class T, class Origin, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE T* construct_counted(void* block, type_tag type, std::uint64_t counts,
                                                        Args&&... args) {
    using object = counted_object<T, Origin>;
    held_block<Origin> held(block, object::k_bytes, object::k_align);
    T* const made = detail::construct_in<T>(object::place_in(block), std::forward<Args>(args)...);
    held.release();
    object::set_header(made, type, counts);
    detail::introduce(made);
    return made;
}

// `counts`: count_header::k_sole or k_unique. Throws what the pool and the constructor throw.
template <class T, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE T* make_counted_by_default(std::uint64_t counts, Args&&... args) {
    using object = counted_object<T, from_default>;
    type_tag const type = object::tag();
    void* block = nullptr;
    if constexpr (object::k_class == k_large)
        block = detail::allocate_bytes_or_throw(detail::in_pool<sharing::shared>(g_registry.default_core()),
                                                object::k_bytes, object::k_align);
    else
        block = allocate_or_throw(in_default_pool{}, object::k_class, object::k_bytes, object::k_align);
    return detail::construct_counted<T, from_default>(block, type, counts, std::forward<Args>(args)...);
}

// The pool determines how the object is retired, but not its layout.
template <class T, sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE type_tag tag_in(pool_core& core) {
    if constexpr (k_is_deferrable_type<T>)
        if (!core.is_immediate() && detail::prepare_deferral(core)) [[unlikely]] {
            return counted_object<T, from_pool<Sharing, on_failure::throws, false>>::tag();
        }
    return counted_object<T, from_pool<Sharing>>::tag();
}

template <class T, sharing Sharing, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE T* make_counted(pool_core& core, std::uint64_t counts, Args&&... args) {
    using object = counted_object<T, from_pool<Sharing>>;
    type_tag const type = detail::tag_in<T, Sharing>(core);
    void* block = nullptr;
    if constexpr (object::k_class == k_large)
        block =
            detail::allocate_bytes_or_throw(detail::in_pool<Sharing>(core), object::k_bytes, object::k_align);
    else
        block = detail::allocate_or_throw(detail::in_pool<Sharing>(core), object::k_class, object::k_bytes,
                                          object::k_align);
    return detail::construct_counted<T, from_pool<Sharing>>(block, type, counts, std::forward<Args>(args)...);
}

// As make_counted(); null when the pool is exhausted or upstream has no more.
template <class T, sharing Sharing, class... Args>
[[nodiscard]] T* try_make_counted(pool_core& core, std::uint64_t counts, Args&&... args) {
    using object = counted_object<T, from_pool<Sharing>>;
    type_tag const type = detail::tag_in<T, Sharing>(core);
    void* const block =
        detail::try_allocate_bytes(detail::in_pool<Sharing>(core), object::k_bytes, object::k_align);
    if (block == nullptr) return nullptr;
    return detail::construct_counted<T, from_pool<Sharing>>(block, type, counts, std::forward<Args>(args)...);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
