// SPDX-License-Identifier: BSL-1.0
#pragma once

// make_rc and make_local_rc, from the default pool and from a given one: the object and 8 bytes of counts in one block; for an
// array, the elements, the counts and the length. T may be const.
//
//   make_rc<T>(arguments...)
//   make_rc<T[]>(count)   make_rc<T[]>(count, value)   make_rc<T[N]>()   make_rc<T[N]>(value)

#include "pooled/config.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/handle.hpp"
#include "pooled/detail/make_counted.hpp"
#include "pooled/detail/make_elements.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/fwd.hpp"
#include "pooled/pool.hpp"
#include "pooled/rc_ptr.hpp"

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

namespace detail {

// Requires an object whose header says k_sole, or null.
template <class T, class Counting>
[[nodiscard]] POOLED_ALWAYS_INLINE rc_ptr_of<T, Counting> adopt_made(std::remove_cv_t<T>* object) noexcept {
    return rc_access::adopt<T, Counting>(handle<T>(object, object));
}

template <sharing Sharing>
template <not_array T, class... Args>
POOLED_INLINE_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::make_rc(Args&&... args) {
    POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
    return detail::adopt_made<T, counting_of<Sharing>>(detail::make_counted<std::remove_cv_t<T>, Sharing>(
        *m_core, count_header::k_sole, std::forward<Args>(args)...));
}

template <sharing Sharing>
template <not_array T, class... Args>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::try_make_rc(Args&&... args) {
    POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
    return detail::adopt_made<T, counting_of<Sharing>>(detail::try_make_counted<std::remove_cv_t<T>, Sharing>(
        *m_core, count_header::k_sole, std::forward<Args>(args)...));
}

template <sharing Sharing>
template <not_array T, class... Args>
POOLED_TRACKED_ENTRY local_rc_ptr<T> basic_pool<Sharing>::make_local_rc(Args&&... args) {
    POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
    return detail::adopt_made<T, on_one_thread>(detail::make_counted<std::remove_cv_t<T>, Sharing>(
        *m_core, count_header::k_sole, std::forward<Args>(args)...));
}

template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::make_rc(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::throws>(*m_core, count);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
basic_pool<Sharing>::make_rc(std::size_t count, std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::throws>(*m_core, count, value);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::make_rc() {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::throws>(*m_core);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
basic_pool<Sharing>::make_rc(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::throws>(*m_core, value);
}

template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::try_make_rc(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::marks_and_throws>(*m_core, count);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
basic_pool<Sharing>::try_make_rc(std::size_t count, std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::marks_and_throws>(*m_core, count,
                                                                                              value);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::try_make_rc() {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::marks_and_throws>(*m_core);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
basic_pool<Sharing>::try_make_rc(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::marks_and_throws>(*m_core, value);
}

template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY local_rc_ptr<T> basic_pool<Sharing>::make_local_rc(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, on_one_thread, Sharing, on_failure::throws>(*m_core, count);
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY local_rc_ptr<T>
basic_pool<Sharing>::make_local_rc(std::size_t count, std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, on_one_thread, Sharing, on_failure::throws>(*m_core, count, value);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY local_rc_ptr<T> basic_pool<Sharing>::make_local_rc() {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, on_one_thread, Sharing, on_failure::throws>(*m_core);
}
template <sharing Sharing>
template <bounded_array T>
POOLED_TRACKED_ENTRY local_rc_ptr<T>
basic_pool<Sharing>::make_local_rc(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, on_one_thread, Sharing, on_failure::throws>(*m_core, value);
}

template <sharing Sharing>
template <of_known_size T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::make_rc_for_overwrite() {
    if constexpr (std::is_array_v<T>) {
        POOLED_ACQUISITION(nullptr);
        return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::throws>(*m_core,
                                                                                        for_overwrite());
    } else {
        POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
        return make_rc<T>(for_overwrite());
    }
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
basic_pool<Sharing>::make_rc_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::throws>(*m_core, count,
                                                                                    for_overwrite());
}

template <sharing Sharing>
template <of_known_size T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>> basic_pool<Sharing>::try_make_rc_for_overwrite() {
    if constexpr (std::is_array_v<T>) {
        POOLED_ACQUISITION(nullptr);
        return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::marks_and_throws>(
            *m_core, for_overwrite());
    } else {
        POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
        return try_make_rc<T>(for_overwrite());
    }
}
template <sharing Sharing>
template <unbounded_array T>
POOLED_TRACKED_ENTRY rc_ptr_of<T, counting_of<Sharing>>
basic_pool<Sharing>::try_make_rc_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::make_array<T, counting_of<Sharing>, Sharing, on_failure::marks_and_throws>(
        *m_core, count, for_overwrite());
}

}  // namespace detail

// From the default pool. Throws std::bad_alloc, what the constructor throws, and std::length_error when the process has
// more than 16256 types of counted objects.
template <detail::not_array T, class... Args>
[[nodiscard]] POOLED_INLINE_ENTRY rc_ptr<T> make_rc(Args&&... args) {
    POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
    return detail::adopt_made<T, detail::among_threads>(detail::make_counted_by_default<std::remove_cv_t<T>>(
        detail::count_header::k_sole, std::forward<Args>(args)...));
}
template <detail::not_array T, class... Args>
[[nodiscard]] POOLED_INLINE_ENTRY local_rc_ptr<T> make_local_rc(Args&&... args) {
    POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
    return detail::adopt_made<T, detail::on_one_thread>(detail::make_counted_by_default<std::remove_cv_t<T>>(
        detail::count_header::k_sole, std::forward<Args>(args)...));
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_rc<T>(count);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc(std::size_t count,
                                                     std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_rc<T>(count, value);
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc() {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_rc<T>();
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_rc<T>(value);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_local_rc<T>(count);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count,
                                                                 std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_local_rc<T>(count, value);
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc() {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_local_rc<T>();
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_local_rc<T>(value);
}
template <detail::of_known_size T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc_for_overwrite() {
    if constexpr (std::is_array_v<T>) {
        POOLED_ACQUISITION(nullptr);
        return default_pool().make_rc_for_overwrite<T>();
    } else {
        POOLED_ACQUISITION(detail::is_only_weakly_counted<T>);
        return pooled::make_rc<T>(detail::for_overwrite());
    }
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return default_pool().make_rc_for_overwrite<T>(count);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
