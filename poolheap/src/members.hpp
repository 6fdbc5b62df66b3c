// SPDX-License-Identifier: BSL-1.0
#pragma once

// Names of members, by debug information: (Session, 24) is `conn`. Goes through base classes, nested classes and arrays; stops at a class
// of the standard library or of pooled, so a std::shared_ptr's two words have one name. Without debug information it is "+24".
//
// A pointer's type also says what a block is that says nothing about itself: elements of a vector, nodes of a map, a plain object.
// Whoever walks references from typed blocks asks pointee() for each block that is a buffer, until nothing changes.

#include "types.hpp"

namespace poolheap {

enum class strength : std::uint8_t {
    unknown,
    strong,  // a smart pointer or container that owns what it leads to
    weak,    // std::weak_ptr and its like, also of enable_shared_from_this
    raw,     // a pointer or reference
};

struct member {
    std::string name;
    strength how = strength::unknown;
};

class members {
public:
    members(symbols const& names, type_namer& types);
    ~members();
    members(members const&) = delete;
    members& operator=(members const&) = delete;

    // Of a word in a block of this type; the offset counts from the block's begin.
    [[nodiscard]] member const& at(type_id_t holder, std::uint64_t offset);
    // From now on, `name` is that of a global which debug information alone knows.
    void know_variable(std::string const& name, Dwarf_Die variable);
    // Of a word in a global: `name` is its symbol's.
    [[nodiscard]] member const& at_global(std::string const& name, std::uint64_t offset);
    // The type of the block to which the pointer at this place leads; empty: not known.
    [[nodiscard]] std::optional<type_id_t> pointee(type_id_t holder, std::uint64_t offset);
    [[nodiscard]] std::optional<type_id_t> global_pointee(std::string const& name, std::uint64_t offset);
    // Whether any module has debug information.
    [[nodiscard]] bool has_debug_information() const;

private:
    struct state;
    std::unique_ptr<state> m_state;
};

}  // namespace poolheap
