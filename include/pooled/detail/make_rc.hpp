// SPDX-License-Identifier: BSL-1.0
#pragma once

// How make_rc, make_local_rc and make_unique make objects: the object and 8 bytes of counts in one block; for an array, the elements,
// the counts and the length. T may be const.

#include "pooled/config.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/handle.hpp"
#include "pooled/detail/make_counted.hpp"
#include "pooled/detail/make_elements.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/fwd.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/unique_ptr.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Requires an object whose header says k_sole, or null.
template <class T, class Counting>
[[nodiscard]] POOLED_ALWAYS_INLINE rc_ptr_of<T, Counting> adopt_made(std::remove_cv_t<T>* object) noexcept {
    return rc_access::adopt<T, Counting>(handle<T>(object, object));
}

// A single object; null if the pool has none and OnFailure says so.
template <class T, on_failure OnFailure, initialise How, class Place, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE T* make_single(Place place, std::uint64_t counts, Args&&... args) {
    if constexpr (How == initialise::by_default)
        return detail::make_single<T, OnFailure, initialise::by_value>(place, counts, for_overwrite());
    else if constexpr (Place::k_is_default)
        return detail::make_counted_by_default<T>(counts, std::forward<Args>(args)...);
    else if constexpr (OnFailure == on_failure::throws)
        return detail::make_counted<T, Place::k_sharing>(place.core(), counts, std::forward<Args>(args)...);
    else
        return detail::try_make_counted<T, Place::k_sharing>(place.core(), counts,
                                                             std::forward<Args>(args)...);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
