// SPDX-License-Identifier: BSL-1.0
#pragma once

// to_shared: a std::shared_ptr that shares the object of an rc_ptr, for interfaces that take one.
//
//   std::shared_ptr<Packet> s = pooled::to_shared(std::move(r));      // both count: the object lives until the last pointer of either kind is gone
//
// The object stays where it is. The std::shared_ptr's own counts take a small block of the default pool: the standard library does
// not know the word where the rc_ptr counts. There is no conversion back, since an object of make_shared has no such word.

#include "pooled/allocator.hpp"
#include "pooled/rc_ptr.hpp"

POOLED_BEGIN_NAMESPACE

namespace detail {

template <class T, class Owner>
[[nodiscard]] std::shared_ptr<T> share(Owner owner) {
    auto* const object = owner.get();
    if (object == nullptr) return {};
    auto drop = [kept = std::move(owner)](void const volatile*) mutable noexcept { kept.reset(); };
    return std::shared_ptr<T>(object, std::move(drop), allocator<std::byte>());
}

}  // namespace detail

// Empty for an empty pointer. May throw std::bad_alloc; the argument then drops the object. As thread-safe as its argument: the
// result for a local_rc_ptr stays on its thread. O(1).
template <class T, class Counting>
[[nodiscard]] std::shared_ptr<T> to_shared(detail::counted_ptr<T, Counting> owner) {
    return detail::share<T>(std::move(owner));
}
// As a T: to_shared<Base>(pointer to a derived class).
template <class T, class Other, class Counting>
    requires std::convertible_to<Other*, T*> && (!std::same_as<Other, T>)
[[nodiscard]] std::shared_ptr<T> to_shared(detail::counted_ptr<Other, Counting> owner) {
    return detail::share<T>(std::move(owner));
}

POOLED_END_NAMESPACE
