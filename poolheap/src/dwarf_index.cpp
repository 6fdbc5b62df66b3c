// SPDX-License-Identifier: BSL-1.0
#include "dwarf_index.hpp"

#include "pretty.hpp"

#include <algorithm>
#include <functional>

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
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    if (dwarf_attr(&die, DW_AT_location, &at) == nullptr || at.form == DW_FORM_loclistx ||
        at.form == DW_FORM_sec_offset || dwarf_getlocation(&at, &ops, &count) != 0 || count == 0)
        return false;
    auto const first = ops[0].atom;
    return first == DW_OP_addr || first == DW_OP_addrx || first == DW_OP_const8u || first == DW_OP_constx;
}

}  // namespace

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

dwarf_index::dwarf_index(symbols const& names) {
    for (module const& m : names.modules()) {
        file f;
        f.begin = m.begin, f.end = m.end;
        f.dwarf = dwfl_module_getdwarf(m.dwfl, &f.bias);
        if (f.dwarf == nullptr) continue;
        Dwarf_CU* unit = nullptr;
        Dwarf_Die top;
        Dwarf_Die split;
        while (dwarf_get_units(f.dwarf, unit, &unit, nullptr, nullptr, &top, &split) == 0)
            f.add(split.addr != nullptr ? &split : &top, k_none);
        std::ranges::sort(f.by_hash);
        std::ranges::sort(f.functions);
        m_files.push_back(std::move(f));
    }
}

void dwarf_index::file::add(Dwarf_Die* parent, std::uint32_t parent_entry) {
    Dwarf_Die die;
    for (int more = dwarf_child(parent, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
        unsigned const tag = tag_of(die);
        bool const is_variable = tag == DW_TAG_variable;
        bool const is_function = tag == DW_TAG_subprogram, is_scope = is_function || tag == DW_TAG_namespace;
        if (tag == DW_TAG_lexical_block) add(&die, parent_entry);
        if ((!is_class(tag) && !is_scope && !is_variable) || (!is_function && has(die, DW_AT_declaration)) ||
            (is_variable && !is_static(die)))
            continue;
        auto const i = static_cast<std::uint32_t>(entries.size());
        entries.push_back({dwarf_dieoffset(&die), parent_entry, static_cast<std::uint16_t>(tag)});
        if (std::string const name = is_scope ? "" : text_in(die, DW_AT_name); !name.empty())
            by_hash.emplace_back(hash_of(name), i);
        if (Dwarf_Addr begin = 0; is_function && dwarf_lowpc(&die, &begin) == 0 && begin != 0)
            functions.emplace_back(begin, i);
        if (!is_variable) add(&die, i);
    }
}

std::optional<Dwarf_Die> dwarf_index::file::die(std::uint32_t entry) const {
    Dwarf_Die found;
    if (entry == k_none || dwarf_offdie(dwarf, entries[entry].offset, &found) == nullptr) return {};
    return found;
}

std::uint32_t dwarf_index::file::entry_of(Dwarf_Die const& die) const {
    Dwarf_Off const offset = dwarf_dieoffset(const_cast<Dwarf_Die*>(&die));
    auto const at = std::ranges::lower_bound(entries, offset, {}, &entry::offset);
    return at != entries.end() && at->offset == offset ? static_cast<std::uint32_t>(at - entries.begin())
                                                       : k_none;
}

std::string dwarf_index::file::qualified_name(std::uint32_t i) const {
    std::string name;
    for (auto at = die(i); at; i = entries[i].parent, at = die(i)) {
        bool const has_linkage = tag_of(*at) == DW_TAG_subprogram || tag_of(*at) == DW_TAG_variable;
        std::string const complete = has_linkage ? demangle(text_in(*at, DW_AT_linkage_name)) : "";
        std::string const part = complete.empty() ? text_in(*at, DW_AT_name) : complete;
        if (part.empty()) continue;  // an anonymous namespace or union
        name = name.empty() ? part : part + "::" + name;
        if (!complete.empty()) break;
    }
    return name;
}

std::optional<Dwarf_Die> dwarf_index::find(std::string const& name, bool is_variable) {
    if (name.empty()) return {};
    std::string const key = key_of(name);
    std::uint32_t const hash = hash_of(name);
    for (file& f : m_files)
        for (auto const& [h, i] :
             std::ranges::equal_range(f.by_hash, hash, {}, &std::pair<std::uint32_t, std::uint32_t>::first))
            if ((f.entries[i].tag == DW_TAG_variable) == is_variable && key_of(f.qualified_name(i)) == key)
                if (auto const found = f.die(i)) return found;
    return {};
}

std::optional<Dwarf_Die> dwarf_index::class_of_function(address function) {
    for (file& f : m_files) {
        if (function < f.begin || function >= f.end) continue;
        auto const at = std::ranges::lower_bound(f.functions, std::pair(function - f.bias, std::uint32_t{0}));
        if (at == f.functions.end() || at->first != function - f.bias) return {};
        // From the code to its declaration, which lies in the class.
        auto declaration = f.die(at->second);
        for (unsigned const attribute : {DW_AT_abstract_origin, DW_AT_specification})
            if (declaration && has(*declaration, attribute)) declaration = referred(*declaration, attribute);
        std::uint32_t const i = declaration ? f.entry_of(*declaration) : k_none;
        auto const parent = i == k_none ? std::nullopt : f.die(f.entries[i].parent);
        return parent && is_class(tag_of(*parent)) ? parent : std::nullopt;
    }
    return {};
}

std::string dwarf_index::type_name(Dwarf_Die type) {
    unsigned const tag = tag_of(type);
    if (tag == DW_TAG_pointer_type || tag == DW_TAG_array_type) {
        auto const to = type_of(type);
        return (to ? type_name(*to) : "void") + (tag == DW_TAG_array_type ? "[]" : "*");
    }
    auto const [known, is_new] = m_names.try_emplace(type.addr);
    if (!is_new) return known->second;
    std::string name = text_in(type, DW_AT_name);
    for (file& f : m_files)
        if (std::uint32_t const i =
                is_class(tag) && f.dwarf == dwarf_cu_getdwarf(type.cu) ? f.entry_of(type) : k_none;
            i != k_none)
            name = f.qualified_name(i);
    return known->second = pretty(name);
}

}  // namespace poolheap
