// SPDX-License-Identifier: BSL-1.0
#pragma once

// The allocator behind make_shared. It is empty, so std::shared_ptr's control block stays at 16 bytes; a pointer to the pool would
// add 8. For allocation, its type or a thread_local set for the one call names the pool; for deallocation, the page map does.
// Cascading destruction is deferred (see shared_object.hpp).

#include "pooled/config.hpp"
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

enum class initialise : bool { by_default, by_value };

// `Object` is the type that make_shared creates; void for arrays, which are never deferred. T is Object, or the type to which
// the standard library rebinds.
template <class T, class Origin, class Object = T, initialise How = initialise::by_value>
class control_block_allocator {
public:
    using value_type = T;
    using is_always_equal = std::true_type;
    template <class Other>
    struct rebind {
        using other = control_block_allocator<Other, Origin, Object, How>;
    };

    constexpr control_block_allocator() noexcept = default;
    template <class Other>
    constexpr control_block_allocator(control_block_allocator<Other, Origin, Object, How> const&) noexcept {
    }  // NOLINT: as allocators do

    [[nodiscard]] POOLED_ALWAYS_INLINE T* allocate(std::size_t n) { return Origin::template allocate<T>(n); }

    POOLED_ALWAYS_INLINE void deallocate(T* p, std::size_t n) noexcept {
        if constexpr (k_is_deferrable) {
            static_assert(sizeof(T) == standard_control_block::k_bytes<Object>);
            if (shared_object<Object, Origin>::keeps(p)) [[unlikely]]
                return;
        }
        [[maybe_unused]] frees_control_block const how(control_block_at(n));
        Origin::template deallocate<T>(p, n);
    }

    template <class Other, class... Args>
    void construct(Other* p, Args&&... args) {
        auto* const place = const_cast<std::remove_cv_t<Other>*>(p);
        if constexpr (How == initialise::by_default && sizeof...(Args) == 0)
            ::new (static_cast<void*>(place)) Other;
        else
            std::construct_at(place,
                              std::forward<Args>(args)...);  // no warning about the user's conversions
    }

    template <class Other>
    POOLED_ALWAYS_INLINE void destroy(Other* p) noexcept {
        if constexpr (k_is_deferrable)
            shared_object<Object, Origin>::drop(const_cast<Object*>(p));
        else
            std::destroy_at(p);
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool
    operator==(control_block_allocator const&,
               control_block_allocator<Other, Origin, Object, How> const&) noexcept {
        return true;
    }

private:
    // In the memory of `n` values, from its start.
    [[nodiscard]] static constexpr std::size_t control_block_at([[maybe_unused]] std::size_t n) noexcept {
        if constexpr (std::is_void_v<Object> && POOLED_CHECKED != 0)
            return standard_control_block::offset_in_array<control_block_allocator>(n);
        else
            return 0;
    }
    static constexpr bool k_is_deferrable = [] {
        if constexpr (std::is_void_v<Object>)
            return false;
        else
            return shared_object<Object, Origin>::k_is_deferrable;
    }();
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
