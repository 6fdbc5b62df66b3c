// SPDX-License-Identifier: BSL-1.0
#pragma once

// The names of the standard's shared pointers, for rc_ptr: a program that says where its names come from changes these lines alone.
//
//   using std::make_shared;              using pooled::as_std::make_shared;
//   using std::shared_ptr;               using pooled::as_std::shared_ptr;
//
// What rc_ptr deliberately lacks does not compile: docs/counted-pointers.md has the list. As thread-safe as rc_ptr.

#include "pooled/make_shared.hpp"
#include "pooled/rc_from_this.hpp"
#include "pooled/rc_ptr.hpp"

POOLED_BEGIN_NAMESPACE
namespace as_std {

template <class T>
using shared_ptr = rc_ptr<T>;
template <class T>
using weak_ptr = weak_rc_ptr<T>;
using std::bad_weak_ptr;

// As std::make_shared; throws what pooled::make_rc throws.
template <class T, class... Args>
    requires detail::made_from<T, Args...>
[[nodiscard]] POOLED_ALWAYS_INLINE rc_ptr<T> make_shared(Args&&... args) {
    return pooled::make_rc<T>(std::forward<Args>(args)...);
}
template <detail::array_type T>
[[nodiscard]] rc_ptr<T> make_shared(detail::length_or_row<T> first) {
    return pooled::make_rc<T>(first);
}
template <detail::unbounded_array T>
[[nodiscard]] rc_ptr<T> make_shared(std::size_t count, detail::row_of<T> const& value) {
    return pooled::make_rc<T>(count, value);
}
template <class T, class... Count>
    requires detail::made_of_length<T, Count...>
[[nodiscard]] rc_ptr<T> make_shared_for_overwrite(Count... count) {
    return pooled::make_rc_for_overwrite<T>(count...);
}

// As std::enable_shared_from_this: shared_from_this() throws std::bad_weak_ptr if no shared_ptr owns the object.
template <class T>
class enable_shared_from_this : public enable_rc_from_this<T> {
public:
    [[nodiscard]] rc_ptr<T> shared_from_this() { return this->rc_from_this(); }
    [[nodiscard]] rc_ptr<T const> shared_from_this() const { return this->rc_from_this(); }
    [[nodiscard]] weak_rc_ptr<T> weak_from_this() noexcept { return this->weak_rc_from_this(); }
    [[nodiscard]] weak_rc_ptr<T const> weak_from_this() const noexcept { return this->weak_rc_from_this(); }
};

using pooled::const_pointer_cast;
using pooled::dynamic_pointer_cast;
using pooled::reinterpret_pointer_cast;
using pooled::static_pointer_cast;

}  // namespace as_std
POOLED_END_NAMESPACE
