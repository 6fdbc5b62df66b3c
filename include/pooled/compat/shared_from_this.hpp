// SPDX-License-Identifier: BSL-1.0
#pragma once

// Which owner shared_from_this() joins. An object that derives from std::enable_shared_from_this joins an owner only while it has
// none. A recycled object has two owners in turn: one std::shared_ptr while it is idle, another while it is in use:
//
//   idle   the pool's pointer                     keeps the object alive
//   out    the handle, whose deleter recycles     shared_from_this() must keep the object in use, so it must join this one
//
// The member that it uses is private. It is the class's only one, in every standard library and in the standard's own
// description, so it lies where the class lies; assertions below check that at compile time.

#include "pooled/config.hpp"

#include <concepts>
#include <memory>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail {

template <class Base>
[[nodiscard]] std::weak_ptr<Base>& owner_of(std::enable_shared_from_this<Base> const& object) noexcept {
    using holder = std::enable_shared_from_this<Base>;
    static_assert(std::is_standard_layout_v<holder> && sizeof(holder) == sizeof(std::weak_ptr<Base>) &&
                      alignof(holder) == alignof(std::weak_ptr<Base>),
                  "pooled: std::enable_shared_from_this of this standard library is not one std::weak_ptr");
    return *reinterpret_cast<std::weak_ptr<Base>*>(const_cast<holder*>(std::addressof(object)));
}

// Derives from one std::enable_shared_from_this, accessible and unambiguous: what std::shared_ptr asks for, too.
template <class T>
concept shares_from_this = requires(T const& object) { detail::owner_of(object); };

// From here on shared_from_this() shares `owner`. Requires an object that nobody else is using.
template <class T>
void let_share(std::shared_ptr<T> const& owner) noexcept {
    if constexpr (shares_from_this<T>)
        detail::owner_of(*owner) = std::const_pointer_cast<std::remove_cv_t<T>>(owner);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
