// SPDX-License-Identifier: BSL-1.0
#pragma once

// Retained bytes: what would be freed with an object, which is what it dominates in the graph of references. Semidominators are Lengauer's and
// Tarjan's (1979), dominators of them are found as by Georgiadis (Linear-Time Algorithms for Dominators, 2005: SEMI-NCA).
//
// A tree of types sums them up: a path is that of types down the tree of dominators, from a root; an object of a type that is on its
// path already belongs to that part of it, so lists and trees of objects have one part, however long they are.
// Complexity: O(edges × log blocks), without recursion, on graphs that were not made to be slow (SEMI-NCA's last step is quadratic in
// theory). Memory while it runs: one byte a block; 32 more and 4 an edge for those that have several holders, and for all but
// leaves of the trees of one holder each that lead to such blocks.

#include "leaks.hpp"

namespace poolheap {

struct type_tree {
    struct part {
        std::uint32_t parent = 0;  // of the first, all, itself; parents come first
        std::string name;
        std::size_t objects = 0;  // of its own
        std::size_t bytes = 0;
        std::size_t retained = 0;  // with all parts below it
    };
    std::vector<part> parts;
    std::unordered_map<std::string, std::size_t> by_type;  // bytes that each retains, by its name
};

[[nodiscard]] type_tree find_retained(graph const& in, leaks const& lost);

}  // namespace poolheap
