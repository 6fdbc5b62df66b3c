// SPDX-License-Identifier: BSL-1.0
#pragma once

// The allocator of make_shared's std::allocate_shared. It is empty, so the control block stays at 16 bytes; a pointer to the pool would
// add 8. A block of the default pool is allocated here; one of another pool was allocated before, since its type does not name
// the pool.

#include "pooled/config.hpp"
#include "pooled/destroy_in_place.hpp"
#include "pooled/detail/counted_elements.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/standard_control_block.hpp"
#include "pooled/impl/instrument/checked_memory.hpp"
#include "pooled/impl/instrument/sanitizer.hpp"
#include "pooled/impl/teardown/block_type.hpp"
#include "pooled/impl/teardown/deferred_queue.hpp"
#include "pooled/impl/teardown/incremental.hpp"
#include "pooled/impl/teardown/teardown.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// How an object of make_shared is deferred. std::shared_ptr destroys it through the allocator and, when no weak pointer is
// left, deallocates its block right after. Deferral means that the allocator does neither when it is called.
//
//   not observed      destroy: remember the type; deallocate, which follows at once: the whole block is deferred
//   observed          destroy: take a weak reference, so that the block outlives the object; the object is deferred, and the
//                     reference is dropped when it is destroyed, by the rule of the standard library in use
//
// An object that derives from std::enable_shared_from_this observes itself.
template <class T, class Origin>
class shared_object {
    using control = standard_control_block;

public:
    // Called when the last owner is gone.
    POOLED_ALWAYS_INLINE static void drop(T* object) noexcept {
        if (Origin::k_is_immediate && t_teardown.may_recurse()) [[likely]]
            return std::destroy_at(object);
        drop_slow(object);
    }

    // Whether the block must stay because its object is deferred. Must be called before the block of a T is deallocated.
    [[nodiscard]] POOLED_ALWAYS_INLINE static bool keeps(void* block) noexcept {
        teardown_state& state = t_teardown;
        if (state.awaited == k_no_type) [[likely]]
            return false;
        // The control block's destructor ran, so MemorySanitizer considers its bytes, which include the object, uninitialized.
        sanitizer::unpoison(block, control::k_bytes<T>);
        deferred const d(block, std::exchange(state.awaited, k_no_type), false);
        if (POOLED_SANITIZE == 0) detail::write_stale_owner(block);  // a second drop is reported
        defer(d, object_in(block));
        return true;
    }

private:
    POOLED_NOINLINE static void drop_slow(T* object) noexcept {
        if constexpr (Origin::k_is_immediate) {
            if (detail::try_destroy(object, false)) return;
        } else {
            if (!detail::is_incremental(block_of(object)) && detail::try_destroy(object, true)) return;
        }
        defer_later(object);
    }

    POOLED_NOINLINE static void defer_later(T* object) noexcept {
        type_tag const type = detail::tag_of<k_type>();
        if (type == k_no_type) [[unlikely]]
            return std::destroy_at(object);  // after 16256 types it recurses as the standard's own
        void* const block = block_of(object);
        if (!control::is_observed(block)) {
            t_teardown.awaited = type;
            return;
        }
        control::add_weak(block);
        defer(deferred(block, type, true), object);
    }

    static void defer(deferred d, T const* object) noexcept {
        if constexpr (Origin::k_is_immediate)
            detail::defer_to_outermost(d, object, sizeof(T));
        else
            detail::defer_or_finish(d, object, sizeof(T));
    }

    static void* block_of(T* object) noexcept {
        return reinterpret_cast<std::byte*>(object) - control::k_object_offset<T>;
    }
    static T* object_in(void* block) noexcept {
        return std::launder(
            reinterpret_cast<T*>(static_cast<std::byte*>(block) + control::k_object_offset<T>));
    }

    static void finish(void* block) noexcept {
        std::destroy_at(object_in(block));
        [[maybe_unused]] frees_control_block const how(0);
        Origin::deallocate(block, control::k_bytes<T>, control::k_align<T>);
    }
    static void finish_observed(void* block) noexcept {
        if (POOLED_CHECKED != 0 && !control::is_only_weak(block))
            detail::fail_stale_owner(block, "std::shared_ptr");
        std::destroy_at(object_in(block));
        control::release_weak(block);
    }

    static constexpr block_type k_type{.retire = nullptr,
                                       .retire_observed = nullptr,
                                       .finish = finish,
                                       .finish_observed = finish_observed,
                                       .free = nullptr,
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
            return static_cast<T*>(
                detail::allocate_object<sizeof(T), alignof(T), on_failure::throws>(in_default_pool{}));
        else
            return static_cast<T*>(t_given_block);
    }
    POOLED_ALWAYS_INLINE void deallocate(T* p, std::size_t) noexcept {
        if constexpr (k_is_deferrable_type<Object>)
            if (shared_object<Object, Origin>::keeps(p)) [[unlikely]]
                return;
        [[maybe_unused]] frees_control_block const how(0);
        Origin::deallocate(p, sizeof(T), alignof(T));
    }

    template <class Other, class... Args>
    void construct(Other* p, Args&&... args) {
        using object = std::remove_cv_t<Other>;
        static_cast<void>(detail::construct_in<object>(const_cast<object*>(p), std::forward<Args>(args)...));
    }
    template <class Other>
    POOLED_ALWAYS_INLINE void destroy(Other* p) noexcept {
        if constexpr (k_is_deferrable_type<Object>)
            shared_object<Object, Origin>::drop(const_cast<Object*>(p));
        else
            std::destroy_at(p);
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool
    operator==(control_block_allocator const&,
               control_block_allocator<Other, Origin, Object> const&) noexcept {
        return true;
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
