// SPDX-License-Identifier: BSL-1.0
#pragma once

// The tables that a terminal and a page have in common.

#include "report.hpp"

#include <functional>

namespace poolheap {

inline constexpr std::size_t k_rows = 20;

struct column {
    enum alignment { right, left, rest };  // the rest of the line is shortened, or wrapped
    std::string title;
    std::size_t width;
    std::function<std::string(json const&)> of;  // a row
    alignment align = right;
};

// Columns that would be the same in all rows are left out.
[[nodiscard]] std::vector<column> census_columns(report const& r);
[[nodiscard]] std::vector<column> holder_columns();
// "Session::conn → Connection::session → Session, with 2 objects that it keeps"
[[nodiscard]] std::string group_text(json const& group);

}  // namespace poolheap
