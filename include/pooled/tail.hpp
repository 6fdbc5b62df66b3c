// SPDX-License-Identifier: BSL-1.0
#pragma once

// tail(): the array that follows an object of make_shared_with_tail and its like. The objects are in smart/tailed.hpp: <span> is 17,000
// lines with libc++, which <pooled/pool.hpp> does not need.

#include "pooled/smart/tailed.hpp"

#include <span>

POOLED_BEGIN_NAMESPACE

// The elements that follow an object of make_shared_with_tail and its like. O(1).
template <class T, class Element>
[[nodiscard]] std::span<Element> tail(with_tail<T, Element>& object) noexcept {
    detail::tail_elements<Element>& elements = object;
    return {elements.pooled_tail_first(), elements.pooled_tail_count};
}
template <class T, class Element>
[[nodiscard]] std::span<Element const> tail(with_tail<T, Element> const& object) noexcept {
    return tail(const_cast<with_tail<T, Element>&>(object));
}

// The tail of the object that `p`, any pointer, points to; empty if `p` is null.
template <class Pointer>
    requires requires(Pointer const& p) { tail(*p); }
[[nodiscard]] auto tail(Pointer const& p) noexcept -> decltype(tail(*p)) {
    if (p == nullptr) return {};
    return tail(*p);
}

POOLED_END_NAMESPACE
