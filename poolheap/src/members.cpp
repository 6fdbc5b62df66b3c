// SPDX-License-Identifier: BSL-1.0
#include "members.hpp"

#include "dwarf_index.hpp"
#include "pretty.hpp"

#include <dwarf.h>

#include <algorithm>

namespace poolheap {
namespace {

// Offsets that lie farther inside have one name, so that large arrays do not fill the table of names.
constexpr std::uint64_t k_far = 4096;

std::string offset_name(std::uint64_t offset) {
    if (offset >= k_far) return "[...]";
    std::string name(1, '+');
    return name += std::to_string(offset);
}

bool starts_with_any(std::string_view name, std::span<std::string_view const> prefixes) {
    return std::ranges::any_of(prefixes, [&](std::string_view p) { return name.starts_with(p); });
}

constexpr std::string_view k_libraries[]{
    "std::", "__gnu_cxx::", "pooled::", "boost::shared_ptr<", "boost::weak_ptr<", "boost::intrusive_ptr<"};
constexpr std::string_view k_nodes[]{"std::_Rb_tree_node<", "std::_List_node<",  "std::__detail::_Hash_node<",
                                     "std::__tree_node<",   "std::__list_node<", "std::__hash_node<"};
// Classes of the library whose members have names of their own.
constexpr std::string_view k_transparent[]{"std::pair<",
                                           "std::array<",
                                           "std::__value_type<",
                                           "std::__hash_value_type<",
                                           "std::_List_node_base",
                                           "std::_Rb_tree_node_base",
                                           "std::__detail::_Hash_node_",
                                           "std::__list_node_base<",
                                           "std::__tree_node_base<",
                                           "std::__tree_end_node<",
                                           "std::__hash_node_base<",
                                           "__gnu_cxx::__aligned_"};
constexpr std::string_view k_node_bases[]{"std::_List_node_base",           "std::_Rb_tree_node_base",
                                          "std::__detail::_Hash_node_base", "std::__detail::_List_node_base",
                                          "std::__list_node_base<",         "std::__tree_node_base<",
                                          "std::__tree_end_node<",          "std::__hash_node_base<"};
constexpr std::string_view k_links[]{"_M_parent", "_M_left",  "_M_right",  "_M_next", "_M_prev", "_M_nxt",
                                     "__left_",   "__right_", "__parent_", "__next_", "__prev_"};
constexpr std::string_view k_weak[]{
    "std::weak_ptr<",       "std::__weak_ptr<",           "std::enable_shared_from_this<", "boost::weak_ptr<",
    "pooled::weak_rc_ptr<", "pooled::local_weak_rc_ptr<", "pooled::rc_from_this<"};
constexpr std::string_view k_raw[]{"std::reference_wrapper<", "std::span<",
                                   "std::string_view",        "std::basic_string_view<",
                                   "std::coroutine_handle<",  "std::_Rb_tree_iterator<",
                                   "std::_List_iterator<",    "__gnu_cxx::__normal_iterator<",
                                   "std::__map_iterator<",    "std::__list_iterator<",
                                   "std::__wrap_iter<"};
constexpr std::string_view k_arrays[]{"std::vector<", "std::deque<", "std::string", "std::basic_string<",
                                      "std::valarray<"};
constexpr std::string_view k_counted[]{"pooled::rc_ptr<", "pooled::local_rc_ptr<", "pooled::weak_rc_ptr<",
                                       "pooled::local_weak_rc_ptr<"};

strength strength_of(std::string_view library_class) {
    if (starts_with_any(library_class, k_weak)) return strength::weak;
    return starts_with_any(library_class, k_raw) ? strength::raw : strength::strong;
}

std::optional<Dwarf_Die> template_parameter(Dwarf_Die of, unsigned index = 0) {
    Dwarf_Die child;
    for (int more = dwarf_child(&of, &child); more == 0; more = dwarf_siblingof(&child, &child))
        if (dwarf_tag(&child) == DW_TAG_template_type_parameter && index-- == 0) return type_of(child);
    return {};
}

std::uint64_t bytes_of(Dwarf_Die type) {
    Dwarf_Word bytes = 0;
    return dwarf_aggregate_size(&type, &bytes) == 0 ? bytes : 0;
}

std::uint64_t alignment_of(Dwarf_Die type, int depth = 0) {
    std::uint64_t most = number_in(type, DW_AT_alignment).value_or(1);
    if (int const tag = dwarf_tag(&type); tag == DW_TAG_base_type || tag == DW_TAG_pointer_type)
        return std::max(most, std::min<std::uint64_t>(bytes_of(type), 16));
    if (dwarf_tag(&type) == DW_TAG_array_type)
        if (auto const element = type_of(type)) return std::max(most, alignment_of(*element, depth + 1));
    Dwarf_Die child;
    for (int more = depth < 32 ? dwarf_child(&type, &child) : 1; more == 0;
         more = dwarf_siblingof(&child, &child))
        if (dwarf_tag(&child) == DW_TAG_member || dwarf_tag(&child) == DW_TAG_inheritance)
            if (auto const of = type_of(child)) {
                most = std::max(
                    {most, number_in(child, DW_AT_alignment).value_or(1), alignment_of(*of, depth + 1)});
            }
    return most;
}

// The class that a head or link of a container leads to: its declared type is a base without the value.
struct node_class {
    std::string_view container;
    unsigned argument;  // the value, among those of the container
    std::string_view node;
    std::string_view end;
};
constexpr node_class k_node_classes[]{
    {"std::_Rb_tree<", 1, "std::_Rb_tree_node<", ">"},
    {"std::_List_base<", 0, "std::_List_node<", ">"},
    {"std::_Hashtable<", 1, "std::__detail::_Hash_node<", ",false>"},
    {"std::_Hashtable<", 1, "std::__detail::_Hash_node<", ",true>"},
    {"std::__tree<", 0, "std::__tree_node<", ",void*>"},
    {"std::__list_imp<", 0, "std::__list_node<", ",void*>"},
    {"std::__hash_table<", 0, "std::__hash_node<", ",void*>"},
};
std::vector<std::string> node_names(std::string const& enclosing) {
    if (starts_with_any(enclosing, k_nodes)) return {enclosing};
    std::vector<std::string> names;
    for (node_class const& c : k_node_classes)
        if (enclosing.starts_with(c.container))
            names.emplace_back(c.node)
                .append(template_argument(enclosing, c.container, c.argument))
                .append(c.end);
    return names;
}

// "std::_Rb_tree_node<V>" as "map node of V".
std::string readable(std::string const& name) {
    constexpr std::pair<std::string_view, std::string_view> k_names[]{
        {"std::_Rb_tree_node<", "map node of "},         {"std::__tree_node<", "map node of "},
        {"std::_List_node<", "list node of "},           {"std::__list_node<", "list node of "},
        {"std::__detail::_Hash_node<", "hash node of "}, {"std::__hash_node<", "hash node of "}};
    for (auto const& [prefix, text] : k_names) {
        if (!name.starts_with(prefix)) continue;
        std::string_view value = template_argument(name, prefix);
        for (std::string_view const wrapped : {"std::__value_type<", "std::__hash_value_type<"})
            if (value.starts_with(wrapped))
                return std::string(text) + "std::pair<" + std::string(value.substr(wrapped.size()));
        return std::string(text) + std::string(value);
    }
    return name;
}

}  // namespace

struct members::state {
    // What lies at an offset in a type: the way there, and the word itself.
    struct place {
        std::string path;
        strength how = strength::unknown;
        std::vector<std::pair<Dwarf_Die, std::string>> classes;  // that contain it, with their names
        std::optional<Dwarf_Die> word;                           // its type; empty: not known
    };

    type_namer& types;
    dwarf_index index;
    std::vector<Dwarf_Die> layouts;
    std::unordered_map<type_id_t, std::int32_t> layout_of;  // -1: none
    std::unordered_map<std::uint64_t, member> known;        // by type and offset
    std::map<std::pair<std::string, std::uint64_t>, member> known_globals;
    std::map<std::pair<type_id_t, std::uint64_t>, std::optional<type_id_t>> known_pointees;
    std::map<std::tuple<void*, bool, kind>, type_id_t> pointee_types;

    state(symbols const& names, type_namer& t) : types(t), index(names) {}

    std::optional<Dwarf_Die> layout(type_id_t id) {
        auto const [known_layout, is_new] = layout_of.try_emplace(id, -1);
        type const& t = types[id];
        if (t.layout >= 0) return layouts[static_cast<std::size_t>(t.layout)];
        if (is_new)
            if (auto const die = find_class(t)) {
                known_layout->second = static_cast<std::int32_t>(layouts.size());
                layouts.push_back(*die);
                if (std::uint64_t const align = alignment_of(*die); t.kind == kind::shared && align > 8)
                    types.set_object_offset(
                        id, static_cast<std::uint32_t>((t.object_offset + align - 1) / align * align));
            }
        return known_layout->second < 0
                   ? std::nullopt
                   : std::optional(layouts[static_cast<std::size_t>(known_layout->second)]);
    }

    std::optional<Dwarf_Die> find_class(type const& t) {
        std::size_t const tail = t.name.find(" + n × ");
        if (auto const of = t.function != 0 ? index.class_of_function(t.function) : std::nullopt) {
            auto found = template_parameter(*of, t.argument);
            if (found && dwarf_tag(&*found) == DW_TAG_pointer_type) found = type_of(*found);
            if (found && tail != std::string::npos) found = template_parameter(*found);
            if (found) return found;
        }
        std::string name = t.name.substr(0, tail);
        if (name.ends_with("[]")) name.resize(name.size() - 2);
        return name.empty() ? std::nullopt : index.find_class(name);
    }

    // The member or base class of `of` that contains the offset; which is then counted from its begin.
    static std::optional<Dwarf_Die> child_at(Dwarf_Die of, std::uint64_t& offset) {
        std::optional<Dwarf_Die> best;
        std::uint64_t best_bytes = 0;
        std::uint64_t best_begin = 0;
        Dwarf_Die child;
        for (int more = dwarf_child(&of, &child); more == 0; more = dwarf_siblingof(&child, &child)) {
            int const tag = dwarf_tag(&child);
            if (tag != DW_TAG_member && tag != DW_TAG_inheritance) continue;
            Dwarf_Attribute attribute;
            if (dwarf_attr(&child, DW_AT_external, &attribute) != nullptr) continue;  // static
            auto const type = type_of(child);
            bool const is_union = dwarf_tag(&of) == DW_TAG_union_type;
            auto const begin =
                is_union ? std::optional<std::uint64_t>(0) : number_in(child, DW_AT_data_member_location);
            if (!type || !begin) continue;  // a virtual base's place is known to the program alone
            std::uint64_t const bytes = bytes_of(*type);
            // Of a union the largest; an empty base may have the same offset as a member.
            if (offset < *begin || offset - *begin >= bytes || bytes <= best_bytes) continue;
            best = child;
            best_bytes = bytes;
            best_begin = *begin;
        }
        offset -= best_begin;
        return best;
    }

    place find(Dwarf_Die die, std::uint64_t offset) {
        place found;
        bool is_named = false;  // within a class of a library: the name is complete
        for (int depth = 0; depth < 64; ++depth) {
            switch (dwarf_tag(&die)) {
            case DW_TAG_array_type: {
                auto const element = type_of(die);
                std::uint64_t const bytes = element ? bytes_of(*element) : 0;
                if (bytes == 0) return found;
                if (!is_named) found.path += "[]";
                offset %= bytes;
                die = *element;
                break;
            }
            case DW_TAG_structure_type:
            case DW_TAG_class_type:
            case DW_TAG_union_type: {
                std::string const name = index.type_name(die);
                found.classes.emplace_back(die, name);
                bool const is_node = starts_with_any(name, k_nodes) || starts_with_any(name, k_transparent);
                if (!is_named && !is_node && starts_with_any(name, k_libraries)) {
                    is_named = true;
                    found.how = strength_of(name);
                    if (found.path.empty() && name.starts_with("std::enable_shared_from_this<"))
                        found.path = "enable_shared_from_this";
                }
                if (name.starts_with("__gnu_cxx::__aligned_")) {
                    auto const value = template_parameter(die);
                    if (!value) return found;
                    die = *value;
                    break;
                }
                auto const child = child_at(die, offset);
                if (!child) return found;
                Dwarf_Die member_die = *child;
                char const* const text =
                    dwarf_tag(&member_die) == DW_TAG_member ? dwarf_diename(&member_die) : nullptr;
                if (std::string part = text != nullptr ? text : ""; !is_named && !part.empty()) {
                    if (is_node && std::ranges::find(k_links, part) != std::end(k_links)) {
                        part = "link";
                        found.how = strength::strong;
                    } else if (is_node && (part[0] == '_')) {
                        part.clear();
                    } else if (part.starts_with("__")) {
                        part.erase(0, 2);  // what a lambda captures
                    }
                    if (!part.empty() && !found.path.empty()) found.path += ".";
                    found.path += part;
                }
                auto const type = type_of(member_die);
                if (!type) return found;
                die = *type;
                break;
            }
            default:
                found.word = die;
                if (int const tag = dwarf_tag(&die);
                    found.how == strength::unknown &&
                    (tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type))
                    found.how = strength::raw;
                return found;
            }
        }
        return found;
    }

    std::optional<type_id_t> add_pointee(Dwarf_Die die, bool is_array, kind k) {
        auto const [at, is_new] = pointee_types.try_emplace({die.addr, is_array, k}, k_buffer);
        if (!is_new) return at->second;
        std::uint64_t const bytes = bytes_of(die);
        std::string name = readable(index.type_name(die));
        if (name.empty()) return {};
        type t;
        t.name = name + (is_array ? "[]" : "");
        t.kind = k;
        t.object_offset = k == kind::rc || k == kind::unique ? 8 : 0;
        t.element_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, ~std::uint32_t{0}));
        t.layout = static_cast<std::int32_t>(layouts.size());
        layouts.push_back(die);
        return at->second = types.add(std::move(t));
    }

    std::optional<type_id_t> pointee(place const& from) {
        if (!from.word) return {};
        Dwarf_Die word = *from.word;
        auto const inside = [&](std::span<std::string_view const> of) {
            return std::ranges::find_if(from.classes,
                                        [&](auto const& c) { return starts_with_any(c.second, of); });
        };
        if (auto const counted = inside(k_counted); counted != from.classes.end()) {
            auto const object = template_parameter(counted->first);
            return object ? add_pointee(*object, false, kind::rc) : std::nullopt;
        }
        if (dwarf_tag(&word) != DW_TAG_pointer_type && dwarf_tag(&word) != DW_TAG_reference_type) return {};
        auto target = type_of(word);
        if (!target || dwarf_tag(&*target) == DW_TAG_subroutine_type) return {};
        std::string const name = index.type_name(*target);
        // These say themselves what they are.
        if (name.starts_with("std::_Sp_counted_base<") || name == "std::__shared_weak_count") return {};
        if (starts_with_any(name, k_node_bases)) {
            target.reset();
            for (auto c = from.classes.rbegin(); c != from.classes.rend() && !target; ++c)
                for (std::string const& node : node_names(c->second))
                    if (!target) target = index.find_class(node);
            return target ? add_pointee(*target, false, kind::buffer) : std::nullopt;
        }
        constexpr std::string_view k_deleter[]{"pooled::deleter<"};
        bool const is_ours =
            inside(k_deleter) != from.classes.end() || std::ranges::any_of(from.classes, [](auto const& c) {
                return c.second.starts_with("std::unique_ptr<") &&
                       c.second.find("pooled::deleter<") != std::string::npos;
            });
        // Elements of an array of pointers lead to arrays: a deque has one.
        return add_pointee(*target, from.classes.empty() || inside(k_arrays) != from.classes.end(),
                           is_ours ? kind::unique : kind::buffer);
    }

    std::optional<place> place_of(type_id_t holder, std::uint64_t offset) {
        auto const die = layout(holder);
        type const& t = types[holder];
        if (!die || offset < t.object_offset) return {};
        offset -= t.object_offset;
        std::uint64_t const bytes = bytes_of(*die);
        bool const is_array = t.name.ends_with("[]") || t.element_bytes != 0;
        if (is_array && bytes != 0) offset %= bytes;
        if (offset >= bytes) {
            place tail;
            if (t.name.find(" + n × ") != std::string::npos) tail.path = "tail[]";
            return tail;
        }
        place found = find(*die, offset);
        if (t.name.ends_with("[]")) found.path.insert(0, found.path.empty() ? "[]" : "[].");
        return found;
    }

    std::optional<place> place_of_global(std::string const& name, std::uint64_t offset) {
        auto const variable = index.find_variable(name);
        auto const type = variable ? type_of(*variable) : std::nullopt;
        if (!type) return {};
        return find(*type, offset);
    }
};

members::members(symbols const& names, type_namer& types) : m_state(std::make_unique<state>(names, types)) {}
members::~members() = default;

member const& members::at(type_id_t holder, std::uint64_t offset) {
    static_cast<void>(m_state->layout(holder));
    type const& t = m_state->types[holder];
    // What lies behind an object to which a plain pointer leads is another element, or a part of a derived class.
    bool const is_behind = t.element_bytes != 0 &&
                           offset >= std::uint64_t{t.object_offset} + t.element_bytes &&
                           !t.name.ends_with("[]");
    if (t.element_bytes != 0 && offset >= t.object_offset)
        offset = t.object_offset + (offset - t.object_offset) % t.element_bytes;
    auto const [known, is_new] = m_state->known.try_emplace(
        std::uint64_t{holder} << 32 | std::uint64_t{is_behind} << 31 | std::min(offset, k_far));
    if (!is_new) return known->second;
    auto const place = m_state->place_of(holder, offset);
    if (place) known->second = {place->path, is_behind ? strength::unknown : place->how};
    if (known->second.name.empty()) known->second.name = offset_name(offset);
    return known->second;
}

void members::know_variable(std::string const& name, Dwarf_Die variable) {
    m_state->index.know_variable(name, variable);
}

member const& members::at_global(std::string const& name, std::uint64_t offset) {
    auto const [known, is_new] = m_state->known_globals.try_emplace({name, std::min(offset, k_far)});
    if (!is_new) return known->second;
    if (auto const place = m_state->place_of_global(name, offset))
        known->second = {place->path, place->how};
    else if (offset != 0)
        known->second.name = offset_name(offset);
    return known->second;
}

std::optional<type_id_t> members::pointee(type_id_t holder, std::uint64_t offset) {
    static_cast<void>(m_state->layout(holder));
    type const& t = m_state->types[holder];
    if (t.element_bytes != 0 && offset >= t.object_offset)
        offset = t.object_offset + (offset - t.object_offset) % t.element_bytes;
    if (offset > k_far * 16) return {};
    auto const [known, is_new] = m_state->known_pointees.try_emplace({holder, offset});
    if (is_new)
        if (auto const place = m_state->place_of(holder, offset)) known->second = m_state->pointee(*place);
    return known->second;
}

std::optional<type_id_t> members::global_pointee(std::string const& name, std::uint64_t offset) {
    auto const place = m_state->place_of_global(name, offset);
    return place ? m_state->pointee(*place) : std::nullopt;
}

bool members::has_debug_information() const { return !m_state->index.is_empty(); }

}  // namespace poolheap
