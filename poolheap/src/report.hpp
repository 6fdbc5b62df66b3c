// SPDX-License-Identifier: BSL-1.0
#pragma once

// A report: one JSON document, which docs/heap.md describes. Text, page and comparison are drawn from it; `diff` also reads it from a file.

#include "retained.hpp"

#include <nlohmann/json.hpp>

#include <iosfwd>

namespace poolheap {

using nlohmann::json;

struct report {
    json all;            // rows are largest first; "leaks" is absent if not asked for
    type_tree retained;  // no part: not asked for
};

struct report_options {
    bool leaks = true;
    bool holders = true;
    bool retained = false;
};

[[nodiscard]] report make_report(graph& of, report_options const& options);
// Rows of those who refer to the blocks that are marked, called `what`, sums for each member and root; of all blocks if there is no mark.
[[nodiscard]] json find_holders(graph& in, std::vector<bool> const& marked = {},
                                std::string const& what = {});

void write_json(std::ostream& to, json const& all);
// Throws error for what is no report of this program.
[[nodiscard]] json read_json(std::istream& from, std::string const& path);
// Of the bytes, rounded down.
[[nodiscard]] std::size_t typed_percent(json const& all);
// What grew from one report to another: types and holders, with what they grew by.
[[nodiscard]] json find_growth(json const& before, json const& after);

// Text of at most 80 columns; twenty rows, and how many were left out.
void print_census(std::ostream& to, report const& r);
void print_leaks(std::ostream& to, report const& r);
void print_holders(std::ostream& to, report const& r);
void print_notes(std::ostream& to, report const& r);
void print_growth(std::ostream& to, json const& grown);
// One page; and the collapsed stacks that speedscope and flame graphs read.
void write_html(std::ostream& to, report const& r);
void write_folded(std::ostream& to, report const& r);

inline constexpr std::size_t k_rows = 20, k_width = 80;
// "Session::conn → Connection::session → Session, with 2 objects that it keeps"
[[nodiscard]] std::string group_text(json const& group);
// Of a row of holders, or of a path: "Session::conn", "global g_table.first". The type takes `most` columns.
[[nodiscard]] std::string holder_place(json const& row, std::size_t most = ~std::size_t{0});

// "20,400"; "1 object", "20,400 objects"; "9.8 MiB"; columns of UTF-8 text; text shortened in the middle.
[[nodiscard]] std::string with_commas(std::size_t n);
[[nodiscard]] std::string plural(std::size_t n, std::string const& one);
[[nodiscard]] std::string in_bytes(std::size_t n);
[[nodiscard]] std::size_t columns(std::string_view text);
[[nodiscard]] std::string fit(std::string_view text, std::size_t width = k_width);

}  // namespace poolheap
