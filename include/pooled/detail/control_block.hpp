// SPDX-License-Identifier: BSL-1.0
#pragma once

// The allocator of make_shared's std::allocate_shared. It is empty, so the control block stays at 16 bytes; a pointer to the pool would
// add 8. A block of the default pool is allocated here; one of another pool was allocated before, since its type does not name
// the pool. Cascading destruction is deferred (see shared_object.hpp).

#include "pooled/config.hpp"
#include "pooled/destroy_in_place.hpp"
#include "pooled/detail/counted_elements.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/shared_object.hpp"
#include "pooled/detail/standard_control_block.hpp"
#include "pooled/impl/instrument/stale_owner.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

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
