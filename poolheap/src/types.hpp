// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a block holds, by its first words:
//
//   vtable of a control block      shared       T of std::make_shared<T>, allocate_shared, or the counts of shared_ptr(new T)
//   header of pooled's counts      rc, unique   as the library's table of types says
//   a recycled object's slot       object       by its control block or header
//   any other vtable               virtual      the most derived class
//   resume and destroy functions   coroutine    the coroutine's name
//   none of these                  buffer       named by who holds it: see members.hpp
//
// A vtable is named by its type information, which is there in stripped programs; without RTTI by its symbol. Both are looked up once for
// each first word: O(1) a block.

#include "naming.hpp"
#include "symbols.hpp"

#include <bitset>
#include <unordered_map>

namespace poolheap {

class type_namer : public naming {
public:
    type_namer(image const& from, heap const& blocks);

    std::vector<type_id_t> name_all() override;
    std::optional<counts> counts_of(type_id_t id, std::span<std::uint64_t const> words) const override;

protected:
    image const& m_image;
    symbols m_symbols;

private:
    // What the words of a type's blocks mean.
    struct rule {
        enum layout : std::uint8_t { none, libstdcxx, libcxx, header };
        layout counts = none;
        std::int8_t pointer_word = -1;  // from here on there is a pointer to the object
        std::uint8_t header_word = 0;   // of pooled's counts
        type_id_t owned = k_buffer;     // the type to which it leads
    };
    struct cached {
        address first = 0;
        type_id_t id = k_buffer;
    };

    type_id_t add_ruled(type t, rule r);
    [[nodiscard]] rule rule_of(type_id_t id) const { return id < m_rules.size() ? m_rules[id] : rule{}; }
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

    static constexpr std::size_t k_scanned = 1024;  // bytes of a block in which a std::function is looked for
    static constexpr address k_region = 1 << 20;
    static constexpr std::size_t k_regions = 1 << 16;

    heap const& m_heap;
    std::vector<rule> m_rules;                               // of each type of these
    std::unordered_map<address, type_id_t> m_known;          // words that lead into a file
    std::unordered_map<std::uint64_t, type_id_t> m_counted;  // by number, kind and word of the header
    std::bitset<k_regions> m_is_near_code;
    bool m_is_recycling = false;                              // there are objects of an object_pool
    std::vector<cached> m_cache = std::vector<cached>(4096);  // any first words
};

}  // namespace poolheap
