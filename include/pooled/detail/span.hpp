// SPDX-License-Identifier: BSL-1.0
#pragma once

// A view of contiguous elements. It replaces std::span, whose header includes all of ranges: 20,000 lines with libc++.

#include "pooled/config.hpp"

#include <cstddef>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

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
    // Requires skipped <= size().
    [[nodiscard]] constexpr span subspan(std::size_t skipped) const noexcept {
        return {m_data + skipped, m_size - skipped};
    }

private:
    T* m_data = nullptr;
    std::size_t m_size = 0;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
