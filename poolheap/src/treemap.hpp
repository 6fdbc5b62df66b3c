// SPDX-License-Identifier: BSL-1.0
#pragma once

// Rectangles in proportion to sizes, as near to squares as possible (Bruls, Huizing and van Wijk: Squarified Treemaps, 2000).

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace poolheap {

struct rectangle {
    double left = 0, top = 0, width = 0, height = 0;
};

// One for each size; sizes are positive and descending.
inline std::vector<rectangle> squarified(std::span<double const> sizes, rectangle in) {
    double left_over = 0;
    for (double const size : sizes)
        left_over += size;
    std::vector<rectangle> found;
    for (std::size_t first = 0; first < sizes.size();) {
        // A row along the shorter side takes sizes for as long as its worst rectangle gets better.
        double const side = std::min(in.width, in.height);
        double const scale = in.width * in.height / left_over;
        double sum = 0, worst = 0;
        std::size_t last = first;
        while (last < sizes.size()) {
            double const with = sum + sizes[last];
            double const depth = with * scale / side;
            double const longest = sizes[first] * scale / depth, shortest = sizes[last] * scale / depth;
            double const ratio = std::max(longest / depth, depth / shortest);
            if (last > first && ratio > worst) break;
            worst = ratio, sum = with, ++last;
        }
        double const depth = sum * scale / side;
        bool const is_column = in.width >= in.height;
        double at = is_column ? in.top : in.left;
        for (std::size_t i = first; i < last; ++i) {
            double const length = sizes[i] * scale / depth;
            found.push_back(is_column ? rectangle{in.left, at, depth, length}
                                      : rectangle{at, in.top, length, depth});
            at += length;
        }
        if (is_column)
            in.left += depth, in.width -= depth;
        else
            in.top += depth, in.height -= depth;
        left_over -= sum;
        first = last;
    }
    return found;
}

}  // namespace poolheap
