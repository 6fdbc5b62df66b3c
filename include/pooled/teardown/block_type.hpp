// SPDX-License-Identifier: BSL-1.0
#pragma once

// What to do with a block that contains an object when the object's last owner is gone: a number that fits into one word
// together with counts or an address. A handle to an incomplete type, or to a base without a virtual destructor, finds the
// object's real type by it.
//
//   header word of a counted block   | strong: 26 | weak: 24 | type: 14 |
//   deferred block                   | type: 14 | kind: 2 | address: 48 |
//
// A type gets its number when the number is first needed, without a lock, since a fork may happen at any moment. Any thread may
// call; O(1). Numbers are unique in the process: the directory of all copies (plugins/copies.hpp) gives them. Each copy has a table
// of its own, with the types that it added. Entries are offsets from a type that looks into the directory: zeros mean that type.
//
// A pointer would need a word of its own.
//
//   0 ... 127       plain: nothing to destroy; the block is the default pool's, of this size class
//   128 ... 16383   types

#include "pooled/plugins/copies.hpp"

#include <stdexcept>

POOLED_BEGIN_DETAIL

using type_tag = std::uint64_t;

inline constexpr unsigned k_type_bits = 14;
inline constexpr type_tag k_no_type = 0;
inline constexpr std::uint64_t k_plain_numbers = k_first_type_number;
static_assert(k_type_numbers == std::uint64_t{1} << k_type_bits && k_inlined_classes <= k_plain_numbers);

// The number in a header's word.
[[nodiscard]] constexpr std::uint64_t number_in(std::uint64_t w) noexcept { return w & (k_type_numbers - 1); }
[[nodiscard]] constexpr bool is_plain(std::uint64_t w) noexcept { return number_in(w) < k_plain_numbers; }

// Requires a word with a plain number.
[[nodiscard]] constexpr class_index plain_class(std::uint64_t word) noexcept {
    return static_cast<class_index>(number_in(word));
}

class block_types {
public:
    // Requires a number that was read from a block, and is not plain. Relaxed, because a thread that reads it received the block,
    // directly or indirectly, from the thread that called add().
    [[nodiscard]] POOLED_ALWAYS_INLINE block_type const& operator[](std::uint64_t number) const noexcept {
        return *reinterpret_cast<block_type const*>(address_of(&m_foreign) +
                                                    m_offsets[number].load(std::memory_order_relaxed));
    }

    // The tag of `type`, which is also stored in `tag`; k_no_type when all numbers are taken. If several threads do this for
    // one type, they agree on one tag; the other numbers are lost. `all`: the directory that assigns numbers.
    [[nodiscard]] POOLED_API type_tag add(block_type const& type, atomic<type_tag>& tag,
                                          copy_directory& all) noexcept;

    // Called before main, and before other code of the calling library runs.
    void set_foreign(block_type const& type) noexcept {
        if (m_foreign.retire == nullptr) m_foreign = type;
    }

private:
    // All zero until used, so it takes no space in a program's file.
    block_type m_foreign{};
    atomic<std::uintptr_t> m_offsets[k_type_numbers]{};
};

POOLED_STATE(block_types, g_block_types);

// The type whose number is in a header's word, whichever copy added it; null: it is none.
[[nodiscard]] inline block_type const* find_type(std::uint64_t word) noexcept {
    copy_directory const* const all = detail::find_directory(false);
    return all != nullptr ? all->type_of(number_in(word)) : nullptr;
}

#if POOLED_HAS_CODE

POOLED_CODE type_tag block_types::add(block_type const& type, atomic<type_tag>& tag,
                                      copy_directory& all) noexcept {
    std::uint64_t const number = all.add_type(type);
    if (number == 0) return k_no_type;
    m_offsets[number].store(address_of(&type) - address_of(&m_foreign), std::memory_order_relaxed);
    type_tag const fresh = number;
    type_tag known = k_no_type;
    // release: pairs with the acquire in tag_of(); the entry is seen. acquire: a faster thread's entry is seen.
    tag.compare_exchange_strong(known, fresh, std::memory_order_acq_rel, std::memory_order_acquire);
    return known != k_no_type ? known : fresh;
}

// The operations for types that this copy did not add.
[[nodiscard]] POOLED_NOINLINE inline block_type const& foreign_type_of(void const* header) noexcept {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, header, sizeof(word));
    block_type const* const type = detail::find_type(word);
    if (type == nullptr) POOLED_FAIL("pooled: no object starts at the address that a pooled pointer holds");
    return *type;
}
template <block_type::operation block_type::* Operation>
void hand_over(void* header) noexcept {
    (detail::foreign_type_of(header).*Operation)(header);
}
inline void refuse_deferred(block_type const&, void*, bool) noexcept {
    POOLED_FAIL("pooled: an object that one shared library deferred is to be destroyed by another one");
}
inline constexpr block_type k_foreign_type{.retire = hand_over<&block_type::retire>,
                                           .retire_observed = hand_over<&block_type::retire_observed>,
                                           .free = hand_over<&block_type::free>,
                                           .finish = refuse_deferred,
                                           .object_offset = 0,
                                           .object_bytes = 0,
                                           .name = nullptr};

// A library may drop objects of another one before it makes any itself. 101: runs before its other constructors.
[[gnu::constructor(101)]] POOLED_HIDDEN POOLED_USED inline void set_foreign_type() noexcept {
    g_block_types.set_foreign(k_foreign_type);
}

#endif

// Files that share a state share it, too. With libpooled each file has its own: the dynamic linker may share such a variable between
// the users of two.
#if POOLED_IS_COMPILED
template <block_type const& Type>
POOLED_HIDDEN inline constinit atomic<type_tag> g_tag_of{k_no_type};
#else
template <block_type const& Type>
POOLED_EXPORT inline constinit atomic<type_tag> g_tag_of{k_no_type};
#endif

// From now on, the table refers to the calling library.
template <bool Throws>
POOLED_HIDDEN POOLED_NOINLINE type_tag add_type(block_type const& type,
                                                atomic<type_tag>& tag) noexcept(!Throws) {
    type_tag const fresh = g_block_types.add(type, tag, detail::directory());
    if constexpr (Throws)
        if (fresh == k_no_type)
            POOLED_THROW(
                std::length_error("pooled: more than 16256 types of counted objects in one process"));
    return fresh;
}

// `kept`: g_tag_of<type>. When the table is full: k_no_type, or throws std::length_error.
template <bool Throws = false>
[[nodiscard]] POOLED_ALWAYS_INLINE type_tag tag_of(block_type const& type,
                                                   atomic<type_tag>& kept) noexcept(!Throws) {
    // acquire: pairs with the release in add().
    type_tag const tag = kept.load(std::memory_order_acquire);
    return tag != k_no_type ? tag : detail::add_type<Throws>(type, kept);
}

POOLED_END_DETAIL
