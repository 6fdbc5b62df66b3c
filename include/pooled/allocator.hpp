// SPDX-License-Identifier: BSL-1.0
#pragma once

// Allocators for containers and std::allocate_shared.
//
//   allocator<T>              empty, always equal, on the default pool
//   pool_allocator<T, Pool>   one pointer, on a given pool or local_pool
//
// Whoever uses an allocator destroys the objects, so none is ever deferred: a list of std::allocate_shared nodes that own one another
// overflows the stack when it is dropped, if it is long. One of pooled::make_shared does not.

#include "pooled/fwd.hpp"
#include "pooled/pool.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"

POOLED_BEGIN_NAMESPACE

namespace detail {

// `n` objects of T. One, the usual case, is inlined; others are out of line, so that its path stays small.
template <class T, class Place>
[[nodiscard]] POOLED_NOINLINE T* allocate_array(Place place, std::size_t n) {
    std::size_t const bytes = saturating_multiply(n, sizeof(T));
    if (bytes == k_size_max) POOLED_THROW(std::bad_array_new_length());
    return static_cast<T*>(detail::allocate_bytes_or_throw(place, bytes, alignof(T)));
}
template <class T, class Place>
POOLED_NOINLINE void deallocate_array([[maybe_unused]] Place place, T* p,
                                      [[maybe_unused]] std::size_t n) noexcept {
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 190000
    // libc++ 16 counts the bytes of an array of std::allocate_shared here, and elements when it allocates.
    detail::deallocate_found(p);
#else
    detail::deallocate_bytes(place, p, n * sizeof(T), alignof(T));
#endif
}
template <class T, class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE T* allocate_objects(Place place, std::size_t n) {
    constexpr class_index c = k_class_for<sizeof(T), alignof(T)>;
    if (n == 1 && c != k_large) [[likely]]
        return static_cast<T*>(detail::allocate_or_throw(place, c, sizeof(T), alignof(T)));
    return detail::allocate_array<T>(place, n);
}
template <class T, class Place>
POOLED_ALWAYS_INLINE void deallocate_objects(Place place, T* p, std::size_t n) noexcept {
    constexpr class_index c = k_class_for<sizeof(T), alignof(T)>;
    if (n == 1 && c != k_large) [[likely]]
        return detail::deallocate(place, c, p, sizeof(T));
    detail::deallocate_array(place, p, n);
}

}  // namespace detail

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

    // One of void is for rebinding.
    [[nodiscard]] T* allocate(std::size_t n)
        requires(!std::is_void_v<T>)
    {
        return detail::allocate_objects<T>(detail::in_default_pool(), n);
    }
    void deallocate(T* p, std::size_t n) noexcept
        requires(!std::is_void_v<T>)
    {
        detail::deallocate_objects(detail::in_default_pool(), p, n);
    }

    template <class Other>
    [[nodiscard]] friend constexpr bool operator==(allocator const&, allocator<Other> const&) noexcept {
        return true;
    }
};

// It is as thread-safe as its pool. Two are equal if they use the same pool. Move assignment and swap of a container propagate the
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

    pool_allocator() = delete;  // pooled: pass the container its pool: map(pool)

    // No rebind: a derived class would inherit it, and containers would then use this class instead of the derived one.
    pool_allocator(Pool& from) noexcept
        : m_core(&detail::pool_access::core(from)) {}  // NOLINT: a pool stands for its allocator
    template <class Other>
    pool_allocator(pool_allocator<Other, Pool> const& other) noexcept  // NOLINT: allocators convert
        : m_core(other.m_core) {}

    [[nodiscard]] T* allocate(std::size_t n) { return detail::allocate_objects<T>(place(*m_core), n); }
    void deallocate(T* p, std::size_t n) noexcept { detail::deallocate_objects(place(*m_core), p, n); }

    template <class Other>
    [[nodiscard]] friend bool operator==(pool_allocator const& a,
                                         pool_allocator<Other, Pool> const& b) noexcept {
        return a.m_core == pool_allocator(b).m_core;
    }

private:
    template <class, class>
    friend class pool_allocator;
    using place = detail::in_pool<detail::pool_access::k_sharing<Pool>>;

    detail::pool_core* m_core;
};

POOLED_END_NAMESPACE
