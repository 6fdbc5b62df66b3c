// SPDX-License-Identifier: BSL-1.0
#include "symbols.hpp"

#include "core_image.hpp"
#include "elf.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>

namespace poolheap {
namespace {

struct entry {
    address begin;  // in the file
    std::uint64_t bytes;
    std::string_view name;
    symbol_kind kind;
};

void add_entries(std::vector<entry>& to, elf_file const& from, std::uint32_t section_type) {
    Elf64_Shdr const* const section = from.section(section_type);
    if (section == nullptr || section->sh_link >= from.sections().size()) return;
    byte_span const table = from.content(*section);
    byte_span const names = from.content(from.sections()[section->sh_link]);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym)) {
        auto const s = *value_at<Elf64_Sym>(table, at);
        unsigned const type = ELF64_ST_TYPE(s.st_info);
        if (s.st_shndx == SHN_UNDEF || s.st_size == 0) continue;
        if (type != STT_FUNC && type != STT_OBJECT && type != STT_TLS && type != STT_GNU_IFUNC) continue;
        to.push_back({s.st_value, s.st_size, text_at(names, s.st_name),
                      type == STT_TLS      ? symbol_kind::thread_local_object
                      : type == STT_OBJECT ? symbol_kind::object
                                           : symbol_kind::function});
    }
}

std::shared_ptr<elf_file const> find_debug_file(image const& from, module const& of) {
    std::vector<std::string> places;
    if (of.build_id.size() > 2)
        places.push_back("/usr/lib/debug/.build-id/" + of.build_id.substr(0, 2) + "/" +
                         of.build_id.substr(2) + ".debug");
    if (Elf64_Shdr const* const link = of.file->section(".gnu_debuglink")) {
        std::string const name(text_at(of.file->content(*link), 0));
        std::string const folder = of.path.substr(0, of.path.rfind('/') + 1);
        for (std::string const& place :
             {folder + name, folder + ".debug/" + name, "/usr/lib/debug" + folder + name})
            if (place != of.path) places.push_back(place);
    }
    for (std::string const& place : places)
        for (std::string const& path : {from.file(place), place})
            if (auto file = elf_file::open(path))
                if (of.build_id.empty() || file->build_id() == of.build_id) return file;
    return nullptr;
}

}  // namespace

std::string demangle(std::string const& name) {
    int status = 0;
    char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    std::string const found = text != nullptr ? text : name;
    std::free(text);
    return found;
}

struct symbols::state {
    struct table {
        bool is_read = false;
        bool is_debug_file_sought = false;
        std::vector<entry> entries;  // ascending by begin; no thread-local ones
        std::vector<entry> thread_local_entries;
    };

    image const& from;
    std::vector<module> modules;  // ascending
    std::vector<table> tables;    // of each module

    explicit state(image const& i) : from(i) {
        for (mapping const& m : from.mappings())
            if (m.offset == 0 && m.path.starts_with('/')) add_module(m);
        tables.resize(modules.size());
    }

    void add_module(mapping const& first) {
        auto const header = from.get<Elf64_Ehdr>(first.begin);
        if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
        module m;
        m.path = first.path;
        m.begin = first.begin;
        address low = ~address{0};
        address high = 0;
        for (unsigned i = 0; i < header->e_phnum; ++i) {
            auto const s = from.get<Elf64_Phdr>(first.begin + header->e_phoff + i * sizeof(Elf64_Phdr));
            if (!s || s->p_type != PT_LOAD) continue;
            low = std::min(low, s->p_vaddr & ~address{4095});
            high = std::max(high, s->p_vaddr + s->p_memsz);
        }
        if (low >= high) return;
        m.bias = first.begin - low;
        m.end = m.bias + high;
        // A tool that reads the file has a mapping of it, too, but none to execute.
        bool const is_loaded = std::ranges::any_of(from.mappings(), [&](mapping const& other) {
            return other.executable && other.path == m.path && other.begin >= m.begin && other.begin < m.end;
        });
        if (!is_loaded) return;
        m.build_id = build_id_at(from, first.begin);
        m.file = elf_file::open(from.file(m.path));
        // The image may lack the page with the build-id; then the file is believed.
        if (m.file != nullptr && !m.build_id.empty() && m.file->build_id() != m.build_id) m.file = nullptr;
        modules.push_back(std::move(m));
    }

    elf_file const* debug_file_of(std::size_t i) {
        module& m = modules[i];
        if (m.file != nullptr && !tables[i].is_debug_file_sought) {
            tables[i].is_debug_file_sought = true;
            m.debug_file = find_debug_file(from, m);
        }
        return m.debug_file.get();
    }

    table const& read(std::size_t i) {
        table& t = tables[i];
        if (t.is_read) return t;
        t.is_read = true;
        module const& m = modules[i];
        if (m.file == nullptr) return t;
        add_entries(t.entries, *m.file, SHT_SYMTAB);
        if (t.entries.empty())
            if (elf_file const* const debug = debug_file_of(i)) add_entries(t.entries, *debug, SHT_SYMTAB);
        if (t.entries.empty()) add_entries(t.entries, *m.file, SHT_DYNSYM);
        auto const rest = std::ranges::stable_partition(
            t.entries, [](entry const& e) { return e.kind != symbol_kind::thread_local_object; });
        t.thread_local_entries.assign(rest.begin(), rest.end());
        t.entries.erase(rest.begin(), rest.end());
        std::ranges::stable_sort(t.entries, {}, &entry::begin);
        return t;
    }

    static symbol symbol_of(entry const& e, address bias) {
        return {demangle(std::string(e.name)), e.kind, e.begin + bias, e.bytes};
    }
};

symbols::symbols(image const& from) : m_state(std::make_unique<state>(from)) {}
symbols::~symbols() = default;

std::span<module const> symbols::modules() const { return m_state->modules; }

module const* symbols::module_of(address at) const {
    auto const& all = m_state->modules;
    auto const next = std::ranges::upper_bound(all, at, {}, &module::begin);
    return next != all.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

std::optional<symbol> symbols::find(address at) const {
    module const* const m = module_of(at);
    if (m == nullptr) return {};
    auto const& all = m_state->read(static_cast<std::size_t>(m - m_state->modules.data())).entries;
    address const in_file = at - m->bias;
    auto next = std::ranges::upper_bound(all, in_file, {}, &entry::begin);
    // Symbols may lie within others: look at a few that begin earlier.
    for (int looked = 0; looked < 8 && next != all.begin(); ++looked) {
        --next;
        if (in_file - next->begin < next->bytes) return state::symbol_of(*next, m->bias);
    }
    return {};
}

std::string symbols::describe(address at) const {
    char number[32];
    if (auto const found = find(at)) {
        if (at == found->begin) return found->name;
        std::snprintf(number, sizeof(number), "+%llu", static_cast<unsigned long long>(at - found->begin));
        return found->name + number;
    }
    module const* const m = module_of(at);
    std::snprintf(number, sizeof(number), "%s0x%llx", m != nullptr ? "+" : "",
                  static_cast<unsigned long long>(m != nullptr ? at - m->bias : at));
    return (m != nullptr ? m->name() : "") + number;
}

std::optional<symbol> symbols::find_thread_local(thread const& of, address at) const {
    for (std::size_t i = 0; i < m_state->modules.size(); ++i) {
        module const& m = m_state->modules[i];
        if (m.file == nullptr) continue;
        auto const segments = m.file->segments();
        // The program itself: it alone, of those with an interpreter, has its variables next to the thread pointer.
        auto const of_type = [&](std::uint32_t type) {
            return std::ranges::find(segments, type, &Elf64_Phdr::p_type);
        };
        if (of_type(PT_INTERP) == segments.end() || m.name().starts_with("libc.so")) continue;
        auto const block = of_type(PT_TLS);
        if (block == segments.end() || block->p_align == 0) return {};
        auto const rounded = [&](std::uint64_t n) {
            return (n + block->p_align - 1) / block->p_align * block->p_align;
        };
        address const begin = m.file->header().e_machine == EM_X86_64
                                  ? of.thread_pointer - rounded(block->p_memsz)
                              : m.file->header().e_machine == EM_AARCH64 ? of.thread_pointer + rounded(16)
                                                                         : of.thread_pointer;
        if (at < begin || at - begin >= block->p_memsz) return {};
        for (entry const& e : m_state->read(i).thread_local_entries)
            if (at - begin >= e.begin && at - begin - e.begin < e.bytes) return state::symbol_of(e, begin);
    }
    return {};
}

elf_file const* symbols::debug_file(module const& of) const {
    return m_state->debug_file_of(static_cast<std::size_t>(&of - m_state->modules.data()));
}

}  // namespace poolheap
