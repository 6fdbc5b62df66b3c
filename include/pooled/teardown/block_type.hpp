// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a block with an object in it must undergo when its last owner is gone, by a number small enough to stand beside
// a count or an address in one word. A handle to an incomplete type, or to a base without a virtual destructor, finds
// the object's real type by it.
//
//   header word of a counted block   | type: 14 | weak: 24 | strong: 26 |
//   deferred block                   | type: 14 | kind: 2 | address: 48 |
//
// A type gets its number when it is first needed, without a lock: a fork may come at any moment. Any thread may call; O(1).
// The number is kept as a tag, in the place that it takes in these words, so that nobody shifts it.
//
//   0 ... 127       plain: there is nothing to destroy, and the block is the default pool's, of this size class
//   128 ... 16383   types

#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace pooled::detail {

using type_tag = std::uint64_t;

inline constexpr unsigned k_type_bits = 14;
inline constexpr unsigned k_type_shift = 64 - k_type_bits;
inline constexpr type_tag k_no_type = 0;
inline constexpr type_tag k_type_one = type_tag{1} << k_type_shift;
inline constexpr std::uint64_t k_type_numbers = std::uint64_t{1} << k_type_bits;
inline constexpr std::uint64_t k_plain_numbers = 128;
static_assert(k_class_count <= k_plain_numbers);

[[nodiscard]] constexpr type_tag plain_tag(class_index c) noexcept { return c * k_type_one; }
[[nodiscard]] constexpr bool is_plain(std::uint64_t word) noexcept {
    return word < k_plain_numbers * k_type_one;
}

// Requires a plain word.
[[nodiscard]] constexpr class_index plain_class(std::uint64_t word) noexcept {
    return static_cast<class_index>(word >> k_type_shift);
}

// The number in a word if what stands below it is `rest`; otherwise not below k_type_numbers. One comparison for both.
[[nodiscard]] constexpr std::uint64_t number_if(std::uint64_t word, std::uint64_t rest) noexcept {
    return std::rotr(word - rest, k_type_shift);
}

// `header` is the block's header word if it is counted, else the start of the block.
struct block_type {
    using operation = void (*)(void* header) noexcept;

    operation
        retire;  // the last owner let go, nobody observes: destroy and free, now or in the teardown under way
    operation retire_observed;  // the same, while weak pointers remain
    operation finish;           // from the teardown: destroy and free
    operation finish_observed;  // the same, while weak pointers remained when it was put there
    operation free;             // the last observer let go of a destroyed object
    std::uint32_t object_offset;
    std::uint32_t object_bytes;
};

class block_types {
public:
    constexpr block_types() noexcept = default;
    block_types(block_types const&) = delete;
    block_types& operator=(block_types const&) = delete;

    // The type whose tag is in a word. Requires one that was read from a block, and is not plain. Relaxed: who reads it
    // there was handed the block by a thread that had the tag from add().
    [[nodiscard]] POOLED_ALWAYS_INLINE block_type const& operator[](std::uint64_t word) const noexcept {
        return numbered(word >> k_type_shift);
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE block_type const& numbered(std::uint64_t number) const noexcept {
        return *m_types[number].load(std::memory_order_relaxed);
    }
    // Null: no type has it.
    [[nodiscard]] block_type const* find(std::uint64_t word) const noexcept {
        return m_types[word >> k_type_shift].load(std::memory_order_relaxed);
    }

    // The tag of `type`, which is remembered in `tag`; k_no_type when all are taken. Threads that race for one type agree
    // on one tag; the others' are lost.
    [[nodiscard]] POOLED_NOINLINE type_tag add(block_type const& type, std::atomic<type_tag>& tag) noexcept {
        type_tag last = m_last.load(std::memory_order_relaxed);
        do {
            if (last == k_last_type) return k_no_type;
        } while (!m_last.compare_exchange_weak(last, last + k_type_one, std::memory_order_relaxed));
        type_tag const fresh = last + k_type_one;
        m_types[fresh >> k_type_shift].store(&type, std::memory_order_relaxed);
        type_tag known = k_no_type;
        // release: pairs with the acquire in tag_of(); the entry is seen. acquire: that of a thread which was faster.
        return tag.compare_exchange_strong(known, fresh, std::memory_order_acq_rel) ? fresh : known;
    }

private:
    static constexpr type_tag k_last_type = (k_type_numbers - 1) * k_type_one;

    std::atomic<type_tag> m_last{(k_plain_numbers - 1) * k_type_one};
    std::array<std::atomic<block_type const*>, k_type_numbers> m_types{};
};

POOLED_EXPORT inline constinit block_types g_block_types;

template <block_type const& Type>
POOLED_EXPORT inline constinit std::atomic<type_tag> g_tag_of{k_no_type};

// k_no_type when the table is full.
template <block_type const& Type>
[[nodiscard]] POOLED_ALWAYS_INLINE type_tag tag_of() noexcept {
    // acquire: pairs with the release in add().
    type_tag const tag = g_tag_of<Type>.load(std::memory_order_acquire);
    return tag != k_no_type ? tag : g_block_types.add(Type, g_tag_of<Type>);
}

// The same; throws std::length_error.
template <block_type const& Type>
[[nodiscard]] POOLED_ALWAYS_INLINE type_tag tag_or_throw() {
    type_tag const tag = tag_of<Type>();
    if (tag == k_no_type) [[unlikely]]
        POOLED_THROW(std::length_error("pooled: more than 16256 types of counted objects in one process"));
    return tag;
}

}  // namespace pooled::detail
