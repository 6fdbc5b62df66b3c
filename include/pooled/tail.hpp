// SPDX-License-Identifier: BSL-1.0
#pragma once

// tail(object), tail(pointer): the elements that follow an object of make_shared_with_tail and its like, as a std::span. O(1).

#include "pooled/config.hpp"
#include "pooled/detail/make_with_tail.hpp"
#include "pooled/fwd.hpp"

#include <span>

namespace pooled::inline POOLED_ABI_NAMESPACE {

template <class T, class Element>
[[nodiscard]] std::span<Element> tail(with_tail<T, Element>& object) noexcept {
    detail::tail_elements<Element>& elements = object;
    return {detail::first_of(elements), elements.pooled_tail_count};
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

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
