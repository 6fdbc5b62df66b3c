// SPDX-License-Identifier: BSL-1.0
#pragma once

// A report: what the commands print, and what `diff` compares. docs/heap.md describes its JSON.

#include "retained.hpp"

#include <iosfwd>

namespace poolheap {

struct report {
    struct type_row {
        std::string type;
        std::string kind;
        std::string pool;
        std::size_t objects = 0;
        std::size_t bytes = 0;
        std::size_t weak_only = 0;  // objects that are destroyed, whose memory weak pointers keep
        std::size_t retained = 0;   // 0: not asked for
    };
    struct step {
        std::string type;
        std::uint64_t offset = 0;
        std::string member;
    };
    struct leak_row {
        std::size_t times = 0;
        std::size_t objects = 0;
        std::size_t bytes = 0;
        bool is_cycle = false;
        std::size_t length = 0;
        std::vector<step> cycle;
    };
    struct holder_row {
        std::string of;    // the type that is referred to
        std::string type;  // of the holder; empty: a root
        std::uint64_t offset = 0;
        std::string member;
        std::string root;
        std::string via;  // the buffer between; empty: none
        std::size_t references = 0;
        std::size_t bytes = 0;  // of what is referred to
    };

    struct lost {
        std::size_t objects = 0;
        std::size_t bytes = 0;
        std::vector<leak_row> groups;
    };

    std::string program;
    std::size_t objects = 0;
    std::size_t bytes = 0;
    std::size_t unnamed_bytes = 0;  // of blocks of which only the holder is known, or not even that
    std::vector<type_row> types;    // largest first, as all rows
    std::optional<lost> leaks;      // empty: not asked for
    std::vector<holder_row> holders;
    std::vector<std::string> notes;
    type_tree retained;  // no part: not asked for
};

struct report_options {
    bool leaks = true;
    bool holders = true;
    bool retained = false;
};

[[nodiscard]] report make_report(graph const& of, report_options const& options);
// Who refers to the blocks that are marked, sums for each member and root; of all blocks if there is no mark.
[[nodiscard]] std::vector<report::holder_row> find_holders(graph const& in,
                                                           std::vector<bool> const& marked = {});

void write_json(std::ostream& to, report const& r);
// Throws error for what is no report of this program.
[[nodiscard]] report read_json(std::string const& path);
void write_html(std::ostream& to, report const& r);
void write_folded(std::ostream& to, report const& r);

// Text of at most 80 columns; twenty rows, and how many were left out.
void print_summary(std::ostream& to, report const& r);
void print_census(std::ostream& to, report const& r);
void print_leaks(std::ostream& to, report::lost const& lost);
void print_holders(std::ostream& to, std::vector<report::holder_row> const& rows);
void print_notes(std::ostream& to, report const& r);
void print_diff(std::ostream& to, report const& before, report const& after);
// The same as JSON: the types and holders that changed, with what they grew by.
void write_diff_json(std::ostream& to, report const& before, report const& after);

}  // namespace poolheap
