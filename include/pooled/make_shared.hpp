// SPDX-License-Identifier: BSL-1.0
#pragma once

// The functions that make objects in the process-wide pool: make_shared, make_unique, make_rc and make_local_rc, with their
// _for_overwrite and _with_tail forms. Those of a pool are its members.
//
//   make_shared<T>(arguments...)
//   make_shared<T[]>(count)   make_shared<T[]>(count, value)   make_shared<T[N]>()   make_shared<T[N]>(value)
//   make_shared_with_tail<T, Element>(count, arguments of T...)
//
// Thread-safe.

#include "pooled/config.hpp"
#include "pooled/detail/maker.hpp"
#include "pooled/fwd.hpp"
#include "pooled/pool.hpp"
#include "pooled/tail.hpp"

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

// A new object, or array. Throws std::bad_alloc, what the constructor throws, and, unless it makes a std::shared_ptr, std::length_error
// when the process has more than 16256 types of counted objects.
template <detail::of_known_size T, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_INLINE_ENTRY std::shared_ptr<T> make_shared(Args&&... args) {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::standard_control_block::is_only_weak);
    return detail::by_shared::template make<T>(detail::default_place(), std::forward<Args>(args)...);
}
template <detail::not_array T, class... Args>
[[nodiscard]] POOLED_INLINE_ENTRY unique_ptr<T> make_unique(Args&&... args) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_unique::template make<T>(detail::default_place(), std::forward<Args>(args)...);
}
template <detail::of_known_size T, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_INLINE_ENTRY rc_ptr<T> make_rc(Args&&... args) {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::is_only_weakly_counted<T>);
    return detail::by_rc<detail::among_threads>::template make<T>(detail::default_place(),
                                                                  std::forward<Args>(args)...);
}
template <detail::of_known_size T, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_INLINE_ENTRY local_rc_ptr<T> make_local_rc(Args&&... args) {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::is_only_weakly_counted<T>);
    return detail::by_rc<detail::on_one_thread>::template make<T>(detail::default_place(),
                                                                  std::forward<Args>(args)...);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_shared::template make<T>(detail::default_place(), count);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::size_t count,
                                                                  std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_shared::template make<T>(detail::default_place(), count, value);
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_shared::template make<T>(detail::default_place(), value);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_unique::template make<T>(detail::default_place(), count);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_rc<detail::among_threads>::template make<T>(detail::default_place(), count);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc(std::size_t count,
                                                     std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_rc<detail::among_threads>::template make<T>(detail::default_place(), count, value);
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_rc<detail::among_threads>::template make<T>(detail::default_place(), value);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_rc<detail::on_one_thread>::template make<T>(detail::default_place(), count);
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::size_t count,
                                                                 std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_rc<detail::on_one_thread>::template make<T>(detail::default_place(), count, value);
}
template <detail::bounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY local_rc_ptr<T> make_local_rc(std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_rc<detail::on_one_thread>::template make<T>(detail::default_place(), value);
}

// Default-initialised: a trivial T is not written at all. Throws the same.
template <detail::of_known_size T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared_for_overwrite() {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::standard_control_block::is_only_weak);
    return detail::by_shared::template make<T, detail::on_failure::throws, detail::initialise::by_default>(
        detail::default_place());
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> make_shared_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_shared::template make<T, detail::on_failure::throws, detail::initialise::by_default>(
        detail::default_place(), count);
}
template <detail::not_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique_for_overwrite() {
    POOLED_ACQUISITION(nullptr);
    return detail::by_unique::template make<T, detail::on_failure::throws, detail::initialise::by_default>(
        detail::default_place());
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<T> make_unique_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_unique::template make<T, detail::on_failure::throws, detail::initialise::by_default>(
        detail::default_place(), count);
}
template <detail::of_known_size T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc_for_overwrite() {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::is_only_weakly_counted<T>);
    return detail::by_rc<detail::among_threads>::template make<T, detail::on_failure::throws,
                                                               detail::initialise::by_default>(
        detail::default_place());
}
template <detail::unbounded_array T>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<T> make_rc_for_overwrite(std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_rc<detail::among_threads>::template make<T, detail::on_failure::throws,
                                                               detail::initialise::by_default>(
        detail::default_place(), count);
}

// A T of `args`, followed in the same block by `count` objects of Element: value-initialised, or default-initialised (the T as well if there are
// no `args`). tail() gives them. Throws std::bad_array_new_length if the tail exceeds the address space, std::bad_alloc, and what the
// constructors throw.
template <class T, class Element, class... Args>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<detail::tailed<T, Element>>
make_shared_with_tail(std::size_t count, Args&&... args) {
    POOLED_ACQUISITION(detail::standard_control_block::is_only_weak);
    return detail::by_shared::template make_with_tail<T, Element>(detail::default_place(), count,
                                                                  std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<detail::tailed<T, Element>>
make_shared_with_tail_for_overwrite(std::size_t count, Args&&... args) {
    POOLED_ACQUISITION(detail::standard_control_block::is_only_weak);
    return detail::by_shared::template make_with_tail<T, Element, detail::on_failure::throws,
                                                      detail::initialise::by_default>(
        detail::default_place(), count, std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<detail::tailed<T, Element>>
make_unique_with_tail(std::size_t count, Args&&... args) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_unique::template make_with_tail<T, Element>(detail::default_place(), count,
                                                                  std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] POOLED_TRACKED_ENTRY unique_ptr<detail::tailed<T, Element>>
make_unique_with_tail_for_overwrite(std::size_t count, Args&&... args) {
    POOLED_ACQUISITION(nullptr);
    return detail::by_unique::template make_with_tail<T, Element, detail::on_failure::throws,
                                                      detail::initialise::by_default>(
        detail::default_place(), count, std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<detail::tailed<T, Element>> make_rc_with_tail(std::size_t count,
                                                                                        Args&&... args) {
    POOLED_ACQUISITION(detail::is_only_weakly_counted<detail::tailed<T, Element>>);
    return detail::by_rc<detail::among_threads>::template make_with_tail<T, Element>(
        detail::default_place(), count, std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] POOLED_TRACKED_ENTRY rc_ptr<detail::tailed<T, Element>>
make_rc_with_tail_for_overwrite(std::size_t count, Args&&... args) {
    POOLED_ACQUISITION(detail::is_only_weakly_counted<detail::tailed<T, Element>>);
    return detail::by_rc<detail::among_threads>::template make_with_tail<
        T, Element, detail::on_failure::throws, detail::initialise::by_default>(
        detail::default_place(), count, std::forward<Args>(args)...);
}

// pool.make_shared<T>(...) in the form of std::allocate_shared. The latter also works, with a pool_allocator, but its control
// block then holds the allocator: 8 bytes more. Throws what make_shared throws. The parameter has the pool's own type, not its
// base: an unqualified call with an argument from std also finds std::allocate_shared, which would then match better.
template <detail::not_array T, detail::pool_type Pool, class... Args>
[[nodiscard]] POOLED_INLINE_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, Args&&... args) {
    POOLED_ACQUISITION(detail::standard_control_block::is_only_weak);
    return pool.template make_shared<T>(std::forward<Args>(args)...);
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>(count);
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, std::size_t count,
                                                                      std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>(count, value);
}
template <detail::bounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>();
}
template <detail::bounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool,
                                                                      std::remove_extent_t<T> const& value) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared<T>(value);
}

template <detail::of_known_size T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared_for_overwrite(Pool& pool) {
    POOLED_ACQUISITION(std::is_array_v<T> ? nullptr : detail::standard_control_block::is_only_weak);
    return pool.template make_shared_for_overwrite<T>();
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared_for_overwrite(Pool& pool,
                                                                                    std::size_t count) {
    POOLED_ACQUISITION(nullptr);
    return pool.template make_shared_for_overwrite<T>(count);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
