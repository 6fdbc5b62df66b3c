// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where a recycled object lives, from its construction to its destruction.
//
//   | room | home | generation | … | header | T |        a whole number of cache lines: objects next to each other are used
//                                                        by different threads
//   room         idle: the links of a magazine; owned by a std::shared_ptr: its control block
//   home         the stock of the pool that built the object; outlives it
//   generation   the stock's when the object was built; k_no_object while there is none
//   header       the word that unique_ptr and rc_ptr know objects by, and count in: smart/counted_object.hpp
//
// An object is in one of these states, and its slot is free for the next user only in the first:
//
//   idle ──acquire──▶ in use ──last owner──▶ released, watched by weak_ptrs ──last weak_ptr──▶ idle
//                                            or destroyed, watched by weak_ptrs ─────────────▶ memory

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/cache/magazine.hpp"
#include "pooled/smart/counted_object.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace pooled::detail {

class object_stock;

// A control block with a deleter and an allocator: two words of counts and dispatch in libstdc++, three in libc++; the
// object's address; the allocator. Other libraries have a word to spare. What asks for room checks that it suffices.
#if defined(__GLIBCXX__)
inline constexpr std::size_t k_control_bytes = 4 * sizeof(void*);
#elif defined(_LIBCPP_VERSION)
inline constexpr std::size_t k_control_bytes = 5 * sizeof(void*);
#else
inline constexpr std::size_t k_control_bytes = 6 * sizeof(void*);
#endif

inline constexpr std::uint32_t k_no_object = 0;

struct slot {
    alignas(void*) std::byte room[k_control_bytes];
    object_stock* home = nullptr;
    std::uint32_t generation = k_no_object;

    explicit slot(object_stock& from) noexcept : home(&from) {}

    // While the slot is in a chain that belongs to one thread.
    [[nodiscard]] slot*& next() noexcept { return *reinterpret_cast<slot**>(room); }
};
static_assert(offsetof(slot, room) == 0 && sizeof(carrier) <= k_control_bytes);

template <class T>
struct slot_layout {
    static constexpr std::size_t k_align = std::max(alignof(T), k_cache_line);
    static constexpr std::size_t k_offset =
        round_up(sizeof(slot) + sizeof(count_header), std::max(alignof(T), alignof(count_header)));
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

// enable_shared_from_this<X> where T has it as a base that std::shared_ptr, too, finds: accessible, and just one.
template <class X>
std::enable_shared_from_this<X>* find_shared_from_this(std::enable_shared_from_this<X>* base);
template <class T>
concept shares_from_this = requires(T* object) { detail::find_shared_from_this(object); };

template <class X>
void forget_owner(std::enable_shared_from_this<X>& base) noexcept {
    using base_type = std::enable_shared_from_this<X>;
    // Its only member is the weak_ptr, private and never to be assigned from outside. In a class of standard layout, object
    // and first member are one address, and a pointer to the one is a pointer to the other ([basic.compound]).
    static_assert(std::is_standard_layout_v<base_type> && sizeof(base_type) == sizeof(std::weak_ptr<X>));
    std::launder(reinterpret_cast<std::weak_ptr<X>*>(std::addressof(base)))->reset();
}

// The weak_ptr inside a T that derives from enable_shared_from_this is one on itself: it keeps the control block, so the
// slot would never be free. Without its owners it means nothing any more.
template <class T>
void forget_owners([[maybe_unused]] T& object) noexcept {
    if constexpr (shares_from_this<T>)
        detail::forget_owner(*static_cast<decltype(detail::find_shared_from_this(std::addressof(object)))>(
            std::addressof(object)));
}

}  // namespace pooled::detail
