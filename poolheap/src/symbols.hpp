// SPDX-License-Identifier: BSL-1.0
#pragma once

// The programs and libraries of an image: their symbols, of functions and of globals, and the classes and variables of their debug
// information. libdwfl of elfutils finds both, also in separate files (by build-id or .gnu_debuglink). Files of another build than the
// image's are not used.
//
// Symbols of a file are read when first asked for: O(log symbols). Debug information of all files is indexed in one walk over all entries,
// also when first asked for: up to 72 bytes for each class, variable, function and namespace.

#include "elf.hpp"

#include <dwarf.h>
#include <elfutils/libdwfl.h>

#include <map>

namespace poolheap {

struct symbol {
    std::string name;  // demangled
    address begin = 0;
};

// The name itself if it is no mangled one.
[[nodiscard]] std::string demangle(std::string const& name);

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

struct module : loaded_file {
    struct named_range {
        address begin;
        std::uint64_t bytes;
        char const* name;
    };

    std::string path;              // as the image names it
    Dwfl_Module* known = nullptr;  // null: its file is missing, or another one
    mutable std::optional<std::vector<named_range>>
        symbols{};  // ascending by begin; read when first asked for

    // Without directories.
    [[nodiscard]] std::string name() const { return path.substr(path.rfind('/') + 1); }
};

class symbols {
public:
    explicit symbols(image const& from);
    ~symbols() { dwfl_end(m_dwfl); }
    symbols(symbols const&) = delete;
    symbols& operator=(symbols const&) = delete;

    [[nodiscard]] std::span<module const> modules() const { return m_modules; }
    [[nodiscard]] module const* module_of(address at) const;
    // The function or object that contains the address.
    [[nodiscard]] std::optional<symbol> find(address at) const;

    // A class by the name that a demangler gives it; a variable by its symbol's name.
    [[nodiscard]] std::optional<Dwarf_Die> find_die(std::string const& name, bool is_variable);
    // The function or variable that begins at an address of the image.
    [[nodiscard]] std::optional<Dwarf_Die> find_die(address begin);
    // The class that declares the function which begins at an address of the image.
    [[nodiscard]] std::optional<Dwarf_Die> class_of_function(address function);
    // The qualified name, as pretty() has it, of any type.
    [[nodiscard]] std::string type_name(Dwarf_Die type);

private:
    struct entry {
        Dwarf_Die die;  // a class, static variable, function or namespace
        void* parent;   // the address of the entry around it
    };

    void index_debug_information();
    void add_children(Dwarf_Die* of, void* entry, address bias);
    // By a DIE's address; null: it has none.
    [[nodiscard]] entry const* entry_of(void* die) const;
    [[nodiscard]] std::string qualified_name(entry const* of) const;

    std::string m_debug_path;  // as the image's system has it, and as ours
    char* m_debug_path_begin;
    Dwfl_Callbacks m_callbacks{.find_elf = nullptr,
                               .find_debuginfo = dwfl_standard_find_debuginfo,
                               .section_address = nullptr,
                               .debuginfo_path = &m_debug_path_begin};
    Dwfl* m_dwfl;
    std::vector<module> m_modules;  // ascending
    bool m_is_indexed = false;
    std::vector<entry> m_entries;  // ascending by address
    // Entries by a hash of the last part of a name, and by the first address of a function or variable.
    std::vector<std::pair<std::uint32_t, void*>> m_by_hash;
    std::vector<std::pair<address, void*>> m_by_address;
    std::map<void*, std::string> m_type_names;
};

}  // namespace poolheap
