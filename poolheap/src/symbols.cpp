// SPDX-License-Identifier: BSL-1.0
#include "symbols.hpp"

#include "pretty.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include <fcntl.h>

namespace poolheap {
namespace {

std::string text_in(Dwarf_Die die, unsigned attribute) {
    Dwarf_Attribute found;
    char const* const text = dwarf_formstring(dwarf_attr_integrate(&die, attribute, &found));
    return text != nullptr ? text : "";
}

std::optional<Dwarf_Die> referred(Dwarf_Die die, unsigned attribute) {
    Dwarf_Attribute found;
    Dwarf_Die to;
    if (dwarf_attr_integrate(&die, attribute, &found) == nullptr || dwarf_formref_die(&found, &to) == nullptr)
        return {};
    return to;
}

// Of the last part of "app::box<a::b>", which is "box<a::b>", without the arguments of templates, in whose spelling compilers and
// demanglers differ.
std::uint32_t hash_of(std::string_view name) {
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        constexpr std::string_view k_open = "<({[", k_close = ">)}]";
        depth += k_open.find(name[i]) != k_open.npos ? 1 : k_close.find(name[i]) != k_close.npos ? -1 : 0;
        if (name[i] == ':' && depth == 0) begin = i + 1;
    }
    name.remove_prefix(begin);
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(name.substr(0, name.find('<'))));
}

// Equal for two spellings of one name.
std::string key_of(std::string const& name) {
    std::string key = pretty(name);
    std::erase(key, ' ');
    return key;
}

// Variables on a stack have no linkage, and those that are static have an address.
bool is_static(Dwarf_Die die) {
    Dwarf_Attribute at;
    Dwarf_Block code;
    constexpr unsigned char k_addresses[]{DW_OP_addr, DW_OP_addrx, DW_OP_const8u, DW_OP_constx};
    return dwarf_formblock(dwarf_attr(&die, DW_AT_location, &at), &code) == 0 && code.length != 0 &&
           std::ranges::find(k_addresses, code.data[0]) != std::end(k_addresses);
}

}  // namespace

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
    if (own != nullptr) *own = const_cast<image*>(&m_image);
    m_modules.emplace_back(std::move(*file), first.path, reported);
}

// Called by libdwfl when it first needs a module's file.
int symbols::open_file(Dwfl_Module*, void** own, char const*, Dwarf_Addr begin, char** file_name, Elf**) {
    image const& from = *static_cast<image const*>(*own);
    elf_file const* const file = from.file_of(*from.find_mapping(begin));
    if (file == nullptr) return -1;
    *file_name = ::strdup(file->path.c_str());
    return ::open(file->path.c_str(), O_RDONLY | O_CLOEXEC);
}

std::vector<module::named_range> const& module::table() const {
    if (m_table) return *m_table;
    m_table.emplace();
    int const count = dwfl_module_getsymtab(m_dwfl);
    for (int n = 1; n < count; ++n) {
        GElf_Sym s;
        GElf_Addr at = 0;
        char const* const name = dwfl_module_getsym_info(m_dwfl, n, &s, &at, nullptr, nullptr, nullptr);
        unsigned const type = GELF_ST_TYPE(s.st_info);
        if (name == nullptr || s.st_shndx == SHN_UNDEF || s.st_size == 0) continue;
        if (type == STT_OBJECT || type == STT_FUNC || type == STT_GNU_IFUNC)
            m_table->push_back({at, s.st_size, name});
    }
    std::ranges::stable_sort(*m_table, {}, &named_range::begin);
    return *m_table;
}

module const* symbols::module_of(address at) const {
    auto const next = std::ranges::upper_bound(m_modules, at, {}, &module::begin);
    return next != m_modules.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

std::optional<symbol> symbols::find(address at) const {
    module const* const m = module_of(at);
    if (m == nullptr) return {};
    auto const& all = m->table();
    auto next = std::ranges::upper_bound(all, at, {}, &module::named_range::begin);
    // Symbols may lie within others: look at a few that begin earlier.
    for (int looked = 0; looked < 8 && next != all.begin(); ++looked) {
        --next;
        if (at - next->begin < next->bytes) return symbol{demangle(next->name), next->begin};
    }
    return {};
}

// ---- debug information of one file

std::vector<Dwarf_Die> children(Dwarf_Die of) {
    std::vector<Dwarf_Die> all;
    Dwarf_Die child;
    for (int more = dwarf_child(&of, &child); more == 0; more = dwarf_siblingof(&child, &child))
        all.push_back(child);
    return all;
}

std::optional<std::uint64_t> number_in(Dwarf_Die die, unsigned attribute) {
    Dwarf_Attribute found;
    Dwarf_Word value = 0;
    if (dwarf_formudata(dwarf_attr_integrate(&die, attribute, &found), &value) != 0) return {};
    return value;
}

std::optional<Dwarf_Die> type_of(Dwarf_Die die) {
    auto const type = referred(die, DW_AT_type);
    Dwarf_Die peeled;
    if (!type || dwarf_peel_type(const_cast<Dwarf_Die*>(&*type), &peeled) != 0) return {};
    return peeled;
}

void module::read_debug_information() {
    m_dwarf = dwfl_module_getdwarf(m_dwfl, &m_dwarf_bias);
    Dwarf_CU* unit = nullptr;
    Dwarf_Die top, split;
    while (m_dwarf != nullptr && dwarf_get_units(m_dwarf, unit, &unit, nullptr, nullptr, &top, &split) == 0)
        add(split.addr != nullptr ? &split : &top, k_none);
    std::ranges::sort(m_by_hash);
    std::ranges::sort(m_functions);
}

void module::add(Dwarf_Die* parent, std::uint32_t parent_entry) {
    Dwarf_Die die;
    for (int more = dwarf_child(parent, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
        unsigned const tag = tag_of(die);
        bool const is_variable = tag == DW_TAG_variable;
        bool const is_function = tag == DW_TAG_subprogram, is_scope = is_function || tag == DW_TAG_namespace;
        if (tag == DW_TAG_lexical_block) add(&die, parent_entry);
        if ((!is_class(tag) && !is_scope && !is_variable) || (!is_function && has(die, DW_AT_declaration)) ||
            (is_variable && !is_static(die)))
            continue;
        auto const i = static_cast<std::uint32_t>(m_entries.size());
        m_entries.push_back({dwarf_dieoffset(&die), parent_entry, static_cast<std::uint16_t>(tag)});
        if (std::string const name = is_scope ? "" : text_in(die, DW_AT_name); !name.empty())
            m_by_hash.emplace_back(hash_of(name), i);
        if (Dwarf_Addr begin = 0; is_function && dwarf_lowpc(&die, &begin) == 0 && begin != 0)
            m_functions.emplace_back(begin, i);
        if (!is_variable) add(&die, i);
    }
}

std::optional<Dwarf_Die> module::die(std::uint32_t entry) const {
    Dwarf_Die found;
    if (entry == k_none || dwarf_offdie(m_dwarf, m_entries[entry].offset, &found) == nullptr) return {};
    return found;
}

std::uint32_t module::entry_of(Dwarf_Die const& die) const {
    Dwarf_Off const offset = dwarf_dieoffset(const_cast<Dwarf_Die*>(&die));
    auto const at = std::ranges::lower_bound(m_entries, offset, {}, &entry::offset);
    return at != m_entries.end() && at->offset == offset ? static_cast<std::uint32_t>(at - m_entries.begin())
                                                         : k_none;
}

std::string module::qualified_name(std::uint32_t i) const {
    std::string name;
    for (auto at = die(i); at; i = m_entries[i].parent, at = die(i)) {
        bool const has_linkage = tag_of(*at) == DW_TAG_subprogram || tag_of(*at) == DW_TAG_variable;
        std::string const complete = has_linkage ? demangle(text_in(*at, DW_AT_linkage_name)) : "";
        std::string const part = complete.empty() ? text_in(*at, DW_AT_name) : complete;
        if (part.empty()) continue;  // an anonymous namespace or union
        name = name.empty() ? part : part + "::" + name;
        if (!complete.empty()) break;
    }
    return name;
}

// ---- of all files

void symbols::read_debug_information() {
    if (std::exchange(m_is_indexed, true)) return;
    for (module& m : m_modules)
        m.read_debug_information();
}

std::optional<Dwarf_Die> symbols::find_die(std::string const& name, bool is_variable) {
    if (name.empty()) return {};
    read_debug_information();
    std::string const key = key_of(name);
    std::uint32_t const hash = hash_of(name);
    for (module const& m : m_modules)
        for (auto const& [h, i] :
             std::ranges::equal_range(m.m_by_hash, hash, {}, &std::pair<std::uint32_t, std::uint32_t>::first))
            if ((m.m_entries[i].tag == DW_TAG_variable) == is_variable && key_of(m.qualified_name(i)) == key)
                if (auto const found = m.die(i)) return found;
    return {};
}

std::optional<Dwarf_Die> symbols::class_of_function(address function) {
    read_debug_information();
    module const* const m = module_of(function);
    if (m == nullptr) return {};
    auto const at = std::ranges::lower_bound(m->m_functions, std::pair(function - m->m_dwarf_bias, 0U));
    if (at == m->m_functions.end() || at->first != function - m->m_dwarf_bias) return {};
    // From the code to its declaration, which lies in the class.
    auto declaration = m->die(at->second);
    for (unsigned const attribute : {DW_AT_abstract_origin, DW_AT_specification})
        if (declaration && has(*declaration, attribute)) declaration = referred(*declaration, attribute);
    std::uint32_t const i = declaration ? m->entry_of(*declaration) : module::k_none;
    auto const parent = i == module::k_none ? std::nullopt : m->die(m->m_entries[i].parent);
    return parent && is_class(tag_of(*parent)) ? parent : std::nullopt;
}

std::string symbols::type_name(Dwarf_Die type) {
    read_debug_information();
    unsigned const tag = tag_of(type);
    if (tag == DW_TAG_pointer_type || tag == DW_TAG_array_type) {
        auto const to = type_of(type);
        return (to ? type_name(*to) : "void") + (tag == DW_TAG_array_type ? "[]" : "*");
    }
    auto const [known, is_new] = m_type_names.try_emplace(type.addr);
    if (!is_new) return known->second;
    std::string name = text_in(type, DW_AT_name);
    for (module const& m : m_modules)
        if (std::uint32_t const i =
                is_class(tag) && m.m_dwarf == dwarf_cu_getdwarf(type.cu) ? m.entry_of(type) : module::k_none;
            i != module::k_none)
            name = m.qualified_name(i);
    return known->second = pretty(name);
}

}  // namespace poolheap
