// SPDX-License-Identifier: BSL-1.0
#include "types.hpp"

#include "pretty.hpp"
#include "references.hpp"

#include <algorithm>
#include <array>
#include <sstream>

namespace poolheap {
namespace {

constexpr std::string_view k_kinds[]{"buffer", "shared",  "rc",        "unique",
                                     "object", "virtual", "coroutine", "variable"};

// Where a class derived from the library's control block has its object, by the class's name.
struct control_class {
    std::string_view prefix;
    std::int8_t object_word;   // the object lies there; -1: elsewhere
    std::int8_t pointer_word;  // a pointer to it lies there, or behind, where a deleter is in front; -1: none
    bool is_libcxx;
};
constexpr control_class k_control_classes[]{
    {"std::_Sp_counted_ptr_inplace<", 2, -1, false},
    {"std::_Sp_counted_ptr<", -1, 2, false},
    {"std::_Sp_counted_deleter<", -1, 2, false},
    {"std::_Sp_counted_array<", -1, 4, false},
    {"std::__shared_ptr_emplace<", 3, -1, true},
    {"std::__shared_ptr_pointer<", -1, 3, true},
    {"std::__unbounded_array_control_block<", 4, -1, true},
    {"std::__bounded_array_control_block<", 3, -1, true},
    {"boost::detail::sp_counted_impl_p<", -1, 2, false},
    {"boost::detail::sp_counted_impl_pd<", -1, 2, false},
    {"boost::detail::sp_counted_impl_pda<", -1, 2, false},
};

// The word in front of an object of make_rc or make_unique.
struct counted_header {
    std::uint32_t type;
    std::uint64_t weak;
    std::uint64_t strong;

    explicit counted_header(std::uint64_t word)
        : type(static_cast<std::uint32_t>(word >> 50)),
          weak(word >> 26 & 0xffffff),
          strong(word & 0x3ffffff) {}
};
constexpr std::size_t k_most_types = 0xfff0;
constexpr std::uint32_t k_first_type = 128;  // those below have no destructor to name

// "T*" and "std::allocator<T>" as T; "with_tail<T, E>" as "T + n × E".
std::string object_name(std::string_view argument) {
    if (argument.ends_with('*')) argument.remove_suffix(1);
    if (auto const of = template_argument(argument, "std::allocator<");
        argument.starts_with("std::allocator<"))
        return std::string(of) + "[]";
    if (argument.starts_with("pooled::with_tail<"))
        return std::string(template_argument(argument, "pooled::with_tail<")) + " + n × " +
               std::string(template_argument(argument, "pooled::with_tail<", 1));
    if (argument.starts_with("pooled::detail::shared_elements<"))
        return std::string(template_argument(argument, "pooled::detail::shared_elements<")) + "[]";
    return std::string(argument);
}

}  // namespace

std::string_view name_of(kind k) { return k_kinds[static_cast<std::size_t>(k)]; }

type_id_t naming::add(type t) {
    if (m_types.size() > k_most_types) return k_buffer;
    m_types.push_back(std::move(t));
    return static_cast<type_id_t>(m_types.size() - 1);
}

type_namer::type_namer(image const& from, heap const& blocks)
    : m_image(from), m_symbols(from), m_heap(blocks) {
    for (mapping const& m : from.mappings())
        if (m.executable)
            for (address i = m.begin / k_region, left = k_regions; i <= (m.end - 1) / k_region && left != 0;
                 ++i, --left)
                m_is_near_code[i % k_regions] = true;
}

type_id_t type_namer::add_ruled(type t, rule r) {
    type_id_t const id = add(std::move(t));
    if (id == k_buffer) return id;
    m_rules.resize(id + std::size_t{1});
    m_rules[id] = r;
    return id;
}

bool type_namer::is_code(address at) const {
    mapping const* const m = m_image.find_mapping(at);
    return m != nullptr && m->executable;
}

std::string type_namer::class_of_vtable(address vtable) const {
    module const* const in = m_symbols.module_of(vtable);
    if (vtable % 8 != 0 || in == nullptr) return {};
    std::array<address, 3> words{};  // offset to the top, type information, first function
    if (m_image.read(vtable - 16, std::as_writable_bytes(std::span(words))) != sizeof(words)) return {};
    if (words[0] != 0) return {};
    if (words[1] == 0) {  // -fno-rtti
        auto const symbol = m_symbols.find(vtable);
        constexpr std::string_view k_prefix = "vtable for ";
        if (symbol && symbol->name.starts_with(k_prefix)) return symbol->name.substr(k_prefix.size());
        if (symbol || !is_code(words[2])) return {};
        std::ostringstream place;
        place << "object with vtable " << in->name() << "+0x" << std::hex << vtable - in->bias;
        return place.str();
    }
    if (m_symbols.module_of(words[1]) == nullptr) return {};
    auto const name = m_image.get<address>(words[1] + 8);
    if (!name || m_symbols.module_of(*name) == nullptr) return {};
    std::string text = m_image.text(*name, 1 << 16);
    if (text.starts_with('*')) text.erase(0, 1);  // compared by address
    // Only classes have vtables: a mangled name begins with its length, or says that it is nested, local or std's.
    if (text.empty() ||
        (std::string_view("NSZ").find(text[0]) == std::string_view::npos && !std::isdigit(text[0])))
        return {};
    std::string found = demangle(text);
    return found == text ? std::string() : found;
}

type_id_t type_namer::type_of_vtable(address vtable) {
    std::string const name = pretty(class_of_vtable(vtable));
    // The bases are what a destroyed object's vtable pointer is left at.
    if (name.empty() || name.starts_with("std::_Sp_counted_base<") || name == "std::__shared_weak_count" ||
        name == "std::__shared_count")
        return k_buffer;
    type found{.name = name, .kind = kind::virtual_object};
    // Behind two destructors is a function that each of the classes in question overrides.
    found.function = m_image.get<address>(vtable + 16).value_or(0);
    constexpr std::string_view k_functor =
        "std::__function::__func<";  // what a std::function of libc++ calls
    if (name.starts_with(k_functor)) {
        found.name = template_argument(name, k_functor);
        found.object_offset = 8;
        return add(std::move(found));
    }
    auto const c = std::ranges::find_if(k_control_classes,
                                        [&](control_class const& c) { return name.starts_with(c.prefix); });
    if (c == std::end(k_control_classes)) {
        found.function = 0;
        return add(std::move(found));
    }
    rule r{.counts = c->is_libcxx ? rule::libcxx : rule::libstdcxx, .pointer_word = c->pointer_word};
    found.name = object_name(template_argument(name, c->prefix));
    found.kind = kind::shared;
    if (c->object_word >= 0) {
        found.object_offset = static_cast<std::uint32_t>(c->object_word * 8);
    } else {
        r.owned = add(found);
        found.function = 0;
        found.name = "control block of " + found.name;
    }
    return add_ruled(std::move(found), r);
}

type_id_t type_namer::type_of_coroutine(address resume, address destroy) {
    if (!is_code(destroy)) return k_buffer;
    auto const symbol = m_symbols.find(resume);
    if (!symbol || symbol->begin != resume) return k_buffer;
    std::string name = symbol->name;
    if (std::size_t const at = name.find(" [clone .resume]"); at != std::string::npos) {  // Clang
        name.resize(at);
    } else if (name.find("[clone .actor]") !=
               std::string::npos) {  // GCC: the parameter's class is named after the coroutine
        std::size_t const end = name.rfind(".Frame");
        std::size_t const begin = name.rfind("_Z", end);
        if (end == std::string::npos || begin == std::string::npos) return k_buffer;
        name = demangle(name.substr(begin, end - begin));
    } else {
        return k_buffer;
    }
    return add({.name = pretty(name), .kind = kind::coroutine});
}

type_id_t type_namer::type_of_functor(address manager) {
    auto const [known, is_new] = m_known.try_emplace(manager, k_buffer);
    if (!is_new || !is_code(manager)) return known->second;
    auto const symbol = m_symbols.find(manager);
    if (!symbol || symbol->begin != manager || symbol->name.find("_M_manager(") == std::string::npos)
        return k_buffer;
    std::string_view const name = template_argument(symbol->name, "std::_Function_handler<", 1);
    if (name.empty()) return k_buffer;
    return m_known[manager] = add({.name = pretty(std::string(name)), .function = manager, .argument = 1});
}

type_id_t type_namer::type_of_header(std::span<std::uint64_t const> words) {
    // Behind the length of an array, or what aligns an object.
    for (std::size_t at = 0; at < 2 && at < words.size(); ++at) {
        counted_header const header(words[at]);
        if (header.type < k_first_type || header.weak == 0) continue;
        auto const name = m_heap.counted_types.find(header.type);
        if (name == m_heap.counted_types.end()) continue;
        bool const is_unique = header.strong == 0 && header.weak == 1;
        auto const [known, is_new] = m_counted.try_emplace(
            std::uint64_t{header.type} << 2 | at << 1 | std::uint64_t{is_unique}, k_buffer);
        if (is_new)
            known->second = add_ruled({.name = object_name(pretty(name->second)),
                                       .kind = is_unique ? kind::unique : kind::rc,
                                       .object_offset = static_cast<std::uint32_t>(at * 8 + 8)},
                                      {.counts = rule::header, .header_word = static_cast<std::uint8_t>(at)});
        return known->second;
    }
    return k_buffer;
}

type_id_t type_namer::type_by_words(block_index b, std::span<std::uint64_t const> words) {
    if (words.empty()) return k_buffer;
    address const first = words[0];
    cached& c = m_cache[(first >> 3) * 0x9E3779B97F4A7C15 >> 52];
    // Most first words that are no vtable are no address in a file either.
    if (c.first != first && m_symbols.module_of(first) != nullptr) {
        auto const [known, is_new] = m_known.try_emplace(first, k_buffer);
        if (is_new && !is_code(first))
            known->second = type_of_vtable(first);
        else if (is_new && words.size() > 1)
            known->second = type_of_coroutine(first, words[1]);
        c = {first, m_known[first]};
    } else if (c.first != first) {
        c = {first, k_buffer};
    }
    // A recycled object's control block lies in front of it.
    rule const r = rule_of(c.id);
    if (r.pointer_word >= 0 && (*this)[c.id].kind == kind::shared)
        if (block const own = m_heap[b]; address const object = owned_by(b, c.id, words) - own.begin)
            if (object < own.bytes) {
                type& t = edit(c.id);
                t.name = (*this)[r.owned].name;
                t.kind = kind::object;
                m_is_recycling = true;
                t.object_offset = static_cast<std::uint32_t>(object);
                m_rules[c.id].owned = k_buffer;
            }
    return c.id != k_buffer || m_heap.counted_types.empty() ? c.id : type_of_header(words);
}

std::optional<counts> type_namer::counts_of(type_id_t id, std::span<std::uint64_t const> words) const {
    rule const r = rule_of(id);
    counts found;  // the weak count has one for all owners
    if (r.counts == rule::header && words.size() > r.header_word) {
        counted_header const h(words[r.header_word]);
        found = {(*this)[id].kind == kind::unique ? 1 : h.strong, h.weak};
    } else if (r.counts == rule::libstdcxx && words.size() >= 2) {
        found = {words[1] & 0xffffffff, words[1] >> 32};
    } else if (r.counts == rule::libcxx && words.size() >= 3) {
        found = {words[1] + 1, words[2] + 1};
    } else {
        return {};
    }
    found.weak -= found.owners != 0 ? 1 : 0;
    return found;
}

address type_namer::owned_by(block_index b, type_id_t id, std::span<std::uint64_t const> words) const {
    rule const r = rule_of(id);
    if (r.pointer_word < 0) return 0;
    // A deleter with captures lies in front of the pointer, so it is the first word that leads to a block;
    // the allocator of a recycled object leads to the begin of its own.
    for (std::size_t i = static_cast<std::size_t>(r.pointer_word); i < words.size(); ++i)
        if (words[i] != m_heap[b].begin && m_heap.find(words[i]).index != k_no_block) return words[i];
    return 0;
}

std::vector<type_id_t> type_namer::name_all() {
    std::vector<type_id_t> ids(m_heap.states.size(), k_buffer);
    reference_reader reader(m_image, m_heap);
    reader.first_words(naming::k_words, [&](block_index b, std::span<std::uint64_t const> words) {
        ids[b] = type_by_words(b, words);
    });
    // What others know about a block that does not say itself what it is: shared_ptr(new T), and a std::function of libstdc++.
    auto const name_other = [&](address at, type_id_t id) {
        block_index const to = id != k_buffer ? m_heap.find(at).index : k_no_block;
        if (to != k_no_block && ids[to] == k_buffer) ids[to] = id;
    };
    reader.first_words(k_scanned / 8, [&](block_index b, std::span<std::uint64_t const> words) {
        if (type_id_t const owned = rule_of(ids[b]).owned; owned != k_buffer)
            name_other(owned_by(b, ids[b], words), owned);
        // | functor | | manager | invoker |: the last two are functions of one file.
        for (std::size_t at = 0; at + 3 < words.size(); ++at)
            if (is_near_code(words[at + 2]) && is_near_code(words[at + 3]) && words[at] % 8 == 0)
                name_other(words[at], type_of_functor(words[at + 2]));
    });
    // Idle objects have no control block, and those held by rc_ptr or unique_ptr never had one: all of a pool are of one type.
    std::vector<type_id_t> of_pool(m_heap.pools.size(), k_buffer);
    if (!m_is_recycling) return ids;
    m_heap.for_each_block([&](block_index b, block const& own) {
        if ((*this)[ids[b]].kind == kind::object) of_pool[own.pool] = ids[b];
    });
    m_heap.for_each_block([&](block_index b, block const& own) {
        if (ids[b] == k_buffer) ids[b] = of_pool[own.pool];
    });
    return ids;
}

}  // namespace poolheap
