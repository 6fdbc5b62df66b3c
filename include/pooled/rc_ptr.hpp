// SPDX-License-Identifier: BSL-1.0
#pragma once

// rc_ptr<T>, local_rc_ptr<T>: counted pointers of 8 bytes. The counts lie in 8 bytes in front of the object, so T needs no
// base class, an upcast may go to any accessible base, and T may be incomplete wherever std::shared_ptr allows it.
//
//   rc_ptr         counts atomically; copies may be used and dropped in any thread, as with std::shared_ptr
//   local_rc_ptr   counts without atomics: all pointers to one object stay on one thread
//
// T may be an array, as with std::shared_ptr. A sole owner drops without a locked instruction. There is no aliasing constructor: a
// pointer always keeps the object it points into, so it needs no second address. Created by make_rc or make_local_rc, or from a
// pooled::unique_ptr without an allocation.
//
// One pointer is for one thread at a time; different pointers to one object are for any thread. O(1).

#include "pooled/config.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/counted_ptr.hpp"
#include "pooled/fwd.hpp"

#include <compare>
#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE {

namespace detail {

// A deleter that drops the owner it holds.
template <class Owner>
struct drop_owner {
    Owner owner;
    void operator()(void const volatile*) noexcept { owner.reset(); }
};

}  // namespace detail

// The members are those of detail::counted_ptr, in detail/counted_ptr.hpp.
template <class T>
class rc_ptr : public detail::counted_ptr<T, detail::among_threads> {
public:
    using detail::counted_ptr<T, detail::among_threads>::counted_ptr;

    constexpr rc_ptr() noexcept = default;
    rc_ptr(rc_ptr const&) noexcept = default;
    rc_ptr(rc_ptr&&) noexcept = default;
    rc_ptr& operator=(rc_ptr const&) noexcept = default;
    rc_ptr& operator=(rc_ptr&&) noexcept = default;
    POOLED_ALWAYS_INLINE ~rc_ptr() = default;  // GCC would call it

    template <class Other>
        requires std::convertible_to<Other&&, rc_ptr>
    rc_ptr& operator=(Other&& other) noexcept(std::is_nothrow_constructible_v<rc_ptr, Other>) {
        rc_ptr(std::forward<Other>(other)).swap(*this);
        return *this;
    }
    friend void swap(rc_ptr& a, rc_ptr& b) noexcept { a.swap(b); }
};

template <class T>
class local_rc_ptr : public detail::counted_ptr<T, detail::on_one_thread> {
public:
    using detail::counted_ptr<T, detail::on_one_thread>::counted_ptr;

    constexpr local_rc_ptr() noexcept = default;
    local_rc_ptr(local_rc_ptr const&) noexcept = default;
    local_rc_ptr(local_rc_ptr&&) noexcept = default;
    local_rc_ptr& operator=(local_rc_ptr const&) noexcept = default;
    local_rc_ptr& operator=(local_rc_ptr&&) noexcept = default;
    POOLED_ALWAYS_INLINE ~local_rc_ptr() = default;  // GCC would call it

    template <class Other>
        requires std::convertible_to<Other&&, local_rc_ptr>
    local_rc_ptr& operator=(Other&& other) noexcept(std::is_nothrow_constructible_v<local_rc_ptr, Other>) {
        local_rc_ptr(std::forward<Other>(other)).swap(*this);
        return *this;
    }
    friend void swap(local_rc_ptr& a, local_rc_ptr& b) noexcept { a.swap(b); }
};

// Observes an object without keeping it alive; keeps only its memory. Otherwise as rc_ptr; the members are those of
// detail::weak_counted_ptr.
template <class T>
class weak_rc_ptr : public detail::weak_counted_ptr<T, detail::among_threads> {
public:
    using detail::weak_counted_ptr<T, detail::among_threads>::weak_counted_ptr;

    template <class Other>
        requires std::convertible_to<Other&&, weak_rc_ptr>
    weak_rc_ptr& operator=(Other&& other) noexcept(std::is_nothrow_constructible_v<weak_rc_ptr, Other>) {
        weak_rc_ptr(std::forward<Other>(other)).swap(*this);
        return *this;
    }
    friend void swap(weak_rc_ptr& a, weak_rc_ptr& b) noexcept { a.swap(b); }
};

template <class T>
class weak_local_rc_ptr : public detail::weak_counted_ptr<T, detail::on_one_thread> {
public:
    using detail::weak_counted_ptr<T, detail::on_one_thread>::weak_counted_ptr;

    template <class Other>
        requires std::convertible_to<Other&&, weak_local_rc_ptr>
    weak_local_rc_ptr&
    operator=(Other&& other) noexcept(std::is_nothrow_constructible_v<weak_local_rc_ptr, Other>) {
        weak_local_rc_ptr(std::forward<Other>(other)).swap(*this);
        return *this;
    }
    friend void swap(weak_local_rc_ptr& a, weak_local_rc_ptr& b) noexcept { a.swap(b); }
};

// Deduction as for std::shared_ptr.
template <class T>
rc_ptr(weak_rc_ptr<T>) -> rc_ptr<T>;
template <class T>
rc_ptr(unique_ptr<T>) -> rc_ptr<T>;
template <class T>
local_rc_ptr(weak_local_rc_ptr<T>) -> local_rc_ptr<T>;
template <class T>
local_rc_ptr(unique_ptr<T>) -> local_rc_ptr<T>;
template <class T>
weak_rc_ptr(rc_ptr<T>) -> weak_rc_ptr<T>;
template <class T>
weak_local_rc_ptr(local_rc_ptr<T>) -> weak_local_rc_ptr<T>;

template <class T, class Other, class Counting>
[[nodiscard]] bool operator==(detail::counted_ptr<T, Counting> const& a,
                              detail::counted_ptr<Other, Counting> const& b) noexcept {
    return a.get() == b.get();
}
template <class T, class Other, class Counting>
[[nodiscard]] std::strong_ordering operator<=>(detail::counted_ptr<T, Counting> const& a,
                                               detail::counted_ptr<Other, Counting> const& b) noexcept {
    return std::compare_three_way()(a.get(), b.get());
}
template <class T, class Counting>
[[nodiscard]] bool operator==(detail::counted_ptr<T, Counting> const& a, std::nullptr_t) noexcept {
    return !a;
}
template <class T, class Counting>
[[nodiscard]] std::strong_ordering operator<=>(detail::counted_ptr<T, Counting> const& a,
                                               std::nullptr_t) noexcept {
    return std::compare_three_way()(a.get(), static_cast<std::remove_extent_t<T>*>(nullptr));
}

template <class Char, class Traits, class T, class Counting>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out,
                                             detail::counted_ptr<T, Counting> const& p) {
    return out << p.get();
}

// The casts of the language, for owners. A moved-from pointer is empty unless the cast fails.
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
static_pointer_cast(detail::counted_ptr<Other, Counting> p) noexcept {
    auto* const seen = static_cast<std::remove_extent_t<T>*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
const_pointer_cast(detail::counted_ptr<Other, Counting> p) noexcept {
    auto* const seen = const_cast<std::remove_extent_t<T>*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
dynamic_pointer_cast(detail::counted_ptr<Other, Counting> const& p) noexcept {
    T* const seen = dynamic_cast<T*>(p.get());
    return seen == nullptr ? nullptr
                           : detail::rc_access::cast<T>(detail::counted_ptr<Other, Counting>(p), seen);
}
template <class T, class Other, class Counting>
[[nodiscard]] detail::rc_ptr_of<T, Counting>
dynamic_pointer_cast(detail::counted_ptr<Other, Counting>&& p) noexcept {
    T* const seen = dynamic_cast<T*>(p.get());
    return detail::rc_access::cast<T>(std::move(p), seen);
}

static_assert(sizeof(rc_ptr<int>) == 8 && sizeof(weak_rc_ptr<int>) == 8 && sizeof(local_rc_ptr<int>) == 8);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE

template <class T>
struct std::hash<pooled::rc_ptr<T>> {
    [[nodiscard]] std::size_t operator()(pooled::rc_ptr<T> const& p) const noexcept {
        return std::hash<std::remove_extent_t<T>*>()(p.get());
    }
};
template <class T>
struct std::hash<pooled::local_rc_ptr<T>> {
    [[nodiscard]] std::size_t operator()(pooled::local_rc_ptr<T> const& p) const noexcept {
        return std::hash<std::remove_extent_t<T>*>()(p.get());
    }
};
