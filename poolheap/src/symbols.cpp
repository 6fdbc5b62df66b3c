// SPDX-License-Identifier: BSL-1.0
#include "symbols.hpp"

#include "pretty.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

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

// Of a static variable, in the file; 0: its unit or thread knows it. Those on a stack have none.
std::optional<address> place_of_variable(Dwarf_Die die) {
    Dwarf_Attribute at;
    Dwarf_Block code;
    constexpr unsigned char k_addresses[]{DW_OP_addr, DW_OP_addrx, DW_OP_const8u, DW_OP_constx};
    if (dwarf_formblock(dwarf_attr(&die, DW_AT_location, &at), &code) != 0 || code.length == 0 ||
        std::ranges::find(k_addresses, code.data[0]) == std::end(k_addresses))
        return {};
    address place = 0;
    if (code.data[0] == DW_OP_addr && code.length > sizeof(place))
        std::memcpy(&place, code.data + 1, sizeof(place));
    return place;
}

// A variable that is named `g` is no `__float128`, and no source has the tags of "table[abi:cxx11]".
std::string demangle_symbol(std::string const& name) {
    if (!name.starts_with("_Z")) return name;
    std::string found = demangle(name);
    for (std::size_t at = 0; (at = found.find("[abi:", at)) != std::string::npos;)
        found.erase(at, found.find(']', at) - at + 1);
    return found;
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
    : m_debug_path(":.debug:" + from.file("/usr/lib/debug") + ":/usr/lib/debug"),
      m_debug_path_begin(m_debug_path.data()) {
    ::unsetenv("DEBUGINFOD_URLS");  // libdwfl would download files while a program waits
    m_dwfl = dwfl_begin(&m_callbacks);
    for (mapping const& m : from.mappings()) {
        if (m.offset != 0 || !m.path.starts_with('/')) continue;
        auto loaded = loaded_file_at(from, m.begin);
        if (!loaded || loaded->end <= loaded->begin) continue;
        // A tool that reads the file has a mapping of it, too, but none to execute.
        bool const is_executed = std::ranges::any_of(from.mappings(), [&](mapping const& other) {
            return other.executable && other.path == m.path && other.begin >= loaded->begin &&
                   other.begin < loaded->end;
        });
        if (!is_executed) continue;
        elf_file const* const file = from.file_of(m);
        Dwfl_Module* const known =
            file == nullptr
                ? nullptr
                : dwfl_report_elf(m_dwfl, m.path.c_str(), file->path.c_str(), -1, loaded->bias, true);
        m_modules.push_back({std::move(*loaded), m.path, known});
    }
    dwfl_report_end(m_dwfl, nullptr, nullptr);
}

module const* symbols::module_of(address at) const {
    auto const next = std::ranges::upper_bound(m_modules, at, {}, &module::begin);
    return next != m_modules.begin() && at < next[-1].end ? &next[-1] : nullptr;
}

std::optional<symbol> symbols::find(address at) const {
    module const* const m = module_of(at);
    if (m == nullptr) return {};
    if (!m->symbols) {
        auto& all = m->symbols.emplace();
        int const count = dwfl_module_getsymtab(m->known);
        for (int n = 1; n < count; ++n) {
            GElf_Sym s;
            GElf_Addr begin = 0;
            char const* const name =
                dwfl_module_getsym_info(m->known, n, &s, &begin, nullptr, nullptr, nullptr);
            unsigned const type = GELF_ST_TYPE(s.st_info);
            if (name != nullptr && s.st_shndx != SHN_UNDEF && s.st_size != 0 &&
                (type == STT_OBJECT || type == STT_FUNC || type == STT_GNU_IFUNC))
                all.push_back({begin, s.st_size, name});
        }
        std::ranges::stable_sort(all, {}, &module::named_range::begin);
    }
    auto next = std::ranges::upper_bound(*m->symbols, at, {}, &module::named_range::begin);
    // Symbols may lie within others: look at a few that begin earlier.
    for (int looked = 0; looked < 8 && next != m->symbols->begin(); ++looked) {
        --next;
        if (at - next->begin < next->bytes) return symbol{demangle_symbol(next->name), next->begin};
    }
    return {};
}

// ---- debug information

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

void symbols::index_debug_information() {
    if (std::exchange(m_is_indexed, true)) return;
    for (module const& m : m_modules) {
        address bias = 0;
        Dwarf* const all = dwfl_module_getdwarf(m.known, &bias);
        Dwarf_CU* unit = nullptr;
        Dwarf_Die top, split;
        while (all != nullptr && dwarf_get_units(all, unit, &unit, nullptr, nullptr, &top, &split) == 0)
            add_children(split.addr != nullptr ? &split : &top, nullptr, bias);
    }
    std::ranges::sort(m_entries, {}, [](entry const& e) { return e.die.addr; });
    std::ranges::sort(m_by_hash);
    std::ranges::sort(m_by_address);
}

void symbols::add_children(Dwarf_Die* of, void* entry, address bias) {
    Dwarf_Die die;
    for (int more = dwarf_child(of, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
        unsigned const tag = tag_of(die);
        bool const is_variable = tag == DW_TAG_variable;
        bool const is_function = tag == DW_TAG_subprogram, is_scope = is_function || tag == DW_TAG_namespace;
        if (tag == DW_TAG_lexical_block) add_children(&die, entry, bias);
        if ((!is_class(tag) && !is_scope && !is_variable) || (!is_function && has(die, DW_AT_declaration)))
            continue;
        auto const place = is_variable ? place_of_variable(die) : 0;
        if (!place) continue;
        m_entries.push_back({die, entry});
        if (std::string const name = is_scope ? "" : text_in(die, DW_AT_name); !name.empty())
            m_by_hash.emplace_back(hash_of(name), die.addr);
        Dwarf_Addr begin = *place;
        if (is_function && dwarf_lowpc(&die, &begin) != 0) begin = 0;
        if (begin != 0) m_by_address.emplace_back(begin + bias, die.addr);
        if (!is_variable) add_children(&die, die.addr, bias);
    }
}

symbols::entry const* symbols::entry_of(void* die) const {
    auto const at = std::ranges::lower_bound(m_entries, die, {}, [](entry const& e) { return e.die.addr; });
    return at != m_entries.end() && at->die.addr == die ? &*at : nullptr;
}

std::string symbols::qualified_name(entry const* of) const {
    std::string name;
    for (; of != nullptr; of = entry_of(of->parent)) {
        bool const has_linkage = tag_of(of->die) == DW_TAG_subprogram || tag_of(of->die) == DW_TAG_variable;
        std::string const complete = has_linkage ? demangle_symbol(text_in(of->die, DW_AT_linkage_name)) : "";
        std::string const part = complete.empty() ? text_in(of->die, DW_AT_name) : complete;
        if (part.empty()) continue;  // an anonymous namespace or union
        name = name.empty() ? part : part + "::" + name;
        if (!complete.empty()) break;
    }
    return name;
}

std::optional<Dwarf_Die> symbols::find_die(std::string const& name, bool is_variable) {
    if (name.empty()) return {};
    index_debug_information();
    std::string const key = key_of(name);
    for (auto const& known :
         std::ranges::equal_range(m_by_hash, hash_of(name), {}, &std::pair<std::uint32_t, void*>::first))
        if (entry const* const e = entry_of(known.second);
            (tag_of(e->die) == DW_TAG_variable) == is_variable && key_of(qualified_name(e)) == key)
            return e->die;
    return {};
}

std::optional<Dwarf_Die> symbols::find_die(address begin) {
    index_debug_information();
    auto const at = std::ranges::lower_bound(m_by_address, begin, {}, &std::pair<address, void*>::first);
    if (at == m_by_address.end() || at->first != begin) return {};
    return entry_of(at->second)->die;
}

std::optional<Dwarf_Die> symbols::class_of_function(address function) {
    // From the code to its declaration, which lies in the class.
    std::optional<Dwarf_Die> declaration = find_die(function);
    for (unsigned const attribute : {DW_AT_abstract_origin, DW_AT_specification})
        if (declaration && has(*declaration, attribute)) declaration = referred(*declaration, attribute);
    entry const* const own = declaration ? entry_of(declaration->addr) : nullptr;
    entry const* const around = own != nullptr ? entry_of(own->parent) : nullptr;
    if (around == nullptr || !is_class(tag_of(around->die))) return {};
    return around->die;
}

std::string symbols::type_name(Dwarf_Die type) {
    index_debug_information();
    unsigned const tag = tag_of(type);
    if (tag == DW_TAG_pointer_type || tag == DW_TAG_array_type) {
        auto const to = type_of(type);
        return (to ? type_name(*to) : "void") + (tag == DW_TAG_array_type ? "[]" : "*");
    }
    auto const [known, is_new] = m_type_names.try_emplace(type.addr);
    if (!is_new) return known->second;
    entry const* const own = entry_of(type.addr);
    return known->second = pretty(own != nullptr ? qualified_name(own) : text_in(type, DW_AT_name));
}

}  // namespace poolheap
