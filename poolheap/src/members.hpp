// SPDX-License-Identifier: BSL-1.0
#pragma once

// Names of members, by debug information: (Session, 24) is `conn`. Goes through base classes, nested classes and arrays; stops at a class
// of the standard library or of pooled, so a std::shared_ptr's two words have one name.
//
// A pointer's type also says what a block is that says nothing about itself: elements of a vector, nodes of a map, a plain object.

#include "dwarf_index.hpp"
#include "locals.hpp"
#include "types.hpp"

namespace poolheap {

class image_naming final : public type_namer {
public:
    image_naming(image const& from, heap const& blocks) : type_namer(from, blocks), m_index(m_symbols) {}

    member const& at(type_id_t holder, std::uint64_t offset) override;
    std::optional<variable> global(address at) override { return variable_of(m_symbols.find(at)); }
    std::optional<variable> thread_local_of(thread const& of, address at) override {
        return variable_of(m_symbols.find_thread_local(of, at));
    }
    std::optional<variable> local_of(thread const& of, address at) override;
    std::string module_name(address at) const override;

private:
    // What lies at an offset in a type: the way there, and the word itself.
    struct place {
        std::string path;
        strength how = strength::unknown;
        std::vector<std::pair<Dwarf_Die, std::string>> classes;  // that contain it, with their names
        std::optional<Dwarf_Die> word;                           // its type; empty: not known
    };
    [[nodiscard]] std::optional<Dwarf_Die> layout(type_id_t id);
    [[nodiscard]] std::optional<Dwarf_Die> find_class(type const& t);
    [[nodiscard]] place place_of(Dwarf_Die of, std::uint64_t offset);
    [[nodiscard]] type_id_t pointee(place const& from);
    [[nodiscard]] type_id_t add_pointee(Dwarf_Die die, bool is_array, kind k);
    [[nodiscard]] std::int32_t add_layout(Dwarf_Die die);
    // Of a global or thread-local variable that has this symbol, or of a local one that debug information alone knows.
    [[nodiscard]] std::optional<variable> variable_of(std::optional<symbol> const& s,
                                                      Dwarf_Die const* local = nullptr);

    dwarf_index m_index;
    std::vector<Dwarf_Die> m_layouts;
    std::unordered_map<type_id_t, std::int32_t> m_layout_of;  // -1: none
    std::unordered_map<std::uint64_t, member> m_known;        // by type and offset
    std::unordered_map<std::string, type_id_t> m_variables;
    std::map<std::tuple<void*, bool, kind>, type_id_t> m_pointees;
    std::map<int, std::vector<local>> m_locals;  // of each thread that was asked about
};

}  // namespace poolheap
