// SPDX-License-Identifier: BSL-1.0
#pragma once

// The allocator of make_shared's std::allocate_shared, and where the blocks of objects return to.
//
// It is empty, so the control block stays at 16 bytes; a pointer to the pool would add 8. A block of the default pool is allocated
// here; one of another pool was allocated before, since its type does not name the pool.

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

POOLED_BEGIN_DETAIL

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

    // Requires a block of at least that many bytes, at that alignment.
    template <std::size_t Bytes, std::size_t Align>
    POOLED_ALWAYS_INLINE static void deallocate(void* p) noexcept {
        constexpr class_index c = k_class_for<Bytes, Align>;
        if constexpr (c == k_large)
            deallocate_slow(k_default_pool_id, c, p, Bytes);
        else
            detail::deallocate_object(in_default_pool{}, c, p, Bytes);
    }
};

template <sharing Sharing, bool IsImmediate = true>
struct from_pool {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;
    using deferring = from_pool<Sharing, false>;

    template <std::size_t Bytes, std::size_t Align>
    POOLED_ALWAYS_INLINE static void deallocate(void* p) noexcept {
        of_block<Sharing> const place(malloc_blocks::find_owned(p));
        constexpr class_index c = k_class_for<Bytes, Align>;
        if constexpr (c == k_large)
            deallocate_slow(place.id(), c, p, Bytes);
        else
            detail::deallocate_object(place, c, p, Bytes);
    }
};

template <bool IsImmediate = true>
struct from_any {
    static constexpr bool k_is_default = false;
    static constexpr bool k_is_immediate = IsImmediate;
    using deferring = from_any<false>;

    template <std::size_t, std::size_t>
    static void deallocate(void* p) noexcept {
        detail::deallocate_found(p);
    }
};

// How an object of make_shared is deferred. std::shared_ptr destroys it through the allocator and, when no weak pointer is
// left, deallocates its block right after. Deferral means that the allocator does neither when it is called.
//
//   not observed      destroy: remember the type; deallocate, which follows at once: the whole block is deferred
//   observed          destroy: take a weak reference, so that the block outlives the object; the object is deferred, and the
//                     reference is dropped when it is destroyed, by the rule of the standard library in use
//
// An object that derives from std::enable_shared_from_this observes itself. What depends on the type is a constant, shared_type::k_type;
// the code is the same for all types.

// Defers an object whose last owner is gone.
POOLED_API void defer_shared(void* block, type_tag type, bool is_immediate) noexcept;
// All their block types have this operation of that name.
POOLED_API void finish_shared(block_type const& type, void* block, bool is_observed) noexcept;

#if POOLED_HAS_CODE

POOLED_CODE void defer_shared(void* block, type_tag type, bool is_immediate) noexcept {
    using control = standard_control_block;
    if (!control::is_observed(block)) {
        POOLED_THREAD_SET(t_drop_window, awaited, type);
        t_state().close_default_gate();  // deallocate_shared() asks nothing else
        return;
    }
    control::add_weak(block);
    deferred const d(block, type, true);
    detail::defer_object(d, d.object(), d.type().object_bytes, is_immediate);
}

POOLED_CODE void defer_shared_block(void* block, bool is_immediate) noexcept {
    deferred const d(block, std::exchange(t_drop_window().awaited, k_no_type), false);
    t_state().open_default_gate();
    block_type const& type = d.type();
    // MemorySanitizer considers the bytes of the control block, which include the object, uninitialized.
    sanitizer::unpoison(block, type.object_offset + type.object_bytes);
    if (POOLED_SANITIZE == 0) detail::write_stale_owner(block);  // a second drop is reported
    detail::defer_object(d, d.object(), type.object_bytes, is_immediate);
}

POOLED_CODE void finish_shared(block_type const& type, void* block, bool is_observed) noexcept {
    using control = standard_control_block;
    if (POOLED_CHECKED != 0 && is_observed && !control::is_only_weak(block))
        detail::fail_stale_owner(block, "std::shared_ptr");
    type.destroy(static_cast<std::byte*>(block) + type.object_offset);
    if (is_observed) return control::release_weak(block);
    detail::write_stale_owner(block);
    type.free(block);
}

#endif

// Prefetches what the second word of an object that is about to be destroyed points to, if the object is longer than a list's node. Members
// are destroyed in reverse order, so of several children the first one is needed last, and a std::shared_ptr has two words. No branch: a word
// that is no address has no effect. In halves, since a processor waits until two numbers that were just written are in its cache before it
// reads both as one; what follows a virtual table is often shorter than those. Assembly, as the word may be indeterminate.
template <class T>
POOLED_ALWAYS_INLINE void prefetch_child([[maybe_unused]] void const volatile* object) noexcept {
#if defined(__x86_64__) && defined(__OPTIMIZE__)  // else it makes each frame of a nested drop larger
    using any_half [[gnu::may_alias]] = std::uint32_t const volatile;
    if constexpr (k_has_cache && sizeof(T) > 32 && alignof(T) >= sizeof(void*) && !std::is_polymorphic_v<T>) {
        auto* const halves = static_cast<any_half*>(object) + 2;
        std::uint64_t low = 0;
        std::uint64_t high = 0;
        asm volatile("{movl %1, %k0|mov %k0, %1}" : "=r"(low) : "m"(halves[0]));
        asm volatile("{movl %1, %k0|mov %k0, %1}" : "=r"(high) : "m"(halves[1]));
        __builtin_prefetch(reinterpret_cast<void const*>(low | high << 32));
    }
#endif
}

// Called when the last owner is gone, and not known to be safe within the destructor that drops the object. In each file: the table of
// types then refers to the file that has the type.
template <bool IsImmediate>
POOLED_HIDDEN POOLED_NOINLINE void drop_shared_slow(void* object, block_type const& type,
                                                    atomic<type_tag>& tag) noexcept {
    void* const block = static_cast<std::byte*>(object) - type.object_offset;
    if (detail::try_destroy_in(block, IsImmediate, type.destroy, object)) return;
    type_tag const known = detail::tag_of(type, tag);
    if (known == k_no_type) [[unlikely]]
        return type.destroy(object);  // after 16256 types it recurses as the standard's own
    detail::defer_shared(block, known, IsImmediate);
}

template <class T, class Origin>
class shared_type {
    using control = standard_control_block;
    static constexpr std::size_t k_bytes = control::k_bytes<T>;
    static constexpr std::size_t k_align = control::k_align<T>;
    static consteval block_type::operation free() noexcept {
        if constexpr (Origin::k_is_default && k_has_shared_code<k_bytes, k_align>)
            return deallocate_shared<k_class_for<k_bytes, k_align>>;
        else
            return free_block<Origin, k_bytes, k_align>;
    }

public:
    static constexpr block_type k_type{.retire = nullptr,
                                       .retire_observed = nullptr,
                                       .free = free(),
                                       .finish = finish_shared,
                                       .object_offset = control::k_object_offset<T>,
                                       .object_bytes = sizeof(T),
                                       .destroy = destroy_object<T>};
};

// Empty. make_shared passes one of char, the same for all types, because each allocator costs a compiler ten milliseconds; the standard
// library rebinds it to its control block.
template <class T, class Origin>
class shared_block_of {
    using control = standard_control_block;
    // The object is unknown where T is not the control block.
    template <class Control>
    using object_in = typename object_in_control_block<Control>::type;

public:
    using value_type = T;
    using is_always_equal = std::true_type;

    constexpr shared_block_of() noexcept = default;
    template <class Other>
    constexpr shared_block_of(shared_block_of<Other, Origin> const&) noexcept {}  // NOLINT: as allocators do

    [[nodiscard]] POOLED_ALWAYS_INLINE T* allocate(std::size_t) {
        using object = object_in<T>;
        static_assert(
            sizeof(T) == control::k_bytes<object> && alignof(T) == control::k_align<object>,
            "pooled: this standard library's control block is not as standard_control_block.hpp says");
        if constexpr (Origin::k_is_default && k_is_deferrable_type<object> &&
                      k_has_shared_code<sizeof(T), alignof(T)>)
            return static_cast<T*>(detail::allocate_shared(k_class_for<sizeof(T), alignof(T)>,
                                                           detail::packed_request<sizeof(T), alignof(T)>()));
        else if constexpr (Origin::k_is_default)
            return static_cast<T*>(detail::allocate_or_throw(
                in_default_pool{}, k_class_for<sizeof(T), alignof(T)>, sizeof(T), alignof(T)));
        else
            return static_cast<T*>(POOLED_THREAD_GET(t_given_block, address));
    }
    POOLED_ALWAYS_INLINE void deallocate(T* p, std::size_t) noexcept {
        if constexpr (Origin::k_is_default && k_is_deferrable_type<object_in<T>> &&
                      k_has_shared_code<sizeof(T), alignof(T)>) {
            detail::deallocate_shared<k_class_for<sizeof(T), alignof(T)>>(p);
        } else {
            if constexpr (k_is_deferrable_type<object_in<T>>)
                if (detail::is_block_awaited()) [[unlikely]]
                    return detail::defer_shared_block(p, Origin::k_is_immediate);
            detail::write_stale_owner(p);
            if constexpr (Origin::k_is_immediate)
                Origin::template deallocate<sizeof(T), alignof(T)>(p);
            else
                detail::free_block<Origin, sizeof(T), alignof(T)>(p);
        }
    }

    // Other objects are constructed, and destroyed, as std::allocator_traits does by itself.
    template <class Other, std::same_as<for_overwrite> Initial>
    void construct(Other* p, Initial) {
        using object = std::remove_cv_t<Other>;
        ::new (static_cast<void*>(const_cast<object*>(p))) object;
    }
    template <class Other>
        requires k_is_deferrable_type<Other>
    POOLED_ALWAYS_INLINE void destroy(Other* p) noexcept {
        if (Origin::k_is_immediate && detail::may_recurse()) [[likely]] {
            detail::prefetch_child<Other>(p);
            return std::destroy_at(p);
        }
        using object = std::remove_cv_t<Other>;
        constexpr block_type const& type = shared_type<object, Origin>::k_type;
        detail::drop_shared_slow<Origin::k_is_immediate>(const_cast<object*>(p), type, g_tag_of<type>);
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool operator==(shared_block_of const&,
                                                   shared_block_of<Other, Origin> const&) noexcept {
        return true;
    }
};

// The allocator of the default pool. Its name is a part of each control block's: a short one saves 30 bytes a type.
struct std_block : shared_block_of<char, from_default> {
    template <class Other>
    struct rebind {
        using other = shared_block_of<Other, from_default>;
    };
};

POOLED_END_DETAIL
