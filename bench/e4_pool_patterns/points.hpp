// SPDX-License-Identifier: BSL-1.0
// The points of E4 that were published: the initial number of items, the step by which the pool grows, and the number of items
// created. The step identifies the point.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench::e4_pool_patterns {

struct point {
    std::size_t initial;
    std::size_t step;
    std::uint64_t items;
};

inline constexpr std::array k_bulk{point{1, 1, 100'000}, point{128, 64, 100'000}, point{1024, 1024, 100'000},
                                   point{16384, 16384, 100'000}};
inline constexpr std::array k_mixed{point{1024, 64, 100'000}, point{1024, 128, 100'000},
                                    point{524288, 1024, 1'000'000}};

template <std::size_t Size>
std::vector<std::size_t> steps(const std::array<point, Size>& points) {
    std::vector<std::size_t> found;
    for (const point& p : points)
        found.push_back(p.step);
    return found;
}

template <std::size_t Size>
point point_of(const std::array<point, Size>& points, std::size_t step) {
    for (const point& p : points)
        if (p.step == step) return p;
    throw std::invalid_argument("no point has the step " + std::to_string(step));
}

}  // namespace bench::e4_pool_patterns
