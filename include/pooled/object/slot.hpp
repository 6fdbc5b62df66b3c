// SPDX-License-Identifier: BSL-1.0
#pragma once

// A slot: the memory of one recycled object, from its construction to its destruction.
//
//   | control | list | node | … | header | T |     a whole number of cache lines: objects next to each other are used by
//                                                  different threads
//   control      owned by a std::shared_ptr: its control block
//   list         that of the pool that built the object; outlives the slot
//   node         with the list's generation when the object was acquired; k_destroyed while there is none
//   header       the word that unique_ptr and rc_ptr know objects by, and count in: smart/counted_object.hpp
//
// A slot is in one of these states, and may be used again only in the first:
//
//   idle ──acquire──▶ in use ──last owner──▶ released, watched by weak_ptrs ──last weak_ptr──▶ idle
//                                            or destroyed, watched by weak_ptrs ─────────────▶ memory

#include "pooled/object/recycle_list.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/standard_control_block.hpp"

POOLED_BEGIN_DETAIL

struct slot {
    alignas(void*) std::byte control[standard_control_block::k_bytes_with_deleter];
    recycle_list* list;
    recycle_node node;

    explicit slot(recycle_list* owner) noexcept : list(owner) {}
};
static_assert(offsetof(slot, control) == 0);

template <class T>
struct slot_layout {
    static constexpr std::size_t k_align = detail::larger(alignof(T), k_cache_line);
    static constexpr std::size_t k_offset =
        round_up(sizeof(slot) + sizeof(count_header), detail::larger(alignof(T), alignof(count_header)));
    static constexpr std::size_t k_bytes = round_up(k_offset + sizeof(T), k_cache_line);

    [[nodiscard]] static void* memory_of(slot& s) noexcept {
        return reinterpret_cast<std::byte*>(&s) + k_offset;
    }
    [[nodiscard]] static T& object_of(slot& s) noexcept {
        return *std::launder(static_cast<T*>(memory_of(s)));
    }
    [[nodiscard]] static slot& slot_of(T* object) noexcept {
        return *std::launder(reinterpret_cast<slot*>(reinterpret_cast<std::byte*>(object) - k_offset));
    }
};

// The weak_ptr inside a T that derives from enable_shared_from_this refers to T itself: it keeps the control block, so the slot
// would never become idle. Without owners it is expired, and of no use.
template <class T>
void forget_owners([[maybe_unused]] T& object) noexcept {
    if constexpr (shares_from_this<T>) detail::owner_in(object).reset();
}

POOLED_END_DETAIL
