// SPDX-License-Identifier: BSL-1.0
#pragma once

// Allocators for containers and std::allocate_shared.
//
//   allocator<T>              empty, always equal, on the default pool
//   pool_allocator<T, Pool>   one pointer, on a given pool or local_pool

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/origin.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/fwd.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/pool.hpp"

#include <cstddef>
#include <new>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE {

// Thread-safe. allocate throws std::bad_array_new_length when n objects exceed the address space, else std::bad_alloc.
template <class T>
class allocator {
public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using is_always_equal = std::true_type;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    constexpr allocator() noexcept = default;
    template <class Other>
    constexpr allocator(allocator<Other> const&) noexcept {}  // NOLINT: allocators convert

    [[nodiscard]] POOLED_TRACKED_ENTRY T* allocate(std::size_t n) {
        POOLED_ACQUISITION(nullptr);
        if (n == 1 && detail::k_class_of<T> != detail::k_large) [[likely]]
            return static_cast<T*>(detail::allocate_or_throw(detail::in_default_pool{}, detail::k_class_of<T>,
                                                             sizeof(T), alignof(T)));
        return detail::allocate_array<T, detail::sharing::shared>(detail::g_registry.default_core(), n);
    }

    void deallocate(T* p, std::size_t n) noexcept {
        if (n == 1 && detail::k_class_of<T> != detail::k_large) [[likely]]
            return detail::deallocate(detail::in_default_pool{}, detail::k_class_of<T>, p, sizeof(T));
        detail::deallocate_array<T, detail::sharing::shared>(detail::g_registry.default_core(), p, n);
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool operator==(allocator const&, allocator<Other> const&) noexcept {
        return true;
    }
};

// As thread-safe as its pool. Two are equal if they use the same pool. Move assignment and swap of a container propagate the
// pool, copy assignment does not. Blocks may outlive the pool; allocating after its destruction is undefined.
template <class T, class Pool>
class pool_allocator {
public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using is_always_equal = std::false_type;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    // No rebind: a derived class would inherit it, and containers would then use this class in place of the derived one.
    pool_allocator(Pool& from) noexcept
        : m_core(&detail::pool_access::core(from)) {}  // NOLINT: a pool stands for its allocator
    template <class Other>
    pool_allocator(pool_allocator<Other, Pool> const& other) noexcept  // NOLINT: allocators convert
        : m_core(other.m_core) {}

    [[nodiscard]] POOLED_TRACKED_ENTRY T* allocate(std::size_t n) {
        POOLED_ACQUISITION(nullptr);
        if (n == 1 && detail::k_class_of<T> != detail::k_large) [[likely]]
            return static_cast<T*>(
                detail::allocate_or_throw(detail::in_pool<detail::pool_access::k_sharing<Pool>>(*m_core),
                                          detail::k_class_of<T>, sizeof(T), alignof(T)));
        return detail::allocate_array<T, detail::pool_access::k_sharing<Pool>>(*m_core, n);
    }

    void deallocate(T* p, std::size_t n) noexcept {
        if (n == 1 && detail::k_class_of<T> != detail::k_large) [[likely]]
            return detail::deallocate(detail::in_pool<detail::pool_access::k_sharing<Pool>>(*m_core),
                                      detail::k_class_of<T>, p, sizeof(T));
        detail::deallocate_array<T, detail::pool_access::k_sharing<Pool>>(*m_core, p, n);
    }

    template <class Other>
    [[nodiscard]] friend bool operator==(pool_allocator const& a,
                                         pool_allocator<Other, Pool> const& b) noexcept {
        return a.is_of_pool_of(b);
    }

private:
    template <class, class>
    friend class pool_allocator;

    template <class Other>
    [[nodiscard]] bool is_of_pool_of(pool_allocator<Other, Pool> const& other) const noexcept {
        return m_core == other.m_core;
    }

    detail::pool_core* m_core;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE
