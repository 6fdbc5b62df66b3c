// SPDX-License-Identifier: BSL-1.0
#pragma once

// Names in an image. What a block holds, by its first words (types.cpp):
//
//   vtable of a control block      shared       T of std::make_shared<T>, allocate_shared, or the counts of shared_ptr(new T)
//   header of pooled's counts      rc, unique   as the library's table of types says
//   a recycled object's slot       object       by its control block or header
//   any other vtable               virtual      the most derived class
//   resume and destroy functions   coroutine    the coroutine's name
//   none of these                  buffer       named by who holds it
//
// A vtable is named by its type information, which is there in stripped programs; without RTTI by its symbol. Both are looked up once for
// each first word: O(1) a block.
//
// What lies in it, by debug information (members.cpp): (Session, 24) is `conn`. Goes through base classes, nested classes and arrays; stops
// at a class of the standard library or of pooled, so a std::shared_ptr's two words have one name. A pointer's type also says what a block
// is that says nothing about itself: elements of a vector, nodes of a map, a plain object.

#include "naming.hpp"
#include "symbols.hpp"

#include <bitset>
#include <unordered_map>

namespace poolheap {

class image_naming final : public naming {
public:
    image_naming(image const& from, heap const& blocks);

    block_numbers name_all() override;
    std::optional<counts> counts_of(type_id_t id, std::span<std::uint64_t const> words) const override;
    member const& at(type_id_t holder, std::uint64_t offset) override;
    std::optional<variable> global(address at) override;
    std::string module_name(address at) const override;

private:
    [[nodiscard]] type_id_t type_by_words(block_index b, std::span<std::uint64_t const> words);
    // A control block made by shared_ptr(new T): the object that it owns. Else 0.
    [[nodiscard]] address owned_by(block_index b, type_id_t id, std::span<std::uint64_t const> words) const;
    [[nodiscard]] bool is_code(address at) const;
    // The demangled name; empty: it is no vtable.
    [[nodiscard]] std::string class_of_vtable(address vtable) const;
    [[nodiscard]] type_id_t type_of_vtable(address vtable);
    [[nodiscard]] type_id_t type_of_coroutine(address resume, address destroy);
    // By the header of make_rc or make_unique in one of the first words.
    [[nodiscard]] type_id_t type_of_header(std::span<std::uint64_t const> words);
    // The class of what a std::function holds, by the function with which it manages it.
    [[nodiscard]] type_id_t type_of_functor(address manager);
    // Rejects nearly all words that do not lead to code, by their upper bits.
    [[nodiscard]] bool is_near_code(address at) const { return m_is_near_code[at / k_region % k_regions]; }

    // What lies at an offset in a type: the way there, and the word itself.
    struct place {
        std::string path;
        strength how = strength::unknown;
        std::vector<std::pair<Dwarf_Die, std::string>> classes;  // that contain it, with their names
        std::optional<Dwarf_Die> word;                           // its type; empty: not known
    };
    [[nodiscard]] std::optional<Dwarf_Die> layout(type_id_t id);
    [[nodiscard]] std::optional<Dwarf_Die> find_class(type const& t);
    [[nodiscard]] place place_of(Dwarf_Die of, std::uint64_t offset);
    [[nodiscard]] type_id_t pointee(place const& from);
    [[nodiscard]] type_id_t add_pointee(Dwarf_Die die, bool is_array, kind k);
    [[nodiscard]] std::int32_t add_layout(Dwarf_Die die);

    static constexpr std::size_t k_scanned = 1024;  // bytes of a block in which a std::function is looked for
    static constexpr address k_region = 1 << 20;
    static constexpr std::size_t k_regions = 1 << 16;

    image const& m_image;
    symbols m_symbols;
    heap const& m_heap;
    std::unordered_map<address, type_id_t> m_by_word;        // words that lead into a file
    std::unordered_map<std::uint64_t, type_id_t> m_counted;  // by number, kind and word of the header
    std::bitset<k_regions> m_is_near_code;
    bool m_is_recycling = false;  // there are objects of an object_pool
    std::vector<Dwarf_Die> m_layouts;
    std::unordered_map<std::uint64_t, member> m_members;  // by type and offset
    std::unordered_map<std::string, type_id_t> m_variables;
    std::map<std::tuple<void*, bool, kind>, type_id_t> m_pointees;
};

}  // namespace poolheap
