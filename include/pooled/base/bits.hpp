// SPDX-License-Identifier: BSL-1.0
#pragma once

// Rounding and checked arithmetic on sizes and alignments. Pure functions, all constexpr and noexcept.

#include "pooled/config.hpp"

#include <limits>  // numeric_limits

POOLED_BEGIN_DETAIL

inline constexpr std::size_t k_size_max = (std::numeric_limits<std::size_t>::max)();

// `value` up to the next multiple of `unit`, a power of two. Requires that the result fits.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
    return (value + unit - 1) & ~(unit - 1);
}

[[nodiscard]] constexpr std::size_t round_down(std::size_t value, std::size_t unit) noexcept {
    return value & ~(unit - 1);
}

[[nodiscard]] constexpr bool is_power_of_two(std::size_t value) noexcept {
    return value != 0 && (value & (value - 1)) == 0;
}

// The sum, or k_size_max when it does not fit: no request of that size can ever be met.
[[nodiscard]] constexpr std::size_t saturating_add(std::size_t a, std::size_t b) noexcept {
    return a > k_size_max - b ? k_size_max : a + b;
}

// The difference, or 0 when it would be negative.
[[nodiscard]] constexpr std::uint64_t saturating_subtract(std::uint64_t a, std::uint64_t b) noexcept {
    return a > b ? a - b : 0;
}

// The product, or k_size_max when it does not fit.
[[nodiscard]] constexpr std::size_t saturating_multiply(std::size_t a, std::size_t b) noexcept {
    return b != 0 && a > k_size_max / b ? k_size_max : a * b;
}

[[nodiscard]] inline std::uintptr_t address_of(void const volatile* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p);
}

POOLED_END_DETAIL
