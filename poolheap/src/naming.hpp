// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the analysis asks about names: one interface over symbols, types and members, so that tests can give answers of their own.

#include "edges.hpp"
#include "image.hpp"

#include <elfutils/libdw.h>

#include <deque>
#include <string_view>

namespace poolheap {

enum class kind : std::uint8_t { buffer, shared, rc, unique, object, virtual_object, coroutine, variable };
[[nodiscard]] std::string_view name_of(kind k);

using type_id_t = std::uint16_t;          // a block has one
inline constexpr type_id_t k_buffer = 0;  // the type of blocks that say nothing about themselves

// What the words of a type's blocks mean, for types.cpp.
struct word_rule {
    enum layout : std::uint8_t {
        none,
        libstdcxx,
        libcxx,
        header,
        behind                      // where depends on the number of elements: it is not read
    } counts = none;                // pooled's header lies in front of the object
    std::int8_t pointer_word = -1;  // from here on there is a pointer to the object
    type_id_t owned = k_buffer;     // the type to which it leads
    address vtable = 0;             // of the control block that lies behind; 0: in front
};

struct type {
    std::string name;  // of the object, not of its control block; of a variable, its own
    poolheap::kind kind = kind::buffer;
    std::uint32_t object_offset = 0;    // of the object in the block
    std::uint32_t element_bytes = 0;    // of an array's elements; 0: one object, or not known
    bool is_looked_for = false;         // in debug information, by members.cpp
    std::optional<Dwarf_Die> layout{};  // its class there
    // A function of a class template whose argument is the object's class, or a pointer to it; 0: not known. For members.cpp, which finds
    // classes that have no name by it, and others without a comparison of names.
    address function = 0;
    unsigned argument = 0;
    std::uint32_t owner = ~0U;  // of a buffer: in graph::holders
    word_rule rule{};

    [[nodiscard]] std::string shown_name() const { return name.empty() ? "buffer that nothing names" : name; }
    // Only then a block has counts.
    [[nodiscard]] bool may_be_counted() const { return kind != kind::buffer && kind < kind::virtual_object; }
    [[nodiscard]] bool is_array() const { return name.ends_with("[]"); }
    // Nothing is known but, perhaps, who holds it.
    [[nodiscard]] bool is_nameless() const { return kind == kind::buffer && !layout && function == 0; }
    // The same offset for the same member of each element of an array; 0 in a buffer of unknown elements.
    [[nodiscard]] std::uint64_t member_offset(std::uint64_t offset) const {
        if (element_bytes == 0 || offset < object_offset) return is_nameless() ? 0 : offset;
        return object_offset + (offset - object_offset) % element_bytes;
    }
    // As a user counts: from the object's begin.
    [[nodiscard]] std::uint64_t shown_offset(std::uint64_t offset) const {
        return offset < object_offset ? offset : offset - object_offset;
    }
};

struct counts {
    std::uint32_t owners = 0;  // use_count()
    std::uint32_t weak = 0;    // weak pointers alone
};

enum class strength : std::uint8_t {
    unknown,
    strong,  // a smart pointer or container that owns what it leads to
    weak,    // std::weak_ptr and its like, also of enable_shared_from_this
    raw,     // a pointer or reference
};

struct member {
    std::string name;  // empty: not known
    strength how = strength::unknown;
    type_id_t pointee = k_buffer;  // what a block is to which it leads, if that says nothing about itself
};

struct variable {
    std::string name;
    address begin = 0;
    type_id_t type = k_buffer;
};

class naming {
public:
    // The first words of a block that are looked at; fewer if the block is smaller.
    static constexpr std::size_t k_words = 16;

    naming() { add({}); }
    virtual ~naming() = default;

    [[nodiscard]] type const& operator[](type_id_t id) const { return m_types[id]; }
    [[nodiscard]] std::size_t types() const { return m_types.size(); }
    // k_buffer when there are as many as numbers.
    type_id_t add(type t);
    // Where an object lies in its control block, debug information knows.
    [[nodiscard]] type& edit(type_id_t id) { return m_types[id]; }

    // One type for each block.
    [[nodiscard]] virtual block_numbers name_all() = 0;
    // Of a shared or rc object, by its first words; others have none.
    [[nodiscard]] virtual std::optional<counts> counts_of(type_id_t id,
                                                          std::span<std::uint64_t const> words) const;
    // Of a word in a block of this type, or in a variable; the offset counts from the begin.
    [[nodiscard]] virtual member const& at(type_id_t holder, std::uint64_t offset) = 0;
    [[nodiscard]] virtual std::optional<variable> global(address at) = 0;
    // The program or library that maps the address; empty: none.
    [[nodiscard]] virtual std::string module_name(address at) const = 0;

private:
    std::deque<type> m_types;  // references to them stay valid
};

// Names in an image.
[[nodiscard]] std::unique_ptr<naming> names_of(image const& from, heap const& blocks);

class symbols;
// Adds to `types` what the blocks' first words say that they hold: one for each block.
[[nodiscard]] block_numbers types_of_blocks(image const& from, heap const& blocks, symbols const& known,
                                            naming& types);

}  // namespace poolheap
