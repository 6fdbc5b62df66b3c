// SPDX-License-Identifier: BSL-1.0
#pragma once

// The programs and libraries of an image, and their symbols, of functions and of globals. libdwfl of elfutils
// finds them and the debug information, also in separate files (by build-id or .gnu_debuglink). Files of another build than the image's
// are not used. Read when first asked for; O(log symbols).

#include "elf.hpp"

#include <elfutils/libdwfl.h>

namespace poolheap {

struct symbol {
    std::string name;  // demangled
    address begin = 0;
    std::uint64_t bytes = 0;
};

struct module : loaded_file {
    std::string path;  // as the image names it
    Dwfl_Module* dwfl = nullptr;

    // Without directories.
    [[nodiscard]] std::string name() const { return path.substr(path.rfind('/') + 1); }
};

// The name itself if it is no mangled one.
[[nodiscard]] std::string demangle(std::string const& name);

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

private:
    struct entry {
        address begin;
        std::uint64_t bytes;
        char const* name;
    };
    struct table {
        bool is_read = false;
        std::vector<entry> entries;  // ascending by begin
    };
    void add_module(mapping const& first);
    [[nodiscard]] table const& read(std::size_t module) const;
    static int open_file(Dwfl_Module*, void** own, char const* path, Dwarf_Addr begin, char** file_name,
                         Elf**);

    image const& m_image;
    std::string m_debug_path;  // as the image's system has it, and as ours
    char* m_debug_path_begin;
    Dwfl_Callbacks m_callbacks{.find_elf = open_file,
                               .find_debuginfo = dwfl_standard_find_debuginfo,
                               .section_address = nullptr,
                               .debuginfo_path = &m_debug_path_begin};
    Dwfl* m_dwfl;
    std::vector<module> m_modules;        // ascending
    mutable std::vector<table> m_tables;  // of each module
};

}  // namespace poolheap
