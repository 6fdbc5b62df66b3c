// SPDX-License-Identifier: BSL-1.0
#pragma once

// The classes and variables in the debug information of an image's files, by name. Built in one walk over all entries:
// memory is up to 40 bytes for each class, variable, function and namespace.

#include "symbols.hpp"

#include <dwarf.h>

#include <map>

namespace poolheap {

[[nodiscard]] inline unsigned tag_of(Dwarf_Die die) { return static_cast<unsigned>(dwarf_tag(&die)); }
[[nodiscard]] inline bool has(Dwarf_Die die, unsigned attribute) {
    return dwarf_hasattr(&die, attribute) != 0;
}
[[nodiscard]] inline bool is_class(unsigned tag) {
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}
[[nodiscard]] inline bool is_pointer(unsigned tag) {
    return tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type;
}
[[nodiscard]] std::vector<Dwarf_Die> children(Dwarf_Die of);
// Without typedefs and qualifiers; empty: void.
[[nodiscard]] std::optional<Dwarf_Die> type_of(Dwarf_Die die);
[[nodiscard]] std::optional<std::uint64_t> number_in(Dwarf_Die die, unsigned attribute);

class dwarf_index {
public:
    explicit dwarf_index(symbols const& names);

    // A class by the name that a demangler gives it; a variable by its symbol's name.
    [[nodiscard]] std::optional<Dwarf_Die> find(std::string const& name, bool is_variable);
    // The class that declares the function which begins at an address of the image.
    [[nodiscard]] std::optional<Dwarf_Die> class_of_function(address function);
    // The qualified name, as pretty() has it, of any type.
    [[nodiscard]] std::string type_name(Dwarf_Die type);

private:
    static constexpr std::uint32_t k_none = ~std::uint32_t{0};
    struct entry {
        Dwarf_Off offset;
        std::uint32_t parent;
        std::uint16_t tag;
    };
    struct file {
        Dwarf* dwarf = nullptr;
        address begin = 0, end = 0, bias = 0;
        std::vector<entry> entries;  // ascending by offset
        // By a hash of the last part of a name, and by the first address in the file: entries.
        std::vector<std::pair<std::uint32_t, std::uint32_t>> by_hash;
        std::vector<std::pair<address, std::uint32_t>> functions;

        void add(Dwarf_Die* parent, std::uint32_t parent_entry);
        [[nodiscard]] std::optional<Dwarf_Die> die(std::uint32_t entry) const;
        [[nodiscard]] std::uint32_t entry_of(Dwarf_Die const& die) const;
        [[nodiscard]] std::string qualified_name(std::uint32_t entry) const;
    };
    std::vector<file> m_files;
    std::map<void*, std::string> m_names;
};

}  // namespace poolheap
