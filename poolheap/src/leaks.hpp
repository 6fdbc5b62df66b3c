// SPDX-License-Identifier: BSL-1.0
#pragma once

// What nothing reaches, in groups. A group has a head, and the blocks that the head keeps:
//
//   a cycle   objects that own each other: Session::conn -> Connection::session -> Session
//   lost      one block that nothing owns: its last owner was overwritten, or never deleted it
//
// An owner of a shared object is a word that leads to its control block; a word that leads into the object is a plain pointer. Of the
// owners, some are weak: members says which, else the counts tell, since all references of one member are of one kind.
// Complexity: O(lost blocks and references between them), and one BFS a group.

#include "graph.hpp"

#include <nlohmann/json.hpp>

namespace poolheap {

struct leak_step {
    std::string type;
    std::uint64_t offset = 0;  // of the reference to the next step, as a user counts
    std::string member;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(leak_step, type, offset, member)
};

struct leak_group {
    std::size_t times = 0;
    std::size_t objects = 0;
    std::size_t bytes = 0;
    bool is_cycle = false;
    std::size_t length = 0;  // of the cycle
    // The objects of the cycle without the buffers between, at most k_longest_cycle; of a lost block: itself.
    std::vector<leak_step> cycle;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(leak_group, times, objects, bytes, is_cycle, length, cycle)
};

inline constexpr std::size_t k_longest_cycle = 200;

struct leaks {
    std::size_t objects = 0;
    std::size_t bytes = 0;
    std::vector<leak_group> groups;  // largest first
    std::vector<block_index> heads;  // one a group and time
};

[[nodiscard]] leaks find_leaks(graph const& in);

}  // namespace poolheap
