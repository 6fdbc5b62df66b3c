// SPDX-License-Identifier: BSL-1.0
#include "symbols.hpp"

#include "elf.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include <fcntl.h>

namespace poolheap {

std::string demangle(std::string const& name) {
    int status = 0;
    char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    std::string const found = text != nullptr ? text : name;
    std::free(text);
    return found;
}

struct symbols::state {
    struct entry {
        address begin;  // of a thread-local one, in the static block
        std::uint64_t bytes;
        char const* name;

        [[nodiscard]] symbol at(address base) const { return {demangle(name), base + begin, bytes}; }
    };
    struct table {
        bool is_read = false;
        std::vector<entry> entries;  // ascending by begin; no thread-local ones
        std::vector<entry> thread_local_entries;
    };

    image const& from;
    std::string debug_path;  // as the image's system has it, and as ours
    char* debug_path_begin;
    Dwfl_Callbacks callbacks{.find_elf = open_file,
                             .find_debuginfo = dwfl_standard_find_debuginfo,
                             .section_address = nullptr,
                             .debuginfo_path = &debug_path_begin};
    Dwfl* dwfl;
    std::vector<module> modules;  // ascending
    std::vector<table> tables;    // of each module

    explicit state(image const& i)
        : from(i),
          debug_path(":.debug:" + i.file("/usr/lib/debug") + ":/usr/lib/debug"),
          debug_path_begin(debug_path.data()) {
        ::unsetenv("DEBUGINFOD_URLS");  // libdwfl would download files while a program waits
        dwfl = dwfl_begin(&callbacks);
        for (mapping const& m : from.mappings())
            if (m.offset == 0 && m.path.starts_with('/')) add_module(m);
        dwfl_report_end(dwfl, nullptr, nullptr);
        tables.resize(modules.size());
    }
    ~state() { dwfl_end(dwfl); }

    void add_module(mapping const& first) {
        auto file = loaded_file_at(from, first.begin);
        if (!file || file->end <= file->begin) return;
        // A tool that reads the file has a mapping of it, too, but none to execute.
        bool const is_loaded = std::ranges::any_of(from.mappings(), [&](mapping const& other) {
            return other.executable && other.path == first.path && other.begin >= file->begin &&
                   other.begin < file->end;
        });
        if (!is_loaded) return;
        module m{std::move(*file), first.path, nullptr};
        m.dwfl = dwfl_report_module(dwfl, m.path.c_str(), m.begin, m.end);
        void** own = nullptr;
        dwfl_module_info(m.dwfl, &own, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
        if (own != nullptr) *own = this;
        modules.push_back(std::move(m));
    }

    // Called by libdwfl when it first needs a module's file.
    static int open_file(Dwfl_Module*, void** own, char const* path, Dwarf_Addr begin, char** file_name,
                         Elf**) {
        state const& s = *static_cast<state const*>(*own);
        std::string const at = s.from.file(path);
        auto const file = elf_file::open(at);
        auto const m = std::ranges::find(s.modules, begin, &module::begin);
        // The image may lack the page with the build-id; then the file is believed.
        if (file == nullptr || m == s.modules.end() ||
            (!m->build_id.empty() && file->build_id() != m->build_id))
            return -1;
        *file_name = ::strdup(at.c_str());
        return ::open(at.c_str(), O_RDONLY | O_CLOEXEC);
    }

    table const& read(std::size_t i) {
        table& t = tables[i];
        if (t.is_read) return t;
        t.is_read = true;
        int const count = dwfl_module_getsymtab(modules[i].dwfl);
        for (int n = 1; n < count; ++n) {
            GElf_Sym s;
            GElf_Addr at = 0;
            char const* const name =
                dwfl_module_getsym_info(modules[i].dwfl, n, &s, &at, nullptr, nullptr, nullptr);
            unsigned const type = GELF_ST_TYPE(s.st_info);
            if (name == nullptr || s.st_shndx == SHN_UNDEF || s.st_size == 0) continue;
            if (type == STT_TLS)
                t.thread_local_entries.push_back({s.st_value, s.st_size, name});
            else if (type == STT_OBJECT || type == STT_FUNC || type == STT_GNU_IFUNC)
                t.entries.push_back({at, s.st_size, name});
        }
        std::ranges::stable_sort(t.entries, {}, &entry::begin);
        return t;
    }
};

symbols::symbols(image const& from) : m_state(std::make_unique<state>(from)) {}
symbols::~symbols() = default;

std::span<module const> symbols::modules() const { return m_state->modules; }

Dwfl* symbols::dwfl() const { return m_state->dwfl; }

module const* symbols::module_of(address at) const {
    auto const& all = m_state->modules;
    auto const next = std::ranges::upper_bound(all, at, {}, &module::begin);
    return next != all.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

std::optional<symbol> symbols::find(address at) const {
    module const* const m = module_of(at);
    if (m == nullptr) return {};
    auto const& all = m_state->read(static_cast<std::size_t>(m - m_state->modules.data())).entries;
    auto next = std::ranges::upper_bound(all, at, {}, &state::entry::begin);
    // Symbols may lie within others: look at a few that begin earlier.
    for (int looked = 0; looked < 8 && next != all.begin(); ++looked) {
        --next;
        if (at - next->begin < next->bytes) return next->at(0);
    }
    return {};
}

std::optional<symbol> symbols::find_thread_local(thread const& of, address at) const {
    for (std::size_t i = 0; i < m_state->modules.size(); ++i) {
        module const& m = m_state->modules[i];
        // The program itself: it alone, of those with an interpreter, has its variables next to the thread pointer.
        auto const of_type = [&](std::uint32_t type) {
            return std::ranges::find(m.segments, type, &Elf64_Phdr::p_type);
        };
        if (of_type(PT_INTERP) == m.segments.end() || m.name().starts_with("libc.so")) continue;
        auto const block = of_type(PT_TLS);
        if (block == m.segments.end() || block->p_align == 0) return {};
        auto const rounded = [&](std::uint64_t n) {
            return (n + block->p_align - 1) / block->p_align * block->p_align;
        };
        address const begin = m.machine == EM_X86_64    ? of.thread_pointer - rounded(block->p_memsz)
                              : m.machine == EM_AARCH64 ? of.thread_pointer + rounded(16)
                                                        : of.thread_pointer;
        if (at < begin || at - begin >= block->p_memsz) return {};
        for (state::entry const& e : m_state->read(i).thread_local_entries)
            if (at - begin >= e.begin && at - begin - e.begin < e.bytes) return e.at(begin);
    }
    return {};
}

}  // namespace poolheap
