// SPDX-License-Identifier: BSL-1.0
#include "dwarf_index.hpp"

#include "pretty.hpp"

#include <dwarf.h>

#include <algorithm>
#include <functional>

namespace poolheap {
namespace {

bool is_class(unsigned tag) {
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

std::string text_in(Dwarf_Die die, unsigned attribute) {
    Dwarf_Attribute found;
    char const* const text = dwarf_formstring(dwarf_attr_integrate(&die, attribute, &found));
    return text != nullptr ? text : "";
}

// "app::box<a::b>" has the last part "box<a::b>".
std::string_view last_part(std::string_view name) {
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        char const c = name[i];
        if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
        if (c == '>' || c == ')' || c == '}' || c == ']') --depth;
        if (c == ':' && depth == 0) begin = i + 1;
    }
    return name.substr(begin);
}

// Without the arguments of templates, in whose spelling compilers and demanglers differ.
std::uint32_t hash_of(std::string_view part) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(part.substr(0, part.find('<'))));
}

// Equal for two spellings of one name.
std::string key_of(std::string const& name) {
    std::string key = pretty(name);
    std::erase(key, ' ');
    return key;
}

}  // namespace

std::optional<std::uint64_t> number_in(Dwarf_Die die, unsigned attribute) {
    Dwarf_Attribute found;
    Dwarf_Word value = 0;
    if (dwarf_attr_integrate(&die, attribute, &found) == nullptr || dwarf_formudata(&found, &value) != 0)
        return {};
    return value;
}

std::optional<Dwarf_Die> type_of(Dwarf_Die die) {
    for (int i = 0; i < 64; ++i) {
        Dwarf_Attribute attribute;
        Dwarf_Die type;
        if (dwarf_attr_integrate(&die, DW_AT_type, &attribute) == nullptr ||
            dwarf_formref_die(&attribute, &type) == nullptr)
            return {};
        switch (dwarf_tag(&type)) {
        case DW_TAG_typedef:
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
        case DW_TAG_template_alias:
            die = type;
            break;
        default:
            return type;
        }
    }
    return {};
}

dwarf_index::dwarf_index(symbols const& names) {
    for (module const& m : names.modules()) {
        file f;
        f.begin = m.begin, f.end = m.end;
        f.dwarf = dwfl_module_getdwarf(m.dwfl, &f.bias);
        if (f.dwarf != nullptr) m_files.push_back(std::move(f));
    }
}

void dwarf_index::build() {
    m_is_built = true;
    for (file& f : m_files) {
        Dwarf_CU* unit = nullptr;
        Dwarf_Die top;
        Dwarf_Die split;
        while (dwarf_get_units(f.dwarf, unit, &unit, nullptr, nullptr, &top, &split) == 0)
            add(f, split.addr != nullptr ? &split : &top, k_none);
        std::ranges::sort(f.by_hash);
        std::ranges::sort(f.functions);
    }
}

void dwarf_index::add(file& f, Dwarf_Die* parent, std::uint32_t parent_entry) {
    Dwarf_Die die;
    for (int more = dwarf_child(parent, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
        auto const tag = static_cast<unsigned>(dwarf_tag(&die));
        bool const is_scope = tag == DW_TAG_namespace || tag == DW_TAG_subprogram;
        if (tag == DW_TAG_lexical_block) add(f, &die, parent_entry);
        if (!is_class(tag) && !is_scope && tag != DW_TAG_variable) continue;
        Dwarf_Attribute attribute;
        if (dwarf_attr(&die, DW_AT_declaration, &attribute) != nullptr && tag != DW_TAG_subprogram) continue;
        if (tag == DW_TAG_variable) {
            // Variables on a stack have no linkage, and those that are static have an address.
            if (dwarf_attr(&die, DW_AT_location, &attribute) == nullptr ||
                attribute.form == DW_FORM_loclistx || attribute.form == DW_FORM_sec_offset)
                continue;
            Dwarf_Op* ops = nullptr;
            std::size_t count = 0;
            if (dwarf_getlocation(&attribute, &ops, &count) != 0 || count == 0 ||
                (ops[0].atom != DW_OP_addr && ops[0].atom != DW_OP_addrx && ops[0].atom != DW_OP_const8u &&
                 ops[0].atom != DW_OP_constx))
                continue;
        }
        auto const i = static_cast<std::uint32_t>(f.entries.size());
        f.entries.push_back({dwarf_dieoffset(&die), parent_entry, static_cast<std::uint16_t>(tag)});
        if (!is_scope) {
            if (std::string const name = text_in(die, DW_AT_name); !name.empty())
                f.by_hash.emplace_back(hash_of(last_part(name)), i);
        }
        if (Dwarf_Addr begin = 0; tag == DW_TAG_subprogram && dwarf_lowpc(&die, &begin) == 0 && begin != 0)
            f.functions.emplace_back(begin, i);
        if (tag != DW_TAG_variable) add(f, &die, i);
    }
}

std::string dwarf_index::qualified_name(file& f, std::uint32_t i) {
    std::string name;
    for (; i != k_none; i = f.entries[i].parent) {
        Dwarf_Die die;
        if (dwarf_offdie(f.dwarf, f.entries[i].offset, &die) == nullptr) break;
        std::string part;
        bool is_complete = false;
        if (unsigned const tag = f.entries[i].tag; tag == DW_TAG_subprogram || tag == DW_TAG_variable) {
            part = demangle(text_in(die, DW_AT_linkage_name));
            is_complete = !part.empty();
        }
        if (part.empty()) part = text_in(die, DW_AT_name);
        if (part.empty()) continue;  // an anonymous namespace or union
        name = name.empty() ? part : part + "::" + name;
        if (is_complete) break;
    }
    return name;
}

std::optional<Dwarf_Die> dwarf_index::find(std::string const& name, bool is_variable) {
    auto const [known, is_new] = m_found.try_emplace({name, is_variable});
    if (!is_new) return known->second;
    if (!m_is_built) build();
    std::string const key = key_of(name);
    std::uint32_t const hash = hash_of(last_part(name));
    for (file& f : m_files)
        for (auto at = std::ranges::lower_bound(f.by_hash, std::pair(hash, std::uint32_t{0}));
             at != f.by_hash.end() && at->first == hash; ++at) {
            entry const& e = f.entries[at->second];
            if ((e.tag == DW_TAG_variable) != is_variable || key_of(qualified_name(f, at->second)) != key)
                continue;
            Dwarf_Die die;
            if (dwarf_offdie(f.dwarf, e.offset, &die) != nullptr) return known->second = die;
        }
    return {};
}

dwarf_index::entry const* dwarf_index::entry_of(file const& f, Dwarf_Off offset) {
    auto const at = std::ranges::lower_bound(f.entries, offset, {}, &entry::offset);
    return at != f.entries.end() && at->offset == offset ? &*at : nullptr;
}

std::optional<Dwarf_Die> dwarf_index::class_of_function(address function) {
    if (!m_is_built) build();
    for (file& f : m_files) {
        if (function < f.begin || function >= f.end) continue;
        auto const at = std::ranges::lower_bound(f.functions, std::pair(function - f.bias, std::uint32_t{0}));
        if (at == f.functions.end() || at->first != function - f.bias) return {};
        // From the code to its declaration, which lies in the class.
        Dwarf_Die die;
        if (dwarf_offdie(f.dwarf, f.entries[at->second].offset, &die) == nullptr) return {};
        for (unsigned const attribute : {DW_AT_abstract_origin, DW_AT_specification}) {
            Dwarf_Attribute found;
            Dwarf_Die next;
            if (dwarf_attr(&die, attribute, &found) != nullptr && dwarf_formref_die(&found, &next) != nullptr)
                die = next;
        }
        entry const* const declaration = entry_of(f, dwarf_dieoffset(&die));
        if (declaration == nullptr || declaration->parent == k_none) return {};
        entry const& parent = f.entries[declaration->parent];
        if (!is_class(parent.tag) || dwarf_offdie(f.dwarf, parent.offset, &die) == nullptr) return {};
        return die;
    }
    return {};
}

std::optional<Dwarf_Die> dwarf_index::find_class(std::string const& name) { return find(name, false); }
std::optional<Dwarf_Die> dwarf_index::find_variable(std::string const& name) { return find(name, true); }

std::string dwarf_index::type_name(Dwarf_Die type) {
    unsigned const tag = static_cast<unsigned>(dwarf_tag(&type));
    auto const target = [&] {
        auto const to = type_of(type);
        return to ? type_name(*to) : "void";
    };
    if (tag == DW_TAG_pointer_type) return target() + "*";
    if (tag == DW_TAG_array_type) return target() + "[]";
    if (!is_class(tag)) return pretty(text_in(type, DW_AT_name));
    if (!m_is_built) build();
    Dwarf_Off const offset = dwarf_dieoffset(&type);
    Dwarf* const dwarf = dwarf_cu_getdwarf(type.cu);
    auto const [known, is_new] = m_names.try_emplace({dwarf, offset});
    if (!is_new) return known->second;
    std::string name = text_in(type, DW_AT_name);
    for (file& f : m_files) {
        if (f.dwarf != dwarf) continue;
        if (entry const* const e = entry_of(f, offset))
            name = qualified_name(f, static_cast<std::uint32_t>(e - f.entries.data()));
    }
    return known->second = pretty(name);
}

}  // namespace poolheap
