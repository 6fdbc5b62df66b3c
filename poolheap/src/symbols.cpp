// SPDX-License-Identifier: BSL-1.0
#include "symbols.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fcntl.h>

namespace poolheap {

std::string demangle(std::string const& name) {
    int status = 0;
    char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    std::string const found = text != nullptr ? text : name;
    std::free(text);
    return found;
}

symbols::symbols(image const& from)
    : m_image(from),
      m_debug_path(":.debug:" + from.file("/usr/lib/debug") + ":/usr/lib/debug"),
      m_debug_path_begin(m_debug_path.data()) {
    ::unsetenv("DEBUGINFOD_URLS");  // libdwfl would download files while a program waits
    m_dwfl = dwfl_begin(&m_callbacks);
    for (mapping const& m : from.mappings())
        if (m.offset == 0 && m.path.starts_with('/')) add_module(m);
    dwfl_report_end(m_dwfl, nullptr, nullptr);
    m_tables.resize(m_modules.size());
}

void symbols::add_module(mapping const& first) {
    auto file = loaded_file_at(m_image, first.begin);
    if (!file || file->end <= file->begin) return;
    // A tool that reads the file has a mapping of it, too, but none to execute.
    bool const is_loaded = std::ranges::any_of(m_image.mappings(), [&](mapping const& other) {
        return other.executable && other.path == first.path && other.begin >= file->begin &&
               other.begin < file->end;
    });
    if (!is_loaded) return;
    Dwfl_Module* const reported = dwfl_report_module(m_dwfl, first.path.c_str(), file->begin, file->end);
    void** own = nullptr;
    dwfl_module_info(reported, &own, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    if (own != nullptr) *own = this;
    m_modules.push_back({std::move(*file), first.path, reported});
}

// Called by libdwfl when it first needs a module's file.
int symbols::open_file(Dwfl_Module*, void** own, char const* path, Dwarf_Addr begin, char** file_name,
                       Elf**) {
    symbols const& s = *static_cast<symbols const*>(*own);
    std::string const at = s.m_image.file(path);
    auto const file = elf_file::open(at);
    auto const m = std::ranges::find(s.m_modules, begin, &module::begin);
    // The image may lack the page with the build-id; then the file is believed.
    if (file == nullptr || m == s.m_modules.end() || (!m->build_id.empty() && file->build_id != m->build_id))
        return -1;
    *file_name = ::strdup(at.c_str());
    return ::open(at.c_str(), O_RDONLY | O_CLOEXEC);
}

symbols::table const& symbols::read(std::size_t module) const {
    table& t = m_tables[module];
    if (std::exchange(t.is_read, true)) return t;
    Dwfl_Module* const of = m_modules[module].dwfl;
    int const count = dwfl_module_getsymtab(of);
    for (int n = 1; n < count; ++n) {
        GElf_Sym s;
        GElf_Addr at = 0;
        char const* const name = dwfl_module_getsym_info(of, n, &s, &at, nullptr, nullptr, nullptr);
        unsigned const type = GELF_ST_TYPE(s.st_info);
        if (name == nullptr || s.st_shndx == SHN_UNDEF || s.st_size == 0) continue;
        if (type == STT_OBJECT || type == STT_FUNC || type == STT_GNU_IFUNC)
            t.entries.push_back({at, s.st_size, name});
    }
    std::ranges::stable_sort(t.entries, {}, &entry::begin);
    return t;
}

module const* symbols::module_of(address at) const {
    auto const next = std::ranges::upper_bound(m_modules, at, {}, &module::begin);
    return next != m_modules.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

std::optional<symbol> symbols::find(address at) const {
    module const* const m = module_of(at);
    if (m == nullptr) return {};
    auto const& all = read(static_cast<std::size_t>(m - m_modules.data())).entries;
    auto next = std::ranges::upper_bound(all, at, {}, &entry::begin);
    // Symbols may lie within others: look at a few that begin earlier.
    for (int looked = 0; looked < 8 && next != all.begin(); ++looked) {
        --next;
        if (at - next->begin < next->bytes) return symbol{demangle(next->name), next->begin, next->bytes};
    }
    return {};
}

}  // namespace poolheap
