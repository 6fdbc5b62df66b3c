// SPDX-License-Identifier: BSL-1.0

// What lies in a block or a variable, by debug information: (Session, 24) is `conn`. Goes through base classes, nested classes and arrays;
// stops at a class of the standard library or of pooled, so a std::shared_ptr's two words have one name. A pointer's type also says what a
// block is that says nothing about itself: elements of a vector, nodes of a map, a plain object.
#include "naming.hpp"
#include "pretty.hpp"
#include "symbols.hpp"

#include <algorithm>
#include <unordered_map>

namespace poolheap {
namespace {

// Offsets that lie farther inside have one name when the table has so many, so that large arrays do not fill it.
constexpr std::uint64_t k_far = 65'536, k_most_known = 262'144;

// What is known about classes of libraries, by the begins of their names.
enum role : unsigned {
    transparent = 1,  // its members have names of their own
    node_base = 2,    // the declared type of a container's links, without the value
    weak = 4,
    raw = 8,
    array = 16,
    counted = 32,  // leads to an object behind a header of pooled's counts
    library = 64,
};
struct role_prefixes {
    unsigned roles;
    std::initializer_list<std::string_view> prefixes;
};
role_prefixes const k_roles[]{
    {library, {"std::", "__gnu_cxx::", "pooled::"}},
    {transparent, {"std::pair<", "std::array<", "__gnu_cxx::__aligned_", "std::__detail::_Hash_node_"}},
    {node_base, {"std::__detail::_List_node_base", "std::__detail::_Hash_node_base"}},
    {transparent | node_base,
     {"std::_List_node_base", "std::_Rb_tree_node_base", "std::__list_node_base<", "std::__tree_node_base<",
      "std::__tree_end_node<", "std::__hash_node_base<"}},
    {weak,
     {"std::weak_ptr<", "std::__weak_ptr<", "std::enable_shared_from_this<", "pooled::enable_rc_from_this<"}},
    {weak | counted, {"pooled::weak_rc_ptr<", "pooled::weak_local_rc_ptr<"}},
    {counted, {"pooled::rc_ptr<", "pooled::local_rc_ptr<"}},
    {raw,
     {"std::reference_wrapper<", "std::span<", "std::string_view", "std::basic_string_view<",
      "std::_Rb_tree_iterator<", "std::_List_iterator<", "__gnu_cxx::__normal_iterator<",
      "std::__map_iterator<", "std::__list_iterator<", "std::__wrap_iter<"}},
    {array, {"std::vector<", "std::deque<", "std::string", "std::basic_string<", "std::valarray<"}}};

// Nodes, what a user calls them, and the container whose argument of that number is the value.
struct node_class {
    std::string_view prefix, text, end, container;
    unsigned argument;
};
constexpr node_class k_nodes[]{
    {"std::_Rb_tree_node<", "map node of ", ">", "std::_Rb_tree<", 1},
    {"std::_List_node<", "list node of ", ">", "std::_List_base<", 0},
    {"std::__detail::_Hash_node<", "hash node of ", ",false>", "std::_Hashtable<", 1},
    {"std::__detail::_Hash_node<", "hash node of ", ",true>", "std::_Hashtable<", 1},
    {"std::__tree_node<", "map node of ", ",void*>", "std::__tree<", 0},
    {"std::__list_node<", "list node of ", ",void*>", "std::__list_imp<", 0},
    {"std::__hash_node<", "hash node of ", ",void*>", "std::__hash_table<", 0},
};

unsigned roles_of(std::string_view name) {
    unsigned roles = 0;
    for (auto const& [role, prefixes] : k_roles)
        if (std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); }))
            roles |= role;
    return roles;
}
node_class const* node_of(std::string_view name) {
    auto const found =
        std::ranges::find_if(k_nodes, [&](node_class const& n) { return name.starts_with(n.prefix); });
    return found == std::end(k_nodes) ? nullptr : found;
}

// "std::_Rb_tree_node<V>" as "map node of V".
std::string readable(std::string const& name) {
    node_class const* const node = node_of(name);
    return node == nullptr ? name : std::string(node->text).append(template_argument(name, node->prefix));
}

std::optional<Dwarf_Die> template_parameter(Dwarf_Die of, unsigned index = 0) {
    for (Dwarf_Die const& child : children(of))
        if (tag_of(child) == DW_TAG_template_type_parameter && index-- == 0) return type_of(child);
    return {};
}

std::uint64_t bytes_of(Dwarf_Die type) {
    Dwarf_Word bytes = 0;
    return dwarf_aggregate_size(&type, &bytes) == 0 ? bytes : 0;
}

// The member or base class of `of` that contains the offset; which is then counted from its begin.
std::optional<Dwarf_Die> child_at(Dwarf_Die of, std::uint64_t& offset) {
    std::optional<Dwarf_Die> best;
    std::uint64_t best_bytes = 0, best_begin = 0;
    // Of classes with virtual bases the innermost: these count for the bytes of each.
    auto const order = [](std::uint64_t begin, std::uint64_t bytes) {
        return std::tuple(bytes >= sizeof(address), begin, bytes);
    };
    for (Dwarf_Die const& child : children(of)) {
        unsigned const tag = tag_of(child);
        if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || has(child, DW_AT_external))
            continue;  // static
        auto const type = type_of(child);
        auto const begin = tag_of(of) == DW_TAG_union_type ? std::optional<std::uint64_t>(0)
                                                           : number_in(child, DW_AT_data_member_location);
        if (!type || !begin) continue;  // a virtual base's place is known to the program alone
        std::uint64_t const bytes = bytes_of(*type);
        // Of a union the largest; an empty base may have the same offset as a member.
        if (offset < *begin || offset - *begin >= bytes ||
            order(*begin, bytes) <= order(best_begin, best_bytes))
            continue;
        best = child, best_bytes = bytes, best_begin = *begin;
    }
    offset -= best_begin;
    return best;
}

// Where a word lies: the classes that contain it, outermost first, with their names; and its own type.
using class_path = std::vector<std::pair<Dwarf_Die, std::string>>;

class image_naming final : public naming {
public:
    image_naming(image const& from, heap const& blocks) : m_image(from), m_heap(blocks), m_symbols(from) {}

    block_numbers name_all() override { return types_of_blocks(m_image, m_heap, m_symbols, *this); }

    member const& at(type_id_t holder, std::uint64_t offset) override {
        find_class(holder);
        type const& t = (*this)[holder];
        // What lies behind an object to which a plain pointer leads is another element, or a part of a derived class.
        bool const is_behind = t.element_bytes != 0 && !t.is_array() &&
                               offset >= std::uint64_t{t.object_offset} + t.element_bytes;
        if (t.element_bytes != 0) offset = t.member_offset(offset);
        constexpr std::uint64_t k_all = 0x7fffffff;
        bool const is_shared = offset >= k_all || (offset >= k_far && m_members.size() >= k_most_known);
        auto const [known, is_new] = m_members.try_emplace(
            std::uint64_t{holder} << 32 | std::uint64_t{is_behind} << 31 | (is_shared ? k_all : offset));
        member& found = known->second;
        if (!is_new) return found;
        if (is_shared) {
            found.name = "[...]";
        } else if (t.layout && offset >= t.object_offset) {
            std::uint64_t const bytes = bytes_of(*t.layout), within = offset - t.object_offset;
            if (t.is_array() || within < bytes || bytes == 0) {
                found = member_at(*t.layout, t.is_array() && bytes != 0 ? within % bytes : within);
                if (is_behind) found.how = strength::unknown;
                if (t.is_array()) found.name.insert(0, found.name.empty() ? "[]" : "[].");
            } else if (t.name.find(" + n × ") != std::string::npos) {
                found.name = "tail[]";
            }
        }
        return found;
    }

    std::optional<variable> global(address at) override {
        auto const s = m_symbols.find(at);
        if (!s) return {};
        // Several files may have a variable of this name. The address of one that a program has instead of its library, as for a copy
        // relocation, has no debug information.
        auto const [known, is_new] = m_variables.try_emplace(s->begin, k_buffer);
        if (is_new) {
            auto die = m_symbols.find_die(s->begin);
            if (!die) die = m_symbols.find_die(s->name, true);
            known->second = add({.name = s->name,
                                 .kind = kind::variable,
                                 .is_looked_for = true,
                                 .layout = die ? type_of(*die) : std::nullopt});
        }
        return variable{s->name, s->begin, known->second};
    }

    std::string module_name(address at) const override {
        module const* const found = m_symbols.module_of(at);
        return found ? found->name() : std::string();
    }

private:
    void find_class(type_id_t id) {
        type& t = edit(id);
        if (t.is_nameless() || std::exchange(t.is_looked_for, true)) return;
        auto die = class_of(t);
        std::string const name = die ? m_symbols.type_name(*die) : "";
        bool const has_elements = name.starts_with("pooled::detail::shared_elements<");
        // The object is the last part of a control block, behind an allocator with state, and aligned.
        bool const is_within =
            die && t.kind == kind::shared && t.object_offset != 0 && (!t.is_array() || has_elements);
        auto const block = is_within ? m_symbols.class_of_function(t.function) : std::nullopt;
        std::uint64_t const bytes = die ? bytes_of(*die) : 0;
        if (block && bytes_of(*block) >= bytes + t.object_offset)
            t.object_offset = static_cast<std::uint32_t>((bytes_of(*block) - bytes) / 8 * 8);
        if (has_elements) t.object_offset += static_cast<std::uint32_t>(bytes);  // elements are behind it
        if (has_elements || name.starts_with("pooled::with_tail<"))
            die = template_parameter(*die);
        else if (die && tag_of(*die) == DW_TAG_array_type)
            die = type_of(*die);
        t.layout = die;
    }

    // Of an object with a tail and of the elements of an array that pooled made: the class that has both.
    [[nodiscard]] std::optional<Dwarf_Die> class_of(type const& t) {
        if (auto const of = t.function != 0 ? m_symbols.class_of_function(t.function) : std::nullopt) {
            auto found = template_parameter(*of, t.argument);
            if (found && tag_of(*found) == DW_TAG_pointer_type) found = type_of(*found);
            if (found) return found;
        }
        std::string name = t.name.substr(0, t.name.find(" + n × "));
        if (t.is_array()) name.resize(name.size() - 2);
        return m_symbols.find_die(name, false);
    }

    [[nodiscard]] member member_at(Dwarf_Die die, std::uint64_t offset) {
        member found;
        class_path classes;
        bool is_named = false;  // within a class of a library: the name is complete
        for (int depth = 0; depth < 64; ++depth) {
            unsigned const tag = tag_of(die);
            if (tag == DW_TAG_array_type) {
                auto const element = type_of(die);
                std::uint64_t const bytes = element ? bytes_of(*element) : 0;
                if (bytes == 0) return found;
                if (!is_named) found.name += "[]";
                offset %= bytes;
                die = *element;
                continue;
            }
            if (!is_class(tag)) {
                if (found.how == strength::unknown && is_pointer(tag)) found.how = strength::raw;
                found.pointee = pointee(classes, die);
                return found;
            }
            std::string const name = m_symbols.type_name(die);
            unsigned const roles = roles_of(name);
            classes.emplace_back(die, name);
            bool const is_node = (roles & transparent) != 0 || node_of(name) != nullptr;
            if (!is_named && !is_node && (roles & library) != 0) {
                is_named = true;
                found.how = roles & weak ? strength::weak : roles & raw ? strength::raw : strength::strong;
                for (std::string_view const base :
                     {"std::enable_shared_from_this", "pooled::enable_rc_from_this"})
                    if (found.name.empty() && name.starts_with(base))
                        found.name = base.substr(base.find("enable"));
            }
            std::optional<Dwarf_Die> next;
            if (name.starts_with("__gnu_cxx::__aligned_")) {
                next = template_parameter(die);
            } else if (auto child = child_at(die, offset)) {
                next = type_of(*child);
                char const* const text = tag_of(*child) == DW_TAG_member ? dwarf_diename(&*child) : nullptr;
                std::string part = text != nullptr && !is_named ? text : "";
                if (is_node && part.starts_with('_') && part != "__value_" && next &&
                    is_pointer(tag_of(*next))) {
                    part = "link";
                    found.how = strength::strong;
                } else if (is_node && part.starts_with('_')) {
                    part.clear();
                } else if (part.starts_with("__")) {
                    part.erase(0, 2);  // what a lambda captures
                }
                if (!part.empty() && !found.name.empty()) found.name += ".";
                found.name += part;
            }
            if (!next) return found;
            die = *next;
        }
        return found;
    }

    type_id_t add_pointee(Dwarf_Die die, bool is_array, kind k) {
        auto const [at, is_new] = m_pointees.try_emplace({die.addr, is_array, k}, k_buffer);
        std::string const name = is_new ? readable(m_symbols.type_name(die)) : "";
        if (!is_new || name.empty()) return at->second;
        return at->second = add(
                   {.name = name + (is_array ? "[]" : ""),
                    .kind = k,
                    .object_offset = k == kind::rc || k == kind::unique ? 8U : 0U,
                    .element_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes_of(die), ~0U)),
                    .is_looked_for = true,
                    .layout = die});
    }

    [[nodiscard]] type_id_t pointee(class_path const& classes, Dwarf_Die word) {
        bool is_array = classes.empty(),
             is_unique = false;  // elements of an array of pointers: a deque has one
        for (auto const& [die, name] : classes) {
            unsigned const roles = roles_of(name);
            if (roles & counted) {
                auto const object = template_parameter(die);
                return object ? add_pointee(*object, false, kind::rc) : k_buffer;
            }
            is_array |= (roles & array) != 0;
            is_unique |=
                name.starts_with("pooled::deleter<") ||
                (name.starts_with("std::unique_ptr<") && name.find("pooled::deleter<") != std::string::npos);
        }
        auto const target = is_pointer(tag_of(word)) ? type_of(word) : std::nullopt;
        if (!target || tag_of(*target) == DW_TAG_subroutine_type) return k_buffer;
        std::string const name = m_symbols.type_name(*target);
        // These say themselves what they are.
        if (name.starts_with("std::_Sp_counted_base<") || name == "std::__shared_weak_count") return k_buffer;
        if (!(roles_of(name) & node_base))
            return add_pointee(*target, is_array, is_unique ? kind::unique : kind::buffer);
        for (auto c = classes.rbegin(); c != classes.rend(); ++c) {
            if (node_of(c->second) != nullptr) return add_pointee(c->first, false, kind::buffer);
            for (node_class const& n : k_nodes)
                if (c->second.starts_with(n.container))
                    if (auto const node = m_symbols.find_die(
                            std::string(n.prefix)
                                .append(template_argument(c->second, n.container, n.argument))
                                .append(n.end),
                            false))
                        return add_pointee(*node, false, kind::buffer);
        }
        return k_buffer;
    }

    image const& m_image;
    heap const& m_heap;
    symbols m_symbols;
    std::unordered_map<std::uint64_t, member> m_members;  // by type and offset
    std::unordered_map<address, type_id_t> m_variables;
    std::map<std::tuple<void*, bool, kind>, type_id_t> m_pointees;
};

}  // namespace

std::unique_ptr<naming> names_of(image const& from, heap const& blocks) {
    return std::make_unique<image_naming>(from, blocks);
}

}  // namespace poolheap
