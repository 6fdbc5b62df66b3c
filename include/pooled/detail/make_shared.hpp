// SPDX-License-Identifier: BSL-1.0
#pragma once

// How make_shared makes objects: the object and its control block in one block of the pool, with 16 bytes of overhead in libstdc++ and libc++ (24 in libc++ for its array form).

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/block_shape.hpp"
#include "pooled/detail/control_block.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/error.hpp"
#include "pooled/impl/instrument/stale_owner.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if !POOLED_HAS_EXCEPTIONS
#include "pooled/detail/make_elements.hpp"
#include "pooled/rc_ptr.hpp"
#endif

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

template <class T>
using element_of = std::remove_cv_t<std::remove_extent_t<T>>;

// What the standard library makes: libstdc++ 12 cannot construct const elements, and a pointer to others converts.
template <class T>
using made_as = std::conditional_t<std::is_array_v<T>, std::remove_cv_t<T>, T>;

// Arrays and single objects differ in that the latter may be deferred when they are dropped.
template <class T, class Origin, initialise How = initialise::by_value>
using making_allocator =
    control_block_allocator<element_of<T>, Origin,
                            std::conditional_t<std::is_array_v<T>, void, std::remove_cv_t<T>>, How>;

template <class T, initialise How = initialise::by_value, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> allocate_shared_by_default(Args&&... args) {
    return std::allocate_shared<made_as<T>>(making_allocator<T, from_default, How>(),
                                            std::forward<Args>(args)...);
}

template <class T, sharing Sharing, initialise How = initialise::by_value,
          on_failure OnFailure = on_failure::throws, class... Args>
[[nodiscard]] POOLED_ALWAYS_INLINE std::shared_ptr<T> allocate_shared_in(pool_core& core, Args&&... args) {
    t_making = &core;
    if constexpr (!std::is_array_v<T> && k_is_deferrable_type<T>)
        if (!core.is_immediate() && detail::prepare_deferral(core)) [[unlikely]] {
            return std::allocate_shared<T>(making_allocator<T, from_pool<Sharing, OnFailure, false>, How>(),
                                           std::forward<Args>(args)...);
        }
    return std::allocate_shared<made_as<T>>(making_allocator<T, from_pool<Sharing, OnFailure>, How>(),
                                            std::forward<Args>(args)...);
}

#if POOLED_HAS_EXCEPTIONS

// As allocate_shared_in(), but empty if the pool itself had no memory. A std::bad_alloc of the object's constructor propagates.
template <class T, sharing Sharing, initialise How = initialise::by_value, class... Args>
[[nodiscard]] std::shared_ptr<T> try_allocate_shared_in(pool_core& core, Args&&... args) {
    POOLED_TRY {
        return detail::allocate_shared_in<T, Sharing, How, on_failure::returns_empty>(
            core, std::forward<Args>(args)...);
    }
    POOLED_CATCH(std::bad_alloc const&) {
        if (!std::exchange(t_making_failed, false)) POOLED_RETHROW;
        return {};
    }
}

#else

// Allocates t_given_block, for a control block.
inline constexpr std::size_t k_given_bytes = 128;
template <class T>
struct given_block_allocator {
    using value_type = T;

    constexpr given_block_allocator() noexcept = default;
    template <class Other>
    constexpr given_block_allocator(given_block_allocator<Other> const&) noexcept {
    }  // NOLINT: as allocators do

    [[nodiscard]] T* allocate(std::size_t) noexcept {
        static_assert(sizeof(T) <= k_given_bytes && alignof(T) <= alignof(std::max_align_t));
        return static_cast<T*>(std::exchange(t_given_block, nullptr));
    }
    void deallocate(T* p, std::size_t) noexcept {
        [[maybe_unused]] frees_control_block const how(0);
        detail::deallocate_found(p);
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool operator==(given_block_allocator const&,
                                                   given_block_allocator<Other> const&) noexcept {
        return true;
    }
};

// Standard libraries do not specify the size of an array's block, so the control block of an array gets its own block.
template <class T, sharing Sharing, initialise How = initialise::by_value, class... Args>
[[nodiscard]] std::shared_ptr<T> try_allocate_shared_in(pool_core& core, Args&&... args) {
    using place = in_pool<Sharing>;
    if constexpr (std::is_array_v<T>) {
        auto elements = [&] {
            using enum on_failure;
            if constexpr (How == initialise::by_default)
                return detail::make_array<T, among_threads, Sharing, returns_empty>(core, args...,
                                                                                    for_overwrite());
            else
                return detail::make_array<T, among_threads, Sharing, returns_empty>(core, args...);
        }();
        if (elements == nullptr) return {};
        t_given_block = detail::try_allocate_bytes(place(core), k_given_bytes, alignof(std::max_align_t));
        if (t_given_block == nullptr) return {};
        auto* const first = elements.get();
        return std::shared_ptr<T>(first, drop_owner<rc_ptr<T>>{std::move(elements)},
                                  given_block_allocator<std::byte>());
    } else {
        block_shape const shape = detail::shared_block_shape<std::remove_cv_t<T>>();
        t_given_block = detail::try_allocate_bytes(place(core), shape.bytes, shape.align);
        if (t_given_block == nullptr) return {};
        return detail::allocate_shared_in<T, Sharing, How, on_failure::returns_empty>(
            core, std::forward<Args>(args)...);
    }
}

#endif

// The standard libraries add the control block to an array's size without a check.
template <class T>
[[nodiscard]] constexpr bool has_too_many(std::size_t count, auto const&...) noexcept {
    return count > k_size_max / 2 / sizeof(element_of<T>);
}

// The blocks that the make_ forms of a single T take: make_shared's, and the one that make_unique and make_rc share. Throws
// std::bad_alloc.
template <class T>
[[nodiscard]] std::array<block_shape, 2> reserve_shapes() {
    using counted = counted_object<std::remove_cv_t<T>, from_default>;
    return {shared_block_shape<std::remove_cv_t<T>>(), block_shape{counted::k_bytes, counted::k_align}};
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
