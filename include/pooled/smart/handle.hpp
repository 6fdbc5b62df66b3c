// SPDX-License-Identifier: BSL-1.0
#pragma once

// What an rc_ptr consists of. One is for one thread at a time. O(1).

#include "pooled/smart/counted_object.hpp"

POOLED_BEGIN_DETAIL

// Eight bytes that lead both to an object as a T and to the header of its block, without knowledge of T: T may be incomplete, or
// any base of the object, with or without a virtual function.
//
//   | bytes from the object's start to its T: 16 | address of the T: 48 |
//
// Nearly all handles point to the start of their object, and then equal a plain address. Requires user-space addresses of 48
// bits, the default of x86-64 and AArch64; the page map refuses others.
template <class T>
class handle {
public:
    constexpr handle() noexcept = default;

    // Requires an object whose block has a header; it starts at `start`.
    handle(T* object, void const volatile* start) noexcept
        : handle(object, detail::address_of(object) - detail::address_of(start)) {}

    // The object of `other`, seen as a T.
    template <class Other>
    handle(handle<Other> const& other, T* object) noexcept
        : handle(object, other.empty() ? 0
                                       : other.offset() +
                                             (detail::address_of(object) - detail::address_of(other.get()))) {
    }

    // The object of `other`, which may be destroyed: only the owner order and the header are used from now on.
    template <class Other>
    [[nodiscard]] static handle of_block(handle<Other> const& other) noexcept {
        handle result;
        result.m_bits = other.m_bits;
        return result;
    }

    [[nodiscard]] T* get() const noexcept { return reinterpret_cast<T*>(m_bits & k_address_mask); }
    [[nodiscard]] constexpr bool empty() const noexcept { return m_bits == 0; }
    [[nodiscard]] std::uintptr_t offset() const noexcept { return m_bits >> k_offset_shift; }

    // The start of the complete object.
    [[nodiscard]] std::uintptr_t start() const noexcept { return (m_bits & k_address_mask) - offset(); }

    // Requires a handle that is not empty.
    [[nodiscard]] count_header& header() const noexcept {
        return *reinterpret_cast<count_header*>(start() - sizeof(count_header));
    }
    // Calls `Use` with the header, unless the handle is empty. One comparison finds that it leads to the start of an object.
    template <void (*Use)(count_header&) noexcept>
    POOLED_ALWAYS_INLINE void with_header() const noexcept {
        std::uintptr_t object = m_bits;
        if ((object - 1) >> k_offset_shift != 0) [[unlikely]] {
            if (empty()) return;
            object = start();
            asm("" : "+r"(object));  // prevents a conditional move, which would always wait for the offset
        }
        Use(*reinterpret_cast<count_header*>(object - sizeof(count_header)));
    }

private:
    template <class>
    friend class handle;
    static constexpr unsigned k_offset_shift = 48;
    static constexpr std::uintptr_t k_address_mask = (std::uintptr_t{1} << k_offset_shift) - 1;
    static_assert(sizeof(std::uintptr_t) == 8, "pooled::rc_ptr needs 64-bit addresses");

    handle(T* object, std::uintptr_t offset) noexcept
        : m_bits(detail::address_of(object) | offset << k_offset_shift) {
        POOLED_CHECK(offset < (std::uintptr_t{1} << 16),
                     "pooled::rc_ptr: a base class that lies 64 KiB or more into its object");
        if (POOLED_SANITIZE != 0 && offset != 0) sanitizer::hide_pointer(object);
    }

    std::uintptr_t m_bits = 0;
};

POOLED_END_DETAIL
