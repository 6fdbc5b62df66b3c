// SPDX-License-Identifier: BSL-1.0
#pragma once

// Allocators for containers and std::allocate_shared.
//
//   allocator<T>              empty, always equal, on the default pool
//   pool_allocator<T, Pool>   one pointer, on a given pool or local_pool

#include "pooled/config.hpp"
#include "pooled/core/bits.hpp"
#include "pooled/core/size_class.hpp"
#include "pooled/fwd.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/pool.hpp"
#include "pooled/pool/registry.hpp"

#include <cstddef>
#include <new>
#include <type_traits>

namespace pooled {

namespace detail {

template <class T>
inline constexpr class_index k_class_of = class_for(sizeof(T), alignof(T));

template <class T>
[[nodiscard]] constexpr std::size_t array_bytes(std::size_t count) {
    std::size_t const bytes = saturating_multiply(count, sizeof(T));
    if (bytes == k_size_max) throw std::bad_array_new_length();
    return bytes;
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
    template <class U>
    constexpr allocator(allocator<U> const&) noexcept {}  // NOLINT: allocators convert

    [[nodiscard]] T* allocate(std::size_t n) {
        if (n == 1) [[likely]] {
            if constexpr (detail::k_class_of<T> != detail::k_large) {
                void* const p = detail::pop_shared(detail::k_default_pool_id, detail::k_class_of<T>);
                if (p == nullptr) [[unlikely]] detail::g_registry.default_core().throw_exhausted(sizeof(T));
                return static_cast<T*>(p);
            }
        }
        detail::pool_core& core = detail::g_registry.default_core();
        std::size_t const bytes = detail::array_bytes<T>(n);
        void* const p = detail::allocate_bytes<detail::sharing::shared>(core, bytes, alignof(T));
        if (p == nullptr) [[unlikely]] core.throw_exhausted(bytes);
        return static_cast<T*>(p);
    }

    void deallocate(T* p, std::size_t n) noexcept {
        if (n == 1) [[likely]] {
            if constexpr (detail::k_class_of<T> != detail::k_large)
                return detail::push_shared(detail::k_default_pool_id, detail::k_class_of<T>, p);
        }
        detail::deallocate_bytes<detail::sharing::shared>(*detail::g_registry.find(detail::k_default_pool_id), p,
                                                          n * sizeof(T), alignof(T));
    }

    template <class U>
    [[nodiscard]] friend constexpr bool operator==(allocator const&, allocator<U> const&) noexcept {
        return true;
    }
};

// As thread-safe as its pool. Equal when of one pool. A moved or swapped container takes its pool along, a copy-assigned
// one stays in its own. Its blocks may outlive the pool; allocating after that is undefined.
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

    template <class U>
    struct rebind {
        using other = pool_allocator<U, Pool>;
    };

    pool_allocator(Pool& from) noexcept : m_core(&from.core()) {}  // NOLINT: a pool stands for its allocator
    template <class U>
    pool_allocator(pool_allocator<U, Pool> const& other) noexcept  // NOLINT: allocators convert
        : m_core(&other.core()) {}

    [[nodiscard]] T* allocate(std::size_t n) {
        std::size_t const bytes = detail::array_bytes<T>(n);
        void* p = nullptr;
        if (n == 1 && detail::k_class_of<T> != detail::k_large) [[likely]]
            p = detail::pop<Pool::k_sharing>(*m_core, detail::k_class_of<T>);
        else
            p = detail::allocate_bytes<Pool::k_sharing>(*m_core, bytes, alignof(T));
        if (p == nullptr) [[unlikely]] m_core->throw_exhausted(bytes);
        return static_cast<T*>(p);
    }

    void deallocate(T* p, std::size_t n) noexcept {
        if (n == 1 && detail::k_class_of<T> != detail::k_large) [[likely]]
            detail::push<Pool::k_sharing>(*m_core, detail::k_class_of<T>, p);
        else
            detail::deallocate_bytes<Pool::k_sharing>(*m_core, p, n * sizeof(T), alignof(T));
    }

    [[nodiscard]] detail::pool_core& core() const noexcept { return *m_core; }

    template <class U>
    [[nodiscard]] friend bool operator==(pool_allocator const& a, pool_allocator<U, Pool> const& b) noexcept {
        return &a.core() == &b.core();
    }

private:
    detail::pool_core* m_core;
};

}  // namespace pooled
