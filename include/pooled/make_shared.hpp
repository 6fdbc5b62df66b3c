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
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/make.hpp"
#include "pooled/fwd.hpp"
#include "pooled/pool.hpp"
#include "pooled/tail.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

// A new object, or array: `args` are its constructor's; a T[] takes its length, a T[N] nothing, or a value of which its elements are copies.
// `_for_overwrite`: default-initialised, a trivial T is not written at all. `_with_tail`: a T of `args`, followed in the same block by `count`
// objects of Element, value-initialised, or default-initialised (the T as well if there are no `args`); tail() gives them. Throws
// std::bad_alloc, what the constructor throws, std::bad_array_new_length for a length beyond the address space, and, unless it makes a
// std::shared_ptr, std::length_error when the process has more than 16256 types of counted objects.
POOLED_MAKE_FUNCTIONS(POOLED_INLINE_ENTRY, make_shared, std::shared_ptr, detail::by_shared,
                      detail::on_failure::throws, detail::in_default_pool());
POOLED_MAKE_COPIES(make_shared, std::shared_ptr, detail::by_shared, detail::on_failure::throws,
                   detail::in_default_pool());
POOLED_MAKE_FUNCTIONS(POOLED_INLINE_ENTRY, make_unique, unique_ptr, detail::by_unique,
                      detail::on_failure::throws, detail::in_default_pool());
POOLED_MAKE_FUNCTIONS(POOLED_INLINE_ENTRY, make_rc, rc_ptr, detail::by_rc<>, detail::on_failure::throws,
                      detail::in_default_pool());
POOLED_MAKE_COPIES(make_rc, rc_ptr, detail::by_rc<>, detail::on_failure::throws, detail::in_default_pool());
POOLED_MAKE_OBJECTS(POOLED_INLINE_ENTRY, make_local_rc, local_rc_ptr, detail::by_rc<detail::on_one_thread>,
                    detail::on_failure::throws, detail::in_default_pool());
POOLED_MAKE_COPIES(make_local_rc, local_rc_ptr, detail::by_rc<detail::on_one_thread>,
                   detail::on_failure::throws, detail::in_default_pool());

// pool.make_shared<T>(...) in the form of std::allocate_shared. The latter also works, with a pool_allocator, but its control
// block then holds the allocator: 8 bytes more. Throws what make_shared throws. The parameter has the pool's own type, not its
// base: an unqualified call with an argument from std also finds std::allocate_shared, which would then match better.
template <class T, detail::pool_type Pool, class... Args>
    requires detail::made_from<T, detail::by_shared, Args...>
[[nodiscard]] POOLED_INLINE_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, Args&&... args) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), std::forward<Args>(args)...);
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, std::size_t count) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), count);
}
template <detail::unbounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool, std::size_t count,
                                                                      detail::row_of<T> const& value) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), count, value);
}
template <detail::bounded_array T, detail::pool_type Pool>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared(Pool& pool,
                                                                      detail::row_of<T> const& value) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), value);
}
template <class T, detail::pool_type Pool, class... Count>
    requires detail::made_of_length<T, detail::by_shared, Count...>
[[nodiscard]] POOLED_TRACKED_ENTRY std::shared_ptr<T> allocate_shared_for_overwrite(Pool& pool,
                                                                                    Count... count) {
    return detail::make<detail::by_shared, T>(detail::pool_access::place(pool), count...,
                                              detail::for_overwrite());
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
