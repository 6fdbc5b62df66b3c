// SPDX-License-Identifier: BSL-1.0

// What a block holds, by its first words:
//
//   vtable of a control block      shared       T of std::make_shared<T>, allocate_shared, or the counts of shared_ptr(new T)
//   elements before a control block  shared     T[] of std::make_shared<T[]> of libstdc++
//   header of pooled's counts      rc, unique   as the library's table of types says
//   a recycled object's slot       object       by its control block or header
//   any other vtable               virtual      the most derived class
//   resume and destroy functions   coroutine    the coroutine's name
//   none of these                  buffer       named by who holds it
//
// A vtable is named by its type information, which is there in stripped programs; without RTTI by its symbol. Both are looked up once for
// each first word: O(1) a block.
#include "pooled/inspect/record.hpp"

#include "naming.hpp"
#include "pretty.hpp"
#include "references.hpp"
#include "symbols.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <unordered_map>

namespace poolheap {
namespace {

constexpr std::string_view k_kinds[]{"buffer", "shared",  "rc",        "unique",
                                     "object", "virtual", "coroutine", "variable"};

// Where a class that holds an object has it, by the class's name; its rule says where a pointer to it lies.
struct control_class {
    std::string_view prefix;
    std::int8_t object_word;  // -1: elsewhere
    word_rule rule;
};
constexpr control_class k_control_classes[]{
    {"std::_Sp_counted_ptr_inplace<", 2, {word_rule::libstdcxx}},
    {"std::_Sp_counted_ptr<", -1, {word_rule::libstdcxx, 2}},
    {"std::_Sp_counted_deleter<", -1, {word_rule::libstdcxx, 2}},
    {"std::__shared_ptr_emplace<", 3, {word_rule::libcxx}},
    {"std::__shared_ptr_pointer<", -1, {word_rule::libcxx, 3}},
    {"std::__unbounded_array_control_block<", 4, {word_rule::libcxx}},
    {"std::__bounded_array_control_block<", 3, {word_rule::libcxx}},
    {"std::__function::__func<", 1, {}},  // what a std::function of libc++ calls
};

// Lies behind the elements of an array that std::make_shared made; its last word leads to these.
constexpr std::string_view k_counted_array = "std::_Sp_counted_array<";

constexpr std::size_t k_most_types = 0xfff0;

// "T*" and "std::allocator<T>" as T; "with_tail<T, E>" as "T + n × E".
std::string object_name(std::string_view argument) {
    if (argument.ends_with('*')) argument.remove_suffix(1);
    for (char const* const array : {"std::allocator<", "pooled::detail::shared_elements<"})
        if (argument.starts_with(array)) return std::string(template_argument(argument, array)) + "[]";
    constexpr char const* k_tailed = "pooled::with_tail<";
    if (argument.starts_with(k_tailed))
        return std::string(template_argument(argument, k_tailed)) + " + n × " +
               std::string(template_argument(argument, k_tailed, 1));
    return std::string(argument);
}

class block_types {
public:
    block_types(image const& from, heap const& blocks, symbols const& known, naming& types)
        : m_image(from), m_symbols(known), m_heap(blocks), m_types(types) {
        for (mapping const& m : from.mappings())
            if (m.executable)
                for (address i = m.begin / k_region, left = k_regions;
                     i <= (m.end - 1) / k_region && left != 0; ++i, --left)
                    m_is_near_code[i % k_regions] = true;
    }

    block_numbers find_all() {
        block_numbers all(m_heap.blocks.size());
        auto const type_of = [&](block_index b) { return static_cast<type_id_t>(all[b]); };
        reference_reader reader(m_image, m_heap);
        // What others know about a block that does not say itself what it is: shared_ptr(new T), and a std::function of libstdc++.
        auto const name_other = [&](address at, type_id_t id) {
            block_index const to = id != k_buffer ? m_heap.find(at).index : k_no_block;
            if (to != k_no_block && all[to] == k_buffer) all.set(to, id);
        };
        auto const is_any = [](block_index) { return true; };
        slab const* in = m_heap.slabs.data();
        reader.first_words(k_scanned / 8, is_any, [&](block_index b, std::span<std::uint64_t const> words) {
            type_id_t const own = type_by_words(b, words.first(std::min(words.size(), naming::k_words)));
            if (own != k_buffer) all.set(b, own);
            while (b - in->first >= in->count)
                ++in;
            if (type_id_t const array = own == k_buffer
                                            ? type_of_array(words, in->begin + (b - in->first) * in->bytes)
                                            : k_buffer;
                array != k_buffer)
                all.set(b, array);
            if (type_id_t const owned = m_types[own].rule.owned; owned != k_buffer)
                name_other(owned_by(b, own, words), owned);
            // | functor | | manager | invoker |: the last two are functions of one file.
            for (std::size_t at = 0; at + 3 < words.size(); ++at)
                if (is_near_code(words[at + 2]) && is_near_code(words[at + 3]) && words[at] % 8 == 0)
                    name_other(words[at], type_of_functor(words[at + 2]));
        });
        // Idle objects have no control block, and those held by rc_ptr or unique_ptr never had one: all of a pool are of one type.
        std::vector<type_id_t> of_pool(m_heap.pools.size(), k_buffer);
        if (!m_is_recycling) return all;
        m_heap.for_each_block([&](block_index b, block const& own) {
            if (m_types[type_of(b)].kind == kind::object) of_pool[own.pool] = type_of(b);
        });
        m_heap.for_each_block([&](block_index b, block const& own) {
            if (all[b] == k_buffer) all.set(b, of_pool[own.pool]);
        });
        return all;
    }

private:
    static constexpr std::size_t k_scanned = 1024;  // bytes of a block in which a std::function is looked for
    static constexpr address k_region = 1 << 20;
    static constexpr std::size_t k_regions = 1 << 16;

    // Rejects nearly all words that do not lead to code, by their upper bits.
    [[nodiscard]] bool is_near_code(address at) const { return m_is_near_code[at / k_region % k_regions]; }
    [[nodiscard]] bool is_code(address at) const {
        mapping const* const m = m_image.find_mapping(at);
        return m != nullptr && m->executable;
    }

    // The demangled name; empty: it is no vtable.
    [[nodiscard]] std::string class_of_vtable(address vtable) const {
        module const* const in = m_symbols.module_of(vtable);
        if (vtable % 8 != 0 || in == nullptr) return {};
        std::array<address, 3> words{};  // offset to the top, type information, first function
        if (m_image.read(vtable - 16, std::as_writable_bytes(std::span(words))) != sizeof(words) ||
            words[0] != 0)
            return {};
        if (words[1] == 0) {  // -fno-rtti
            auto const symbol = m_symbols.find(vtable);
            constexpr std::string_view k_prefix = "vtable for ";
            if (symbol && symbol->name.starts_with(k_prefix)) return symbol->name.substr(k_prefix.size());
            if (symbol || !is_code(words[2])) return {};
            return "object with vtable " + in->name() + '+' + hexadecimal(vtable - in->bias);
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

    [[nodiscard]] type_id_t type_of_vtable(address vtable) {
        std::string const name = pretty(class_of_vtable(vtable));
        // The bases are what a destroyed object's vtable pointer is left at. An array may have no elements.
        if (name.empty() || name.starts_with("std::_Sp_counted_base<") || name.starts_with(k_counted_array) ||
            name == "std::__shared_weak_count" || name == "std::__shared_count")
            return k_buffer;
        type found{.name = name, .kind = kind::virtual_object};
        auto const control = std::ranges::find_if(
            k_control_classes, [&](control_class const& c) { return name.starts_with(c.prefix); });
        if (control == std::end(k_control_classes)) return m_types.add(std::move(found));
        // Behind two destructors is a function that each of the classes in question overrides.
        found.function = m_image.get<address>(vtable + 16).value_or(0);
        found.name = object_name(template_argument(name, control->prefix));
        if (control->rule.counts != word_rule::none) found.kind = kind::shared;
        word_rule rule = control->rule;
        if (control->object_word >= 0) {
            found.object_offset = static_cast<std::uint32_t>(control->object_word * 8);
        } else {
            rule.owned = m_types.add(found);
            found.function = 0;
            found.name.insert(0, "control block of ");
        }
        found.rule = rule;
        return m_types.add(std::move(found));
    }

    [[nodiscard]] type_id_t type_of_coroutine(address resume, address destroy) {
        if (!is_code(destroy)) return k_buffer;
        auto const symbol = m_symbols.find(resume);
        if (!symbol || symbol->begin != resume) return k_buffer;
        std::string name = symbol->name;
        std::size_t const resume_at = name.find(".resume"), end = name.rfind(".Frame");
        std::size_t const begin = name.rfind("_Z", end);
        // Clang's: demanglers print " [clone .resume]" and " (.resume)". Of GCC's, the parameter's class is named after the coroutine.
        if (resume_at != std::string::npos)
            name.resize(name.find_last_of("[(", resume_at) - 1);
        else if (name.find(".actor") != name.npos && end != name.npos && begin != name.npos)
            name = demangle(name.substr(begin, end - begin));
        else
            return k_buffer;
        return m_types.add({.name = pretty(name), .kind = kind::coroutine});
    }

    // The elements that std::make_shared<T[]> of libstdc++ put in front of | vtable | counts | number | is overwritten | begin |. Such words of
    // an array that is gone may lie behind what has its block now: the counts, of which weak pointers have the upper half, are zero then.
    [[nodiscard]] type_id_t type_of_array(std::span<std::uint64_t const> words, address begin) {
        for (std::size_t at = 0; at + 4 < words.size(); ++at) {
            if (words[at + 4] != begin || words[at + 1] >> 32 == 0 ||
                m_symbols.module_of(words[at]) == nullptr)
                continue;
            auto const [known, is_new] = m_arrays.try_emplace(words[at], k_buffer);
            if (std::string const name = is_new ? pretty(class_of_vtable(words[at])) : "";
                name.starts_with(k_counted_array))
                known->second = m_types.add({.name = object_name(template_argument(name, k_counted_array)),
                                             .kind = kind::shared,
                                             .rule = {.counts = word_rule::behind, .vtable = words[at]}});
            if (known->second != k_buffer) return known->second;
        }
        return k_buffer;
    }

    // The class of what a std::function of libstdc++ holds, by the function with which it manages it.
    [[nodiscard]] type_id_t type_of_functor(address manager) {
        auto const [known, is_new] = m_by_word.try_emplace(manager, k_buffer);
        if (!is_new || !is_code(manager)) return known->second;
        auto const symbol = m_symbols.find(manager);
        if (!symbol || symbol->begin != manager || symbol->name.find("_M_manager(") == std::string::npos)
            return k_buffer;
        std::string_view const name = template_argument(symbol->name, "std::_Function_handler<", 1);
        if (name.empty()) return k_buffer;
        return known->second =
                   m_types.add({.name = pretty(std::string(name)), .function = manager, .argument = 1});
    }

    // By the header of make_rc or make_unique in one of the first words.
    [[nodiscard]] type_id_t type_of_header(std::span<std::uint64_t const> words) {
        // Behind the length of an array, or what aligns an object.
        for (std::size_t at = 0; at < 2 && at < words.size(); ++at) {
            pooled::inspect::counted_word const header(words[at]);
            if (!header.is_plausible()) continue;
            auto const name = m_heap.counted_types.find(static_cast<std::uint32_t>(header.type));
            if (name == m_heap.counted_types.end() || m_heap.find(words[at]).index != k_no_block) continue;
            bool const is_unique = header.owners == 0 && header.weak == 1;
            auto const [known, is_new] =
                m_counted.try_emplace(header.type << 2 | at << 1 | std::uint64_t{is_unique}, k_buffer);
            if (is_new)
                known->second = m_types.add({.name = object_name(pretty(name->second)),
                                             .kind = is_unique ? kind::unique : kind::rc,
                                             .object_offset = static_cast<std::uint32_t>(at * 8 + 8),
                                             .rule = {word_rule::header}});
            return known->second;
        }
        return k_buffer;
    }

    [[nodiscard]] type_id_t type_by_words(block_index b, std::span<std::uint64_t const> words) {
        if (words.empty()) return k_buffer;
        address const first = words[0];
        type_id_t id = k_buffer;
        // Most first words that are no vtable are no address in a file either.
        if (m_symbols.module_of(first) != nullptr) {
            auto const [known, is_new] = m_by_word.try_emplace(first, k_buffer);
            if (is_new) known->second = type_of_vtable(first);
            if (is_new && known->second == k_buffer && words.size() > 1)
                known->second = type_of_coroutine(first, words[1]);
            id = known->second;
        }
        // A recycled object's control block lies in front of it.
        type& t = m_types.edit(id);
        if (t.rule.pointer_word >= 0 && t.kind == kind::shared)
            if (block const own = m_heap[b]; address const object = owned_by(b, id, words) - own.begin)
                if (object < own.bytes) {
                    t.name = m_types[t.rule.owned].name;
                    t.kind = kind::object;
                    m_is_recycling = true;
                    t.object_offset = static_cast<std::uint32_t>(object);
                    t.rule.owned = k_buffer;
                }
        return id != k_buffer || m_heap.counted_types.empty() ? id : type_of_header(words);
    }

    // A control block made by shared_ptr(new T): the object that it owns. Else 0.
    [[nodiscard]] address owned_by(block_index b, type_id_t id, std::span<std::uint64_t const> words) const {
        std::int8_t const pointer_word = m_types[id].rule.pointer_word;
        if (pointer_word < 0) return 0;
        // A deleter with captures lies in front of the pointer, so it is the first word that leads to a block;
        // the allocator of a recycled object leads to the begin of its own.
        for (std::size_t i = static_cast<std::size_t>(pointer_word); i < words.size(); ++i)
            if (words[i] != m_heap[b].begin && m_heap.find(words[i]).index != k_no_block) return words[i];
        return 0;
    }

    image const& m_image;
    symbols const& m_symbols;
    heap const& m_heap;
    naming& m_types;
    std::unordered_map<address, type_id_t> m_by_word;        // words that lead into a file
    std::unordered_map<address, type_id_t> m_arrays;         // by the vtable behind them
    std::unordered_map<std::uint64_t, type_id_t> m_counted;  // by number, kind and word of the header
    std::bitset<k_regions> m_is_near_code;
    bool m_is_recycling = false;  // there are objects of an object_pool
};

}  // namespace

std::string_view name_of(kind k) { return k_kinds[static_cast<std::size_t>(k)]; }

type_id_t naming::add(type t) {
    if (m_types.size() > k_most_types) return k_buffer;
    m_types.push_back(std::move(t));
    return static_cast<type_id_t>(m_types.size() - 1);
}

std::optional<counts> naming::counts_of(type_id_t id, std::span<std::uint64_t const> words) const {
    type const& t = (*this)[id];
    auto const low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
    counts found;  // the weak count has one for all owners
    if (std::size_t const object = t.object_offset / 8;
        t.rule.counts == word_rule::header && words.size() >= object) {
        pooled::inspect::counted_word const h(words[object - 1]);
        found = {low(t.kind == kind::unique ? 1 : h.owners), low(h.weak)};
    } else if (t.rule.counts == word_rule::libstdcxx && words.size() >= 2) {
        found = {low(words[1]), low(words[1] >> 32)};
    } else if (t.rule.counts == word_rule::libcxx && words.size() >= 3) {
        found = {low(words[1] + 1), low(words[2] + 1)};
    } else {
        return {};
    }
    found.weak -= found.owners != 0 ? 1 : 0;
    return found;
}

block_numbers types_of_blocks(image const& from, heap const& blocks, symbols const& known, naming& types) {
    return block_types(from, blocks, known, types).find_all();
}

}  // namespace poolheap
