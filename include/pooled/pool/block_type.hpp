// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a block with an object in it must undergo when its last owner is gone, by a number small enough to stand beside
// a count or an address in one word. A handle to an incomplete type, or to a base without a virtual destructor, finds
// the object's real type by it.
//
//   header word of a counted block   | type: 14 | weak: 24 | strong: 26 |
//   waiting block                    | type: 14 | kind: 2 | address: 48 |
//
// A type gets its number when it is first needed, without a lock: a fork may come at any moment. Any thread may call; O(1).

#include "pooled/config.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace pooled::detail {

using type_number = std::uint32_t;

inline constexpr unsigned k_type_bits = 14;
inline constexpr unsigned k_type_shift = 64 - k_type_bits;
inline constexpr type_number k_no_type = 0;

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

    // Requires a number that was read from a block. Relaxed: who reads it there was handed the block by a thread that had
    // the number from add().
    [[nodiscard]] POOLED_ALWAYS_INLINE block_type const& operator[](type_number number) const noexcept {
        return *m_types[number].load(std::memory_order_relaxed);
    }
    [[nodiscard]] block_type const* find(type_number number) const noexcept {
        return m_types[number].load(std::memory_order_relaxed);
    }

    // The number of `type`, which is remembered in `number`; k_no_type when all are taken. Threads that race for one type
    // agree on one number; the others' are lost.
    [[nodiscard]] POOLED_NOINLINE type_number add(block_type const& type,
                                                  std::atomic<type_number>& number) noexcept {
        type_number last = m_last.load(std::memory_order_relaxed);
        do {
            if (last + 1 == m_types.size()) return k_no_type;
        } while (!m_last.compare_exchange_weak(last, last + 1, std::memory_order_relaxed));
        type_number const fresh = last + 1;
        m_types[fresh].store(&type, std::memory_order_relaxed);
        type_number known = k_no_type;
        // release: pairs with the acquire in number_of(); the entry is seen. acquire: that of a thread which was faster.
        return number.compare_exchange_strong(known, fresh, std::memory_order_acq_rel) ? fresh : known;
    }

private:
    std::atomic<type_number> m_last{k_no_type};
    std::array<std::atomic<block_type const*>, std::size_t{1} << k_type_bits> m_types{};
};

POOLED_EXPORT inline constinit block_types g_block_types;

template <block_type const& Type>
POOLED_EXPORT inline constinit std::atomic<type_number> g_number_of{k_no_type};

// k_no_type when the table is full.
template <block_type const& Type>
[[nodiscard]] POOLED_ALWAYS_INLINE type_number number_of() noexcept {
    // acquire: pairs with the release in add().
    type_number const number = g_number_of<Type>.load(std::memory_order_acquire);
    return number != k_no_type ? number : g_block_types.add(Type, g_number_of<Type>);
}

// The same; throws std::length_error.
template <block_type const& Type>
[[nodiscard]] POOLED_ALWAYS_INLINE type_number number_or_throw() {
    type_number const number = number_of<Type>();
    if (number == k_no_type) [[unlikely]]
        throw std::length_error("pooled: more than 16383 types of counted objects in one process");
    return number;
}

}  // namespace pooled::detail
