// SPDX-License-Identifier: BSL-1.0
#pragma once

// Retained bytes of a type: of the blocks that nothing would reach without all objects of its name, their own with them. So of a root.
//
//   keepers(b) = the roots and types of which each path to b has one before b
//              = the intersection of keepers(h) and the type of h over all holders h of b; of a root, the root alone
//
// A walk finds them for all blocks at once. Each block begins with all keepers, and loses those that a holder does not have, or is not;
// a block that loses some is looked at again. Invariants:
//
//   no block has less than its keepers    what it loses is missing on some path to it, by induction over the losses
//   at the end, no block has more         for then what a block has, each of its holders has, or is; so each path to the block has it, by
//                                         induction over the path's length
//
// Keepers are kept as a sequence, in the order of a path to the first block that has them; those who have the same by another path may have
// another order, which only says how the tree looks. A part of the tree is a sequence, with all blocks whose own begins so: these keepers and
// perhaps others keep them, and may keep more, elsewhere in the tree. A block belongs to the part that its own type ends, so lists and trees
// of objects have one part, however long they are.
//
// Complexity: O(edges × types on a shortest path) intersections, since a block is first met on such a path, and has fewer keepers after each
// change. In depth, it would first be met on a path through most types. An intersection takes as many steps as there are keepers behind
// those that both sequences begin with; those that were asked for last are remembered. Memory: a number of a sequence for each block, in as
// few bits as these numbers need, and some 50 bytes for each sequence and each other type that blocks of these keepers have.

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
