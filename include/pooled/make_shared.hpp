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

#include "pooled/fwd.hpp"
#include "pooled/pool.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/smart/make.hpp"
#include "pooled/tail.hpp"

POOLED_BEGIN_NAMESPACE

// A new object, or array: `args` are its constructor's; a T[] takes its length, a T[N] nothing. Throws std::bad_alloc, what the constructor
// throws, std::bad_array_new_length for a length beyond the address space, and, unless it makes a std::shared_ptr, std::length_error when
// the process has more than 16256 types of counted objects.
template <class T, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> make_shared(Args&&... args) {
    // make() does the same, and reports errors; this costs a compiler 2 ms less for each type (GCC 12), of 40.
    if constexpr (!std::is_array_v<T> && __is_constructible(T, Args...))
        return std::allocate_shared<T>(detail::std_block(), std::forward<Args>(args)...);
    else
        return detail::make<detail::by_shared, T>(detail::in_default_pool(), std::forward<Args>(args)...);
}
template <class T, class... Args>
    requires detail::made_from<T, Args...> && (!detail::bounded_array<T>)
[[nodiscard]] POOLED_ALWAYS_INLINE unique_ptr<T> make_unique(Args&&... args) {
    return detail::make<detail::by_unique, T>(detail::in_default_pool(), std::forward<Args>(args)...);
}
template <class T, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_ALWAYS_INLINE rc_ptr<T> make_rc(Args&&... args) {
    return detail::make<detail::by_rc<>, T>(detail::in_default_pool(), std::forward<Args>(args)...);
}
template <class T, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_ALWAYS_INLINE local_rc_ptr<T> make_local_rc(Args&&... args) {
    return detail::make<detail::by_rc<detail::on_one_thread>, T>(detail::in_default_pool(),
                                                                 std::forward<Args>(args)...);
}
template <detail::array_type T>
[[nodiscard]] std::shared_ptr<T> make_shared(detail::length_or_row<T> first) {
    return detail::make<detail::by_shared, T>(detail::in_default_pool(), first);
}
template <detail::unbounded_array T>
[[nodiscard]] unique_ptr<T> make_unique(std::size_t count) {
    return detail::make<detail::by_unique, T>(detail::in_default_pool(), count);
}
template <detail::array_type T>
[[nodiscard]] rc_ptr<T> make_rc(detail::length_or_row<T> first) {
    return detail::make<detail::by_rc<>, T>(detail::in_default_pool(), first);
}
template <detail::array_type T>
[[nodiscard]] local_rc_ptr<T> make_local_rc(detail::length_or_row<T> first) {
    return detail::make<detail::by_rc<detail::on_one_thread>, T>(detail::in_default_pool(), first);
}

// An array of copies of `value`. Throws the same.
template <detail::unbounded_array T>
[[nodiscard]] std::shared_ptr<T> make_shared(std::size_t count, detail::row_of<T> const& value) {
    return detail::make<detail::by_shared, T>(detail::in_default_pool(), count, value);
}
template <detail::unbounded_array T>
[[nodiscard]] rc_ptr<T> make_rc(std::size_t count, detail::row_of<T> const& value) {
    return detail::make<detail::by_rc<>, T>(detail::in_default_pool(), count, value);
}
template <detail::unbounded_array T>
[[nodiscard]] local_rc_ptr<T> make_local_rc(std::size_t count, detail::row_of<T> const& value) {
    return detail::make<detail::by_rc<detail::on_one_thread>, T>(detail::in_default_pool(), count, value);
}

// Default-initialised: a trivial T is not written at all. Throws the same.
template <class T, class... Count>
    requires detail::made_of_length<T, Count...>
[[nodiscard]] std::shared_ptr<T> make_shared_for_overwrite(Count... count) {
    return detail::make<detail::by_shared, T>(detail::in_default_pool(), count..., detail::for_overwrite());
}
template <class T, class... Count>
    requires detail::made_of_length<T, Count...> && (!detail::bounded_array<T>)
[[nodiscard]] unique_ptr<T> make_unique_for_overwrite(Count... count) {
    return detail::make<detail::by_unique, T>(detail::in_default_pool(), count..., detail::for_overwrite());
}
template <class T, class... Count>
    requires detail::made_of_length<T, Count...>
[[nodiscard]] rc_ptr<T> make_rc_for_overwrite(Count... count) {
    return detail::make<detail::by_rc<>, T>(detail::in_default_pool(), count..., detail::for_overwrite());
}

// A T of `args`, followed in the same block by `count` objects of Element: value-initialised, or default-initialised (the T as well if there are
// no `args`). tail() gives them. Throws std::bad_array_new_length if the tail exceeds the address space, std::bad_alloc, and what the
// constructors throw.
template <class T, class Element, class... Args>
[[nodiscard]] std::shared_ptr<detail::tailed<T, Element>> make_shared_with_tail(std::size_t count,
                                                                                Args&&... args) {
    return detail::make<detail::by_shared, detail::tailed<T, Element>>(
        detail::in_default_pool(), detail::tail_of<Element>(count), std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] std::shared_ptr<detail::tailed<T, Element>>
make_shared_with_tail_for_overwrite(std::size_t count, Args&&... args) {
    return detail::make<detail::by_shared, detail::tailed<T, Element>>(
        detail::in_default_pool(), detail::raw_tail<Element>(count), std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] unique_ptr<detail::tailed<T, Element>> make_unique_with_tail(std::size_t count,
                                                                           Args&&... args) {
    return detail::make<detail::by_unique, detail::tailed<T, Element>>(
        detail::in_default_pool(), detail::tail_of<Element>(count), std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] unique_ptr<detail::tailed<T, Element>> make_unique_with_tail_for_overwrite(std::size_t count,
                                                                                         Args&&... args) {
    return detail::make<detail::by_unique, detail::tailed<T, Element>>(
        detail::in_default_pool(), detail::raw_tail<Element>(count), std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] rc_ptr<detail::tailed<T, Element>> make_rc_with_tail(std::size_t count, Args&&... args) {
    return detail::make<detail::by_rc<>, detail::tailed<T, Element>>(
        detail::in_default_pool(), detail::tail_of<Element>(count), std::forward<Args>(args)...);
}
template <class T, class Element, class... Args>
[[nodiscard]] rc_ptr<detail::tailed<T, Element>> make_rc_with_tail_for_overwrite(std::size_t count,
                                                                                 Args&&... args) {
    return detail::make<detail::by_rc<>, detail::tailed<T, Element>>(
        detail::in_default_pool(), detail::raw_tail<Element>(count), std::forward<Args>(args)...);
}

// pool.make_shared<T>(...) in the form of std::allocate_shared. The latter also works, with a pool_allocator, but its control
// block then holds the allocator: 8 bytes more. Throws what make_shared throws. The parameter has the pool's own type, not its
// base: an unqualified call with an argument from std also finds std::allocate_shared, which would then match better.
template <class T, detail::pool_type Pool, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> allocate_shared(Pool& pool, Args&&... args) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), std::forward<Args>(args)...);
}
template <detail::array_type T, detail::pool_type Pool>
[[nodiscard]] std::shared_ptr<T> allocate_shared(Pool& pool, detail::length_or_row<T> first) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), first);
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] std::shared_ptr<T> allocate_shared(Pool& pool, std::size_t count,
                                                 detail::row_of<T> const& value) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), count, value);
}
template <class T, detail::pool_type Pool, class... Count>
    requires detail::made_of_length<T, Count...>
[[nodiscard]] std::shared_ptr<T> allocate_shared_for_overwrite(Pool& pool, Count... count) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), count...,
                                              detail::for_overwrite());
}

POOLED_END_NAMESPACE
