// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the handles own a slot.
//
//   std::shared_ptr       its control block lies in the slot: the deleter releases the object; the allocator's deallocate, called
//                         after the last weak_ptr, recycles the slot
//   unique_ptr, rc_ptr    the word in front of the object counts, and names a type whose functions do both
//
// No handle holds more than the object's address: the slot begins at a fixed distance in front of it.

#include "pooled/config.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/make.hpp"
#include "pooled/detail/slot.hpp"
#include "pooled/detail/standard_control_block.hpp"
#include "pooled/impl/instrument/tracked.hpp"
#include "pooled/impl/teardown/block_type.hpp"
#include "pooled/rc_from_this.hpp"
#include "pooled/unique_ptr.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

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
        static_assert(sizeof(Other) <= sizeof(slot::control) && alignof(Other) <= alignof(slot),
                      "pooled: this standard library's control block is larger than k_control_bytes says");
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

template <class Recycler>
struct shared_releaser {
    template <class T>
    void operator()(T* object) const noexcept {
        slot& s = Recycler::layout::slot_of(object);
        Recycler::of(s).release(s);
    }
};

// The type that the word in front of the object names, for handles that know only that word.
template <class T, class Recycler>
class recycled_object {
public:
    // Throws std::length_error when the process has too many types of counted objects.
    [[nodiscard]] static type_tag tag() { return detail::tag_or_throw<k_type>(); }

    // `counts`: count_header::k_sole or k_unique.
    static T* set_header(slot& s, type_tag type, std::uint64_t counts) noexcept {
        T* const object = std::addressof(Recycler::layout::object_of(s));
        ::new (static_cast<void*>(reinterpret_cast<std::byte*>(object) - sizeof(count_header)))
            count_header{counts | type};
        detail::introduce(object);
        return object;
    }

private:
    static slot& slot_of(void* header) noexcept {
        return Recycler::layout::slot_of(
            reinterpret_cast<T*>(static_cast<std::byte*>(header) + sizeof(count_header)));
    }
    static count_header& header_at(void* header) noexcept { return *static_cast<count_header*>(header); }

    static void retire(void* header) noexcept {
        if constexpr (k_has_rc_from_this<T>) {  // on_release may ask it for another owner
            count_header& h = header_at(header);
            h.word.store(h.word.load(std::memory_order_relaxed) & ~count_header::k_strong_mask,
                         std::memory_order_relaxed);
            return retire_observed(header);
        } else {
            slot& s = slot_of(header);
            Recycler::of(s).release(s);
            free(header);
        }
    }
    static void retire_observed(void* header) noexcept {
        slot& s = slot_of(header);
        Recycler::of(s).release(s);
        header_at(header).release_weak();
    }
    static void free(void* header) noexcept {
        if constexpr (POOLED_CHECKED != 0)
            header_at(header).word.store(0, std::memory_order_relaxed);  // a second drop is detected
        instrument::mark_header(header);                                 // likewise
        slot& s = slot_of(header);
        Recycler::of(s).recycle(s);
    }

    // Released immediately, never deferred: an object rarely drops others when it is released, and a thread may be waiting for
    // it. So `finish` is the same as `retire`.
    static constexpr block_type k_type{.retire = retire,
                                       .retire_observed = retire_observed,
                                       .finish = retire,
                                       .finish_observed = retire_observed,
                                       .free = free,
                                       .object_offset = sizeof(count_header),
                                       .object_bytes = sizeof(T)};
};

// The kinds of handle. Each is constructed before a slot is acquired, because construction may throw, and then owns the slot;
// empty for null. Always inlined, as make_shared is: a std::shared_ptr that is returned through memory is written in two halves.
template <class T, class Recycler>
struct shared_handle {
    using pointer = std::shared_ptr<T>;
    static constexpr tracking::weak_test k_is_only_weak = &standard_control_block::is_only_weak;

    [[nodiscard]] POOLED_ALWAYS_INLINE pointer own(slot* s) const noexcept {
        if (s == nullptr) return {};
        return pointer(std::addressof(Recycler::layout::object_of(*s)), shared_releaser<Recycler>{},
                       control_allocator<T, Recycler>(*s));
    }
};

template <class T, class Recycler>
struct unique_handle {
    using pointer = unique_ptr<T>;
    static constexpr tracking::weak_test k_is_only_weak = nullptr;

    type_tag const type = recycled_object<T, Recycler>::tag();
    [[nodiscard]] POOLED_ALWAYS_INLINE pointer own(slot* s) const noexcept {
        if (s == nullptr) return {};
        return pointer(recycled_object<T, Recycler>::set_header(*s, type, count_header::k_unique));
    }
};

template <class T, class Recycler, class Counting>
struct rc_handle {
    using pointer = rc_ptr_of<T, Counting>;
    static constexpr tracking::weak_test k_is_only_weak = &is_only_weakly_counted<Recycler::layout::k_offset>;

    type_tag const type = recycled_object<T, Recycler>::tag();
    [[nodiscard]] POOLED_ALWAYS_INLINE pointer own(slot* s) const noexcept {
        if (s == nullptr) return {};
        return rc_owner<Counting>::template own<T>(
            recycled_object<T, Recycler>::set_header(*s, type, count_header::k_sole));
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
