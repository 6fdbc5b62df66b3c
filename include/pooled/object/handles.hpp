// SPDX-License-Identifier: BSL-1.0
#pragma once

// How a slot is owned.
//
//   std::shared_ptr   its control block is built in the slot's room: the deleter releases, the allocator's deallocate, called
//                     after the last weak_ptr, brings the slot home
//   std::unique_ptr   the deleter does both
//
// Deleters are empty: the slot lies at a fixed distance in front of the object.

#include "pooled/config.hpp"
#include "pooled/object/recycler.hpp"
#include "pooled/object/slot.hpp"
#include "pooled/pool/core.hpp"

#include <cstddef>
#include <memory>
#include <new>

namespace pooled::detail {

// Gives out the room of one slot, once.
template <class U, class Recycler>
class room_allocator {
public:
    using value_type = U;

    explicit room_allocator(slot& s) noexcept : m_slot(&s) {}
    template <class V>
    room_allocator(room_allocator<V, Recycler> const& other) noexcept  // NOLINT: allocators convert
        : m_slot(other.m_slot) {}

    [[nodiscard]] U* allocate([[maybe_unused]] std::size_t n) noexcept {
        static_assert(sizeof(U) <= sizeof(slot::room) && alignof(U) <= alignof(slot),
                      "pooled: this standard library's control block is larger than k_control_bytes says");
        POOLED_ASSERT(n == 1, "pooled: object_pool: a control block is one object");
        return reinterpret_cast<U*>(m_slot->room);
    }
    void deallocate(U* p, std::size_t) noexcept {
        slot& s = *std::launder(reinterpret_cast<slot*>(p));
        Recycler::of(s).come_home(s);
    }

    template <class V>
    [[nodiscard]] friend bool operator==(room_allocator const& a,
                                         room_allocator<V, Recycler> const& b) noexcept {
        return a.m_slot == b.m_slot;
    }

private:
    template <class, class>
    friend class room_allocator;
    slot* m_slot;
};

template <class Recycler>
struct shared_releaser {
    template <class T>
    void operator()(T* object) const noexcept {
        slot& s = Recycler::layout::slot_of(object);
        Recycler::of(s).release(s);
    }
};

template <class T, class Lifecycle, sharing Sharing>
struct unique_releaser {
    void operator()(T* object) const noexcept {
        using recycler_type = recycler<T, Lifecycle, Sharing>;
        slot& s = slot_layout<T>::slot_of(object);
        recycler_type::of(s).release(s);
        recycler_type::of(s).come_home(s);
    }
};

// Always inlined, as make_shared is: a std::shared_ptr that is returned through memory is written in two halves.
template <class T, class Recycler>
[[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> share(slot* s) noexcept {
    if (s == nullptr) return {};
    return std::shared_ptr<T>(&Recycler::layout::object_of(*s), shared_releaser<Recycler>{},
                              room_allocator<T, Recycler>(*s));
}

}  // namespace pooled::detail
