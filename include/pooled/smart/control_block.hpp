// SPDX-License-Identifier: BSL-1.0
#pragma once

// The allocator of make_shared's std::allocate_shared, and where the blocks of objects return to.
//
// It is empty, so the control block stays at 16 bytes; a pointer to the pool would add 8. A block of the default pool is allocated
// here; one of another pool was allocated before, since its type does not name the pool.

#include "pooled/base/sanitizer.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/destroy_in_place.hpp"
#include "pooled/heap/checked_memory.hpp"
#include "pooled/instrument/malloc_backed.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/smart/counted_object.hpp"
#include "pooled/smart/standard_control_block.hpp"
#include "pooled/teardown/block_type.hpp"
#include "pooled/teardown/deferred_queue.hpp"
#include "pooled/teardown/teardown.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

POOLED_BEGIN_NAMESPACE
namespace detail {

// The block for the control block of the std::allocate_shared that this thread is about to call.
struct given_block {
    void* address = nullptr;
};
POOLED_HOT_THREAD_STATE(given_block, t_given_block, {});

// Where an object's block returns to: an Origin, a parameter of the empty allocators and of the numbered block types. All pools but the
// default one are found by the block's address. Whether the pool's teardown is immediate is determined when an object is made, not when
// it is dropped.
//
//   from_default       the default pool: known at compile time, nothing to look up
//   from_pool<…>       a given pool, in a block of the object's size
//   from_any<…>        any pool, in a block of any size
struct from_default {
    static constexpr bool k_is_default = true;
    static constexpr bool k_is_immediate = true;
    using deferring = from_default;

    // Requires a block of at least `bytes` at `align`.
    POOLED_ALWAYS_INLINE static void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        class_index const c = class_for(bytes, align);
        if (c == k_large) [[unlikely]]
            return detail::deallocate_bytes(in_default_pool{}, p, bytes, align);
        detail::deallocate_object(in_default_pool{}, c, p, bytes);
    }
};

template <sharing Sharing, bool IsImmediate = true>
struct from_pool {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;
    using deferring = from_pool<Sharing, false>;

    POOLED_ALWAYS_INLINE static void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        of_block<Sharing> const place(malloc_blocks::find_owned(p));
        class_index const c = class_for(bytes, align);
        if (c == k_large) [[unlikely]]
            return detail::deallocate_bytes(place, p, bytes, align);
        detail::deallocate_object(place, c, p, bytes);
    }
};

template <bool IsImmediate = true>
struct from_any {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;
    using deferring = from_any<false>;

    static void deallocate(void* p, std::size_t, std::size_t) noexcept { detail::deallocate_found(p); }
};

// How an object of make_shared is deferred. std::shared_ptr destroys it through the allocator and, when no weak pointer is
// left, deallocates its block right after. Deferral means that the allocator does neither when it is called.
//
//   not observed      destroy: remember the type; deallocate, which follows at once: the whole block is deferred
//   observed          destroy: take a weak reference, so that the block outlives the object; the object is deferred, and the
//                     reference is dropped when it is destroyed, by the rule of the standard library in use
//
// An object that derives from std::enable_shared_from_this observes itself.
// Of an object whose last owner is gone, and of a block that follows it.
POOLED_API void defer_shared(void* block, type_tag type, bool is_immediate) noexcept;
POOLED_API void defer_shared_block(void* block, std::size_t object_offset, std::size_t object_bytes,
                                   bool is_immediate) noexcept;

#if POOLED_HAS_CODE

POOLED_CODE void defer_shared(void* block, type_tag type, bool is_immediate) noexcept {
    using control = standard_control_block;
    if (!control::is_observed(block)) {
        POOLED_THREAD_SET(t_drop_window, awaited, type);
        return;
    }
    control::add_weak(block);
    deferred const d(block, type, true);
    detail::defer_object(d, d.object(), d.type().object_bytes, is_immediate);
}

POOLED_CODE void defer_shared_block(void* block, std::size_t object_offset, std::size_t object_bytes,
                                    bool is_immediate) noexcept {
    deferred const d(block, std::exchange(t_drop_window().awaited, k_no_type), false);
    // The control block's destructor ran, so MemorySanitizer considers its bytes, which include the object, uninitialized.
    sanitizer::unpoison(block, object_offset + object_bytes);
    if (POOLED_SANITIZE == 0) detail::write_stale_owner(block);  // a second drop is reported
    detail::defer_object(d, static_cast<std::byte*>(block) + object_offset, object_bytes, is_immediate);
}

#endif

template <class T, class Origin>
class shared_object {
    using control = standard_control_block;

public:
    // Called when the last owner is gone, and not known to be safe within the destructor that drops the object.
    POOLED_NOINLINE static void drop_slow(T* object) noexcept {
        void* const block = reinterpret_cast<std::byte*>(object) - control::k_object_offset<T>;
        if (detail::try_destroy_in<Origin::k_is_immediate>(block, object)) return;
        type_tag const type = detail::tag_of<k_type>();
        if (type == k_no_type) [[unlikely]]
            return std::destroy_at(object);  // after 16256 types it recurses as the standard's own
        detail::defer_shared(block, type, Origin::k_is_immediate);
    }

private:
    static T* object_in(void* block) noexcept {
        return std::launder(
            reinterpret_cast<T*>(static_cast<std::byte*>(block) + control::k_object_offset<T>));
    }

    static void finish(void* block, bool is_observed) noexcept {
        if (POOLED_CHECKED != 0 && is_observed && !control::is_only_weak(block))
            detail::fail_stale_owner(block, "std::shared_ptr");
        std::destroy_at(object_in(block));
        if (is_observed) return control::release_weak(block);
        detail::write_stale_owner(block);
        Origin::deallocate(block, control::k_bytes<T>, control::k_align<T>);
    }

    static constexpr block_type k_type{.retire = nullptr,
                                       .retire_observed = nullptr,
                                       .free = nullptr,
                                       .finish = finish,
                                       .object_offset = control::k_object_offset<T>,
                                       .object_bytes = sizeof(T)};
};

// `Object` is the type that make_shared creates. T is Object, or the type to which the standard library rebinds.
template <class T, class Origin, class Object = T>
class control_block_allocator {
    using control = standard_control_block;

public:
    using value_type = T;
    using is_always_equal = std::true_type;
    template <class Other>
    struct rebind {
        using other = control_block_allocator<Other, Origin, Object>;
    };

    constexpr control_block_allocator() noexcept = default;
    template <class Other>
    constexpr control_block_allocator(control_block_allocator<Other, Origin, Object> const&) noexcept {
    }  // NOLINT: as allocators do

    [[nodiscard]] POOLED_ALWAYS_INLINE T* allocate(std::size_t) {
        static_assert(
            sizeof(T) == control::k_bytes<Object> && alignof(T) == control::k_align<Object>,
            "pooled: this standard library's control block is not as standard_control_block.hpp says");
        if constexpr (Origin::k_is_default)
            return static_cast<T*>(detail::allocate_bytes_or_throw(in_default_pool{}, sizeof(T), alignof(T)));
        else
            return static_cast<T*>(POOLED_THREAD_GET(t_given_block, address));
    }
    POOLED_ALWAYS_INLINE void deallocate(T* p, std::size_t) noexcept {
        if constexpr (k_is_deferrable_type<Object>)
            if (detail::is_block_awaited()) [[unlikely]]
                return detail::defer_shared_block(p, control::k_object_offset<Object>, sizeof(Object),
                                                  Origin::k_is_immediate);
        detail::write_stale_owner(p);
        Origin::deallocate(p, sizeof(T), alignof(T));
    }

    // Other objects are constructed, and destroyed, as std::allocator_traits does by itself.
    template <class Other, std::same_as<for_overwrite> Initial>
    void construct(Other* p, Initial) {
        ::new (static_cast<void*>(const_cast<Object*>(p))) Object;
    }
    template <class Other>
        requires k_is_deferrable_type<Object>
    POOLED_ALWAYS_INLINE void destroy(Other* p) noexcept {
        if (Origin::k_is_immediate && detail::may_recurse()) [[likely]]
            return std::destroy_at(p);
        shared_object<Object, Origin>::drop_slow(const_cast<Object*>(p));
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool
    operator==(control_block_allocator const&,
               control_block_allocator<Other, Origin, Object> const&) noexcept {
        return true;
    }
};

}  // namespace detail
POOLED_END_NAMESPACE
