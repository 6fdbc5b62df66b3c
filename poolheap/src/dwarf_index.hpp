// SPDX-License-Identifier: BSL-1.0
#pragma once

// The classes and variables in the debug information of an image's files, by name. Built when first asked for, in one walk over all
// entries: memory is up to 40 bytes for each class, variable, function and namespace.

#include "symbols.hpp"

#include <deque>
#include <map>

namespace poolheap {

class dwarf_index {
public:
    explicit dwarf_index(symbols const& names);

    [[nodiscard]] bool is_empty() const { return m_files.empty(); }
    // A class by the name that a demangler gives it; a variable by its symbol's name.
    [[nodiscard]] std::optional<Dwarf_Die> find_class(std::string const& name);
    [[nodiscard]] std::optional<Dwarf_Die> find_variable(std::string const& name);
    void know_variable(std::string const& name, Dwarf_Die die) { m_found[{name, true}] = die; }
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
        address begin = 0;
        address end = 0;
        address bias = 0;
        std::vector<entry> entries;  // ascending by offset
        std::vector<std::pair<std::uint32_t, std::uint32_t>>
            by_hash;  // of the last part of a name; then the entry
        std::vector<std::pair<address, std::uint32_t>>
            functions;  // by their first address in the file; then the entry
    };

    void build();
    void add(file& f, Dwarf_Die* parent, std::uint32_t parent_entry);
    [[nodiscard]] std::string qualified_name(file& f, std::uint32_t i);
    [[nodiscard]] std::optional<Dwarf_Die> find(std::string const& name, bool is_variable);
    [[nodiscard]] static entry const* entry_of(file const& f, Dwarf_Off offset);

    std::deque<file> m_files;
    bool m_is_built = false;
    std::map<std::pair<std::string, bool>, std::optional<Dwarf_Die>> m_found;
    std::map<std::pair<Dwarf*, Dwarf_Off>, std::string> m_names;
};

// Without typedefs and qualifiers; empty: void.
[[nodiscard]] std::optional<Dwarf_Die> type_of(Dwarf_Die die);
[[nodiscard]] std::optional<std::uint64_t> number_in(Dwarf_Die die, unsigned attribute);

}  // namespace poolheap
