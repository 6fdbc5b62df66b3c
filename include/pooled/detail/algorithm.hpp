// SPDX-License-Identifier: BSL-1.0
#pragma once

// The few algorithms that the library uses. Including <algorithm> for them would add 7,800 preprocessed lines (GCC 12). The
// builtin of memmove stands for <cstring>, another 220.

#include "pooled/config.hpp"

#include <cstddef>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// The first of equal values, as std::max and std::min return.
template <class T>
[[nodiscard]] constexpr T const& smaller(T const& a, T const& b) noexcept {
    return b < a ? b : a;
}
template <class T>
[[nodiscard]] constexpr T const& larger(T const& a, T const& b) noexcept {
    return a < b ? b : a;
}
// Requires low <= high.
template <class T>
[[nodiscard]] constexpr T const& clamp(T const& value, T const& low, T const& high) noexcept {
    return value < low ? low : high < value ? high : value;
}

// The ranges may overlap. O(n).
template <class T>
    requires std::is_trivially_copyable_v<T>
inline void copy_n(T const* from, std::size_t count, T* to) noexcept {
    if (count != 0) __builtin_memmove(to, from, count * sizeof(T));
}

template <class T>
constexpr void fill_n(T* to, std::size_t count, T const& value) noexcept {
    for (std::size_t i = 0; i != count; ++i)
        to[i] = value;
}

template <class Range, class Predicate>
[[nodiscard]] constexpr bool any_of(Range const& range, Predicate predicate) {
    for (auto const& one : range)
        if (predicate(one)) return true;
    return false;
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
