// SPDX-License-Identifier: BSL-1.0
#pragma once

// destroy_in_place<T>: set it for a type whose destructor must have run when its pointer is reset or goes out of scope, in every
// pool and however deep the drop is: guards, locks, anything that another object points back to.
//
//   template <>
//   inline constexpr bool pooled::destroy_in_place<Guard> = true;
//
// Such an object is never deferred, in any mode. The drops in its destructor nest, so a list of such objects takes stack space
// for each node. Specialise it before the first pointer to T is made; the object's own type counts, not a base's.

#include "pooled/config.hpp"

POOLED_BEGIN_NAMESPACE

template <class T>
inline constexpr bool destroy_in_place = false;

namespace detail {

// Whether an object of this type may be deferred. One with a trivial destructor owns nothing and never is.
template <class T>
inline constexpr bool k_is_deferrable_type =
    !std::is_trivially_destructible_v<T> && !destroy_in_place<std::remove_cv_t<T>>;

}  // namespace detail

POOLED_END_NAMESPACE
