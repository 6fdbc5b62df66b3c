// SPDX-License-Identifier: BSL-1.0
#pragma once

// make_unique, from the default pool and from a given one.

#include "pooled/allocator.hpp"
#include "pooled/config.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/control_block.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/make_counted.hpp"
#include "pooled/detail/make_elements.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/pool.hpp"
#include "pooled/unique_ptr.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

namespace detail {

// The bytes of an array of `count` elements and its length; k_size_max if they exceed the address space.
template <class T>
[[nodiscard]] constexpr std::size_t counted_array_bytes(std::size_t count) noexcept {
    return saturating_add(saturating_multiply(count, sizeof(std::remove_extent_t<T>)),
                          counted_array<std::remove_extent_t<T>>::k_offset);
}

template <class T, sharing Sharing, on_failure OnFailure, initialise How = initialise::by_value>
[[nodiscard]] unique_ptr<T> make_unique_array(pool_core& core, std::size_t count) {
    using element = std::remove_cv_t<std::remove_extent_t<T>>;
    using array = counted_array<std::remove_extent_t<T>>;
    std::size_t const bytes = counted_array_bytes<T>(count);
    void* const memory = detail::allocate_elements<Sharing, OnFailure>(core, bytes, array::k_align);
    if (memory == nullptr) return {};
    held_block<from_pool<Sharing>> block(memory, bytes, array::k_align);
    auto* const first = reinterpret_cast<element*>(static_cast<std::byte*>(memory) + array::k_offset);
    detail::construct_elements<How>(first, count);
    ::new (memory) std::size_t(count);
    block.release();
    return unique_ptr<T>(first);
}

template <sharing Sharing>
template <not_array T, class... Args>
POOLED_INLINE_ENTRY unique_ptr<T> basic_pool<Sharing>::make_unique(Args&&... args) {
    POOLED_ACQUISITION(nullptr);
    return unique_ptr<T>(detail::make_counted<std::remove_cv_t<T>, Sharing>(*m_core, count_header::k_unique,
                                                                            std::forward<Args>(args)...));
}

template <sharing Sharing>
template <not_array T, class... Args>
POOLED_TRACKED_ENTRY unique_ptr<T> basic_pool<Sharing>::try_make_unique(Args&&... args) {
    POOLED_ACQUISITION(nullptr);
    return unique_ptr<T>(detail::try_make_counted<std::remove_cv_t<T>, Sharing>(
        *m_core, count_header::k_unique, std::forward<Args>(args)...));
}

template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY unique_ptr<T> basic_pool<Sharing>::make_unique(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_unique_array<T, Sharing, on_failure::throws>(*m_core, count);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY unique_ptr<T> basic_pool<Sharing>::try_make_unique(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_unique_array<T, Sharing, on_failure::marks_and_throws>(*m_core, count);
}

template <sharing Sharing>
template <not_array T>
POOLED_TRACKED_ENTRY unique_ptr<T> basic_pool<Sharing>::make_unique_for_overwrite() {
    POOLED_ACQUISITION(nullptr);
    return make_unique<T>(for_overwrite());
}
template <sharing Sharing>
template <not_array T>
POOLED_TRACKED_ENTRY unique_ptr<T> basic_pool<Sharing>::try_make_unique_for_overwrite() {
    POOLED_ACQUISITION(nullptr);
    return try_make_unique<T>(for_overwrite());
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY unique_ptr<T> basic_pool<Sharing>::make_unique_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_unique_array<T, Sharing, on_failure::throws, initialise::by_default>(*m_core, count);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY unique_ptr<T> basic_pool<Sharing>::try_make_unique_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_unique_array<T, Sharing, on_failure::marks_and_throws, initialise::by_default>(
        *m_core, count);
}

}  // namespace detail

// From the default pool. Throws std::bad_alloc, and what the constructor throws.
template <detail::not_array T, class... Args>
[[nodiscard]] POOLED_INLINE_ENTRY unique_ptr<T> make_unique(Args&&... args) {
    POOLED_ACQUISITION(nullptr);
    return unique_ptr<T>(detail::make_counted_by_default<std::remove_cv_t<T>>(detail::count_header::k_unique,
                                                                              std::forward<Args>(args)...));
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_unique<T>(count);
}
template <detail::not_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique_for_overwrite() {
    POOLED_ACQUISITION(nullptr);
    return pooled::make_unique<T>(detail::for_overwrite());
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_unique_for_overwrite<T>(count);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
