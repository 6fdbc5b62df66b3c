// SPDX-License-Identifier: BSL-1.0
#pragma once

// The few algorithms that the library uses, and a span: what <algorithm> and <span> would cost each source is in docs/dependencies.md. The
// builtin of memmove stands for <cstring>, another 220 preprocessed lines.

#include "pooled/config.hpp"

POOLED_BEGIN_DETAIL

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

template <class Range, class Predicate>
[[nodiscard]] constexpr bool any_of(Range const& range, Predicate predicate) {
    for (auto const& one : range)
        if (predicate(one)) return true;
    return false;
}

// A view of contiguous elements.
template <class T>
class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T* data, std::size_t size) noexcept : m_data(data), m_size(size) {}
    template <class Range>
        requires requires(Range& range) { span(range.data(), range.size()); }
    constexpr span(Range&& range) noexcept : span(range.data(), range.size()) {}  // NOLINT: ranges convert

    [[nodiscard]] constexpr T* data() const noexcept { return m_data; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return m_size; }
    [[nodiscard]] constexpr bool empty() const noexcept { return m_size == 0; }
    [[nodiscard]] constexpr T* begin() const noexcept { return m_data; }
    [[nodiscard]] constexpr T* end() const noexcept { return m_data + m_size; }
    [[nodiscard]] constexpr T& front() const noexcept { return *m_data; }
    // Requires i < size().
    [[nodiscard]] constexpr T& operator[](std::size_t i) const noexcept { return m_data[i]; }

private:
    T* m_data = nullptr;
    std::size_t m_size = 0;
};

POOLED_END_DETAIL
