// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the handles own a slot (object/slot.hpp), by the object's address.
//
//   std::shared_ptr       its control block lies in the slot: the deleter releases the object; the allocator's deallocate, called
//                         after the last weak_ptr, recycles the slot
//   unique_ptr, rc_ptr    the word in front of the object counts, and names a type whose functions do both

#include "pooled/object/recycler.hpp"
#include "pooled/object/slot.hpp"
#include "pooled/rc_from_this.hpp"
#include "pooled/rc_ptr.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/make.hpp"
#include "pooled/smart/standard_control_block.hpp"
#include "pooled/teardown/block_type.hpp"
#include "pooled/unique_ptr.hpp"

POOLED_BEGIN_DETAIL

// Allocates the one control block in the slot.
template <class Other, class Recycler>
class control_allocator {
public:
    using value_type = Other;

    explicit control_allocator(slot& s) noexcept : m_slot(&s) {}
    template <class V>
    control_allocator(control_allocator<V, Recycler> const& other) noexcept  // NOLINT: allocators convert
        : m_slot(other.m_slot) {}

    [[nodiscard]] Other* allocate([[maybe_unused]] std::size_t n) noexcept {
        static_assert(
            sizeof(Other) <= sizeof(slot::control) && alignof(Other) <= alignof(slot),
            "pooled: this standard library's control block is larger than k_bytes_with_deleter says");
        POOLED_ASSERT(n == 1, "pooled: object_pool: a control block is one object");
        return reinterpret_cast<Other*>(m_slot->control);
    }
    void deallocate(Other* p, std::size_t) noexcept {
        slot& s = *std::launder(reinterpret_cast<slot*>(p));
        Recycler::of(s).recycle(s);
    }

    template <class V>
    [[nodiscard]] friend bool operator==(control_allocator const& a,
                                         control_allocator<V, Recycler> const& b) noexcept {
        return a.m_slot == b.m_slot;
    }

private:
    template <class, class>
    friend class control_allocator;
    slot* m_slot;
};

// The Origin of an object: its last owner releases it, and its slot is recycled with its last observer.
// Never deferred: an object rarely drops others when it is released, and a thread may be waiting for it.
template <class T, class Recycler>
struct recycled {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = true;

    static void retire(T* object) noexcept {
        slot& s = Recycler::layout::slot_of(object);
        Recycler::of(s).release(s);
    }
    template <std::size_t, std::size_t>
    static void deallocate(void* block) noexcept {
        std::byte* const object = static_cast<std::byte*>(block) + counted_object<T, recycled>::k_offset;
        auto* const header = reinterpret_cast<count_header*>(object) - 1;
        if constexpr (POOLED_CHECKED != 0)
            header->word.store(count_header::k_no_owner,
                               std::memory_order_relaxed);  // a second drop is detected
        hardened::mark_header(header);                      // likewise
        slot& s = Recycler::layout::slot_of(reinterpret_cast<T*>(object));
        Recycler::of(s).recycle(s);
    }
};

// The kinds of handle. Each is constructed before a slot is acquired, because construction may throw, and then owns the slot;
// empty for null. Always inlined, as make_shared is: a std::shared_ptr that is returned through memory is written in two halves.
template <class T, class Recycler>
struct shared_handle {
    using pointer = std::shared_ptr<T>;

    [[nodiscard]] POOLED_ALWAYS_INLINE pointer own(slot* s) const noexcept {
        if (s == nullptr) return {};
        T* const acquired = std::addressof(Recycler::layout::object_of(*s));
        if constexpr (k_hardened && k_has_rc_from_this<T>)  // the mark would be a count
            counted_object<T, recycled<T, Recycler>>::set_header(acquired, k_no_type,
                                                                 count_header::k_no_owner);
        return pointer(
            acquired, [](T* object) noexcept { recycled<T, Recycler>::retire(object); },
            control_allocator<T, Recycler>(*s));
    }
};

// Their Owner is unique_owner or rc_owner.
template <class T, class Recycler, class Owner>
struct counted_handle {
    using pointer = typename Owner::template pointer<T>;
    using counted = counted_object<T, recycled<T, Recycler>>;
    POOLED_ALWAYS_INLINE counted_handle() : type(counted::tag()) {}  // GCC would call it
    type_tag const type;
    [[nodiscard]] POOLED_ALWAYS_INLINE pointer own(slot* s) const noexcept {
        if (s == nullptr) return {};
        T* const object = std::addressof(Recycler::layout::object_of(*s));
        counted::set_header(object, type, Owner::k_counts);
        detail::introduce(object);
        return Owner::template own<T>(object);
    }
};

POOLED_END_DETAIL
